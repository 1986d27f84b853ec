import { OUT_QUEUE_SIZE, parseRouterConfig } from "@sallyport/router-config";
import { TestAuthority } from "@sallyport/wire/testing";
import { describe, expect, it } from "vitest";
import { renewalTime } from "../control/renewal/certificate-renewal.ts";
import { redacted } from "../inspectors.ts";
import { Histogram } from "../metrics/histogram.ts";
import { uncoveredHosts } from "./certificate-names.ts";
import { parseCommand } from "./command-line.ts";
import { createConfig, type NewConfig } from "./create-config.ts";
import { interfaceOf, resolveBind } from "./network-interfaces.ts";
import { channelLimits, edgeOptions, forwarderOptions, listenerLimits, xgressOptions } from "./options.ts";

const base = `v: 3
identity: { cert: "pem:-----BEGIN CERTIFICATE-----", key: "-----BEGIN EC PRIVATE KEY-----", ca: c.pem }
ctrl: { endpoint: "tls:localhost:6262" }
`;
const read = (more: string) =>
  parseRouterConfig((more.startsWith("ctrl:") ? base.replace(/^ctrl:.*\n/m, "") : base) + more, { env: {} }).config;

const standard: NewConfig = {
  routerName: "r1",
  controller: "tls:ctrl.example:1280",
  host: "r1.example",
  port: 3022,
  linkPort: 3022,
  isPrivate: false,
  wss: false,
  tunnelMode: "none",
};

describe("the command line", () => {
  it.each([
    [["run", "r.yml"], { name: "run", file: "r.yml", extend: false, verbose: false }],
    [["run", "--extend", "r.yml", "-v"], { name: "run", file: "r.yml", extend: true, verbose: true }],
    [
      ["enroll", "r.yml", "--jwt", "r.jwt"],
      { name: "enroll", file: "r.yml", jwtFile: "r.jwt", ifNeeded: false, configuredEndpoints: false, verbose: false },
    ],
    [
      ["enroll", "r.yml", "--if-needed", "--expect-id", "abc", "-a", "rsa", "--configured-endpoints"],
      {
        name: "enroll",
        file: "r.yml",
        ifNeeded: true,
        expectId: "abc",
        configuredEndpoints: true,
        algorithm: "RSA",
        verbose: false,
      },
    ],
    [["extend", "r.yml"], { name: "extend", file: "r.yml", verbose: false }],
    [["check", "r.yml"], { name: "check", file: "r.yml" }],
    [["--version"], { name: "version" }],
    [["--help"], { name: "help" }],
    [[], { name: "help" }],
  ])("%j", (args, command) => {
    expect(parseCommand(args)).toEqual(command);
  });

  it.each([
    [["enroll", "r.yml"], "enroll needs --jwt <file>"],
    [["enroll", "r.yml", "--jwt", "j", "--key-alg", "DSA"], "--key-alg expects EC or RSA, found DSA"],
    [["enroll", "r.yml", "--if-needed", "--expect-id", ""], "--expect-id expects the id of the router"],
    [
      ["create-config", "r", "--controller", "tls:c:1", "--host", "h", "--tunneler-mode", "vpn"],
      "--tunneler-mode expects none, host, proxy or tproxy, found vpn",
    ],
    [["create-config", "r", "--host", "h"], "create-config needs --controller and --host"],
    [["run"], "run takes exactly one argument, <router.yml>"],
    [["run", "a", "b"], "run takes exactly one argument, <router.yml>"],
    [["fly", "r.yml"], "there is no command fly"],
    [
      ["create-config", "r", "--controller", "tls:c:1", "--host", "h", "--port", "http"],
      "--port expects a number from 1 to 65535, found http",
    ],
  ])("%j is explained", (args, problem) => {
    expect(parseCommand(args)).toEqual({ name: "help", problem });
  });

  it("names an option that does not exist", () => {
    expect(parseCommand(["run", "r.yml", "--fast"])).toMatchObject({
      name: "help",
      problem: expect.stringContaining("--fast"),
    });
  });
});

describe("settings", () => {
  it("made by create-config are valid and complete", () => {
    const { config, warnings, idle } = parseRouterConfig(createConfig(standard));
    expect([warnings, idle]).toEqual([[], []]);
    expect(config.csr?.sans.dns).toEqual(["r1.example"]);
    expect(createConfig(standard).match(/^# /gm)?.length).toBeGreaterThan(7);
  });

  it("made by create-config follow its options", () => {
    const made = (o: Partial<NewConfig>) => parseRouterConfig(createConfig({ ...standard, ...o })).config;
    expect(made({ isPrivate: true }).link).toMatchObject({ listeners: [], dialers: [{ binding: "transport" }] });
    expect(made({ linkPort: 6000 }).link?.listeners[0]).toMatchObject({ advertiseText: "tls:r1.example:6000" });
    const wss = made({ wss: true });
    expect(wss.listeners[0]).toMatchObject({ binding: "edge", address: { protocol: "wss", port: 3022 } });
    expect(wss.link?.listeners[0]?.bind.port).toBe(3023);
    expect(made({ tunnelMode: "tproxy" }).listeners[1]).toMatchObject({
      binding: "tunnel",
      options: { mode: "tproxy" },
    });
    expect(made({ host: "2001:db8::1" }).link?.listeners[0]?.advertiseText).toBe("tls:[2001:db8::1]:3022");
  });

  it("reach forwarder and edge under their names", () => {
    const config = read(`forwarder: { faultTxInterval: 1, xgressDialWorkerCount: 2, circuitMemory: 8388608 }
listeners: [{ binding: edge, address: "tls:0.0.0.0:1", options: { advertise: "[::1]:1", retxStartMs: 7, circuitStartTimeout: 9s } }]
`);
    expect(forwarderOptions(config.forwarder)).toMatchObject({
      faultTxIntervalMs: 1,
      xgressDialWorkerCount: 2,
      circuitMemoryBytes: 8_388_608,
    });
    const [listener] = config.listeners;
    if (listener?.binding !== "edge") throw new Error("no edge listener");
    expect(edgeOptions(listener)).toMatchObject({
      advertise: "[::1]:1",
      getCircuitTimeoutMs: 30_000,
      xgress: { retxStartMs: 7, circuitStartTimeoutMs: 9000 },
    });
  });

  it("of a channel bound what waits for its peer, and the connections in their hello", () => {
    const options = { outQueueSize: 64 };
    const mib = 1024 * 1024;
    expect(listenerLimits(options)).toEqual({ maxPending: 64 * mib });
    expect(listenerLimits({ ...options, maxOutstandingConnects: 5, maxQueuedConnects: 2 })).toMatchObject({
      maxHellos: 7,
    });
    expect(channelLimits({ outQueueSize: 8, writeTimeout: 3000 }, OUT_QUEUE_SIZE.control)).toEqual({
      maxPending: 128 * mib,
      writeTimeoutMs: 3000,
    });
    expect(channelLimits({ outQueueSize: 1, writeTimeout: 0 }, OUT_QUEUE_SIZE.control)).toEqual({
      maxPending: 17 * mib,
    });
  });

  it("that let a circuit wait for a second or less to start let it wait without end", () => {
    const of = (time: string) =>
      read(`dialers: [{ binding: transport, options: { circuitStartTimeout: ${time} } }]`).dialers.map(({ options }) =>
        xgressOptions(options),
      )[0]?.circuitStartTimeoutMs;
    expect([of("1000ms"), of("1001ms")]).toEqual([Number.POSITIVE_INFINITY, 1001]);
  });

  it("are shown to operators without secrets", () => {
    const shown = JSON.stringify(redacted(read(`proxy: { type: http, address: "p:1", password: hush }`)));
    expect(shown).not.toMatch(/hush|BEGIN/);
    expect(shown).toContain("c.pem");
  });
});

describe("hosts and interfaces", () => {
  it("an advertised host that no certificate covers is named with its key", async () => {
    const authority = await TestAuthority.create();
    const identity = await authority.identity("r1", { dns: ["r1.example"] });
    const config = read(`edge: {}
link: { listeners: [{ binding: transport, bind: "tls:0.0.0.0:1", advertise: "r1.example:1" }] }
listeners: [{ binding: edge, address: "tls:0.0.0.0:2", options: { advertise: "other.example:2" } }]
`);
    expect(uncoveredHosts(config, identity)).toEqual([
      { path: ["listeners", 0, "options", "advertise"], text: expect.stringMatching(/other\.example/) },
    ]);
  });

  it("a local bind is an interface or an address of this machine", () => {
    const info = { address: "10.0.0.1", netmask: "", family: "IPv4" as const, mac: "", internal: false, cidr: null };
    const lo = { ...info, address: "127.0.0.1", internal: true, cidr: "127.0.0.1/8" };
    const interfaces = { lo: [lo], eth7: [info] };
    expect(resolveBind("eth7", interfaces)).toBe("10.0.0.1");
    expect(resolveBind("10.0.0.1", interfaces)).toBe("10.0.0.1");
    expect(interfaceOf("10.0.0.1", interfaces)).toBe("eth7");
    if (process.platform === "linux") expect(resolveBind("127.0.0.9", interfaces)).toBe("127.0.0.9");
    expect(() => resolveBind("10.0.0.2", interfaces)).toThrow(/found "10\.0\.0\.2"/);
    expect(interfaceOf("0.0.0.0", interfaces)).toBeUndefined();
    expect(() => resolveBind("eth8", interfaces)).toThrow(/^expected .*eth7.*found "eth8"$/);
  });
});

describe("times and samples", () => {
  const day = 24 * 3_600_000;
  it.each([
    ["a year: 7 days before its end", [[0, 365]], 358],
    ["a day: a third of it before its end", [[0, 1]], 2 / 3],
    [
      "two: that of the one that ends first",
      [
        [0, 365],
        [0, 30],
      ],
      23,
    ],
  ])("certificates of %s", (_what, spans, at) => {
    expect(renewalTime(spans.map(([from = 0, to = 0]) => ({ validFrom: from * day, validTo: to * day })))).toBeCloseTo(
      at * day,
    );
  });

  it("a histogram describes its last 128 samples and counts all", () => {
    const histogram = new Histogram();
    expect(histogram.snapshot()).toMatchObject({ count: 0, mean: 0 });
    for (let i = 1; i <= 200; i++) histogram.update(i);
    expect(histogram.snapshot()).toMatchObject({ count: 200, min: 73, max: 200, mean: 136.5 });
    expect(histogram.snapshot().percentiles[0]).toBe(136.5);
    histogram.clear();
    expect(histogram.count).toBe(0);
  });
});
