import { ConfigError } from "@sallyport/config-file";
import { expect, it } from "vitest";
import { readControllerConfig } from "./index.ts";

const SHARED = `api: { bind: ":1280", advertise: "ctrl.example:1280" }
ctrl: { bind: ":1280", advertise: "ctrl.example:1280" }
database: { dir: database }
`;
const read = (...[text, env = {}, options]: [string, NodeJS.ProcessEnv?, object?]) =>
  readControllerConfig(SHARED + text, "c.yml", env, options);

function problems(...parts: Parameters<typeof read>) {
  try {
    read(...parts);
  } catch (error) {
    if (error instanceof ConfigError) return error.message.split("\n");
    throw error;
  }
  return [];
}

const SECTION = `replica:
  id: $POD
  api: { advertise: "$POD.ctrl:1280" }
  ctrl: { bind: ":6262", advertise: "$POD.ctrl:6262" }
`;

it("reads who the process is among several with one file", () => {
  const { config, warnings } = read(SECTION, { POD: "ctrl-0" });
  expect(warnings).toEqual([]);
  expect(config.replica).toEqual({
    id: "ctrl-0",
    api: { advertise: { host: "ctrl-0.ctrl", port: 1280 } },
    ctrl: { bind: { host: "", port: 6262 }, advertise: { host: "ctrl-0.ctrl", port: 6262 } },
    metrics: {},
    workers: 1,
  });
  expect(config.api.advertise).toEqual({ host: "ctrl.example", port: 1280 });
});

it("takes a variable before the file, and an option before a variable", () => {
  const env = {
    POD: "p",
    SALLYPORT_REPLICA_ID: "env",
    SALLYPORT_REPLICA_API_BIND: "127.0.0.1:2",
    SALLYPORT_REPLICA_METRICS_BIND: ":9",
  };
  const { replica } = read(SECTION, env, { "replica-id": "option", "replica-ctrl-advertise": "[::1]:7" }).config;
  expect(replica).toEqual({
    id: "option",
    api: { bind: { host: "127.0.0.1", port: 2 }, advertise: { host: "p.ctrl", port: 1280 } },
    ctrl: { bind: { host: "", port: 6262 }, advertise: { host: "::1", port: 7 } },
    metrics: { bind: { host: "", port: 9 } },
    workers: 1,
  });
});

it.each(["$NO_SUCH", '""', "~"])(
  "takes no id from %s, so that commands beside a controller read its file, too",
  (text) => {
    expect(read(`replica: { id: ${text} }\n`, { SALLYPORT_REPLICA_API_BIND: "" }).config.replica).toEqual({
      api: {},
      ctrl: {},
      metrics: {},
      workers: 1,
    });
  },
);

it.each(["c1", "0", "a.b-c.d", "a".repeat(63)])("takes %s for an id, from a variable in the file too", (id) => {
  expect(read("replica: { id: $ID }\n", { ID: id }).config.replica.id).toBe(id);
  expect(read("", { SALLYPORT_REPLICA_ID: id }).config.replica.id).toBe(id);
});

const ID =
  /an id of at most 63 lower-case letters, digits, dots and hyphens that begins and ends with a letter or a digit, found /;

it.each(["C1", "-a", "a-", ".", "a b", "a_b", "a/b", "ü", "a".repeat(64), "a\n", "1.5.", "-1"])(
  "refuses the id %j",
  (id) => {
    expect(problems(`replica: { id: ${JSON.stringify(id)} }\n`)).toEqual([expect.stringMatching(ID)]);
    expect(problems("", { SALLYPORT_REPLICA_ID: id })).toEqual([expect.stringMatching(ID)]);
  },
);

it("names the option, the variable or the place of what cannot be used", () => {
  expect(problems('replica: { id: A, ctrl: { advertise: ":1" } }\n')).toEqual([
    expect.stringMatching(/^c\.yml:4:16: replica\.id: .* found "A"$/),
    expect.stringMatching(
      /^c\.yml:4:38: replica\.ctrl\.advertise: expected an address that others can reach, .* found ":1"$/,
    ),
  ]);
  expect(
    problems("", { SALLYPORT_REPLICA_CTRL_BIND: "x" }, { "replica-id": "", "replica-api-advertise": "y" }),
  ).toEqual([
    expect.stringMatching(/^--replica-id: expected an id of .* found ""$/),
    expect.stringMatching(/^--replica-api-advertise: expected an address .* found "y"$/),
    expect.stringMatching(/^SALLYPORT_REPLICA_CTRL_BIND: expected a place to listen on, .* found "x"$/),
  ]);
});
