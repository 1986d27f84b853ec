import { describe, expect, test } from "vitest";
import { type OperatorSettings, parseCommand, SettingsError, USAGE } from "./settings.ts";

function settingsOf(args: readonly string[], env: Readonly<Record<string, string>> = {}): OperatorSettings {
  const command = parseCommand(["run", ...args], env, "1.2.3");
  if (command.name !== "run") throw new Error(command.name);
  return command.settings;
}

test("says nothing: everything has a default", () => {
  expect(settingsOf([])).toMatchObject({
    namespaces: [],
    leaseName: "sallyport-operator",
    electsLeader: true,
    healthPort: 8080,
    resyncMs: 600_000,
    logLevel: "info",
    logFormat: "auto",
    routerImage: "sallyport/router:1.2.3",
    controllerImage: "sallyport/controller:1.2.3",
  });
});

// biome-ignore format: a table
test.each<[string[], Record<string, string>, Partial<OperatorSettings>]>([
  [["--namespaces", "a, b,"], {}, { namespaces: ["a", "b"] }],
  [[], { SALLYPORT_NAMESPACES: "c" }, { namespaces: ["c"] }],
  [["--namespaces", "a"], { SALLYPORT_NAMESPACES: "c" }, { namespaces: ["a"] }],
  [["--resync", "90s"], {}, { resyncMs: 90_000 }],
  [["--resync=1.5h"], {}, { resyncMs: 5_400_000 }],
  [["--no-leader-election"], {}, { electsLeader: false }],
  [[], { SALLYPORT_NO_LEADER_ELECTION: "true" }, { electsLeader: false }],
  [[], { SALLYPORT_NO_LEADER_ELECTION: "false" }, { electsLeader: true }],
  [[], { POD_NAME: "operator-7", POD_NAMESPACE: "overlay" }, { podName: "operator-7", namespace: "overlay" }],
  [["--health-port", "0", "--log-level", "debug"], {}, { healthPort: 0, logLevel: "debug" }],
  [[], { SALLYPORT_ROUTER_IMAGE: "registry/r:1", SALLYPORT_CONTROLLER_IMAGE: " " }, { routerImage: "registry/r:1", controllerImage: "sallyport/controller:1.2.3" }],
])("%j with %j", (args, env, expected) => {
  expect(settingsOf(args, env)).toMatchObject(expected);
});

test("wait has options of its own", () => {
  expect(parseCommand(["wait"], {}, "1")).toMatchObject({ settings: { namespaces: [], timeoutMs: 300_000 } });
  const args = ["wait", "--namespaces", "a", "--selector", "app=edge", "--timeout", "20s", "--server", "http://a"];
  const settings = { namespaces: ["a"], selector: "app=edge", timeoutMs: 20_000, server: "http://a" };
  expect(parseCommand(args, {}, "1")).toMatchObject({ name: "wait", settings });
});

test("the checks have options of their own", () => {
  const given = { namespaces: [], namespace: undefined, operator: undefined, timeoutMs: 60_000 };
  expect(parseCommand(["check"], {}, "1")).toMatchObject({ name: "check", settings: given });
  const args = ["check", "--operator", "http://operator:8080", "--timeout", "5s", "--namespaces", "a,b"];
  expect(parseCommand(args, { POD_NAMESPACE: "system" }, "1")).toMatchObject({
    settings: {
      operator: new URL("http://operator:8080"),
      timeoutMs: 5_000,
      namespaces: ["a", "b"],
      namespace: "system",
    },
  });
  expect(parseCommand(["uninstall-check"], { SALLYPORT_NAMESPACES: "a" }, "1")).toMatchObject({
    name: "uninstall-check",
    settings: { namespaces: ["a"] },
  });
});

describe("is refused:", () => {
  test.each([
    [[], /a command is missing: run/],
    [["walk"], /unknown command walk: expected run, wait, check or uninstall-check/],
    [["run", "away"], /unknown command run away/],
    [["run", "--resync", "soon"], /the resync time is soon: expected from 1s to 24h/],
    [["run", "--resync", "2d"], /expected from 1s to 24h/],
    [["run", "--resync", "1ms"], /expected from 1s to 24h/],
    [["run", "--cluster-id", "change-me"], /the cluster id is change-me: expected .* that no other operator/],
    [["run", "--cluster-id", 'a" or true'], /the cluster id is a" or true/],
    [["run", "--health-port", "70000"], /the health port is 70000/],
    [["run", "--health-port", "http"], /the health port is http/],
    [["run", "--log-level", "loud"], /expected one of debug, info, warn, error/],
    [["check", "--operator", "operator:8080"], /the operator's URL is operator:8080: expected one such as http/],
    [["wait", "--timeout", "never"], /the timeout is never: expected from 1s to 24h, such as 5m/],
    [["run", "--colour"], /Unknown option '--colour'/],
  ])("%j", (args, said) => {
    const parse = () => parseCommand(args, {}, "1");
    expect(parse).toThrow(said);
    expect(parse).toThrow(SettingsError);
  });
});

test("asks for help or the version", () => {
  expect(parseCommand(["--help"], {}, "1")).toEqual({ name: "help" });
  expect(parseCommand(["run", "-h"], {}, "1")).toEqual({ name: "help" });
  expect(parseCommand(["--version"], {}, "1")).toEqual({ name: "version" });
  for (const line of USAGE.split("\n")) expect(line.length).toBeLessThan(200);
});
