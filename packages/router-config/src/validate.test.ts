import { describe, expect, it } from "vitest";
import { parseRouterConfig, type RouterConfig } from "./index.ts";
import { base, problems, read } from "./testing/smallest-file.ts";

describe("the smallest file", () => {
  it("has every default of the specification", () => {
    const { config, warnings } = read();
    expect(warnings).toEqual([]);
    expect(config.forwarder).toMatchObject({
      faultTxInterval: 15_000,
      idleCircuitTimeout: 60_000,
      idleTxInterval: 60_000,
      linkDialQueueLength: 1000,
      linkDialWorkerCount: 32,
      rateLimitedQueueLength: 5000,
      rateLimitedWorkerCount: 5,
      xgressCloseCheckInterval: 5000,
      xgressDialDwellTime: 0,
      xgressDialQueueLength: 1000,
      xgressDialWorkerCount: 128,
      circuitMemory: 25_165_824,
    });
    expect(config.ctrl.defaultRequestTimeout).toBe(5000);
    expect(config.metrics).toMatchObject({
      reportInterval: 60_000,
      messageQueueSize: 10,
      intervalAgeThreshold: 80_000,
    });
    expect(config.healthChecks.ctrlPingCheck).toEqual({ interval: 30_000, timeout: 15_000, initialDelay: 15_000 });
    expect(config.healthChecks.linkCheck).toEqual({ interval: 5000, initialDelay: 1000, minLinks: 0 });
    expect([config.edge, config.link, config.csr, config.listeners]).toEqual([undefined, undefined, undefined, []]);
  });

  it("gives a link dialer its defaults", () => {
    const { config } = read("link: { dialers: [{ binding: transport }] }");
    expect(config.link?.dialers[0]).toMatchObject({
      split: true,
      groups: ["default"],
      maxDefaultConnections: 3,
      maxAckConnections: 1,
      startupDelay: 3000,
      healthyDialBackoff: { minRetryInterval: 5000, maxRetryInterval: 300_000, retryBackoffFactor: 1.5 },
      unhealthyDialBackoff: { minRetryInterval: 60_000, maxRetryInterval: 3_600_000, retryBackoffFactor: 10 },
    });
  });
});

describe("forms that mean the same", () => {
  const edge = (entry: string) =>
    read(`listeners: [${entry}]`).config.listeners.find((l) => l.binding === "edge") as Extract<
      RouterConfig["listeners"][number],
      { binding: "edge" }
    >;

  it.each([
    `{ binding: edge, address: "tls:0.0.0.0:3022", options: { advertise: "r1.example:3022" } }`,
    `{ binding: edge, bind: "tls:0.0.0.0:3022", advertise: "r1.example:3022" }`,
    `{ binding: edge, bind: "tls:0.0.0.0:3022", advertise: "tls:r1.example:3022" }`,
  ])("edge listener %s", (entry) => {
    expect(edge(entry)).toMatchObject({
      address: { protocol: "tls", host: "0.0.0.0", port: 3022 },
      advertise: { host: "r1.example", port: 3022 },
    });
  });

  it.each([
    ['advertise: "tls:[2001:db8::1]:6000"', "tls:[2001:db8::1]:6000"],
    ['advertise: "[2001:db8::1]:6000"', "tls:[2001:db8::1]:6000"],
    ['options: { advertise: "r1.example:6000" }', "tls:r1.example:6000"],
    ['options: { advertise: "tls:r1.example:6000", connectTimeoutMs: 100 }', "tls:r1.example:6000"],
    ['advertise: "r1.example:6000", options: { advertise: "r2.example:6000" }', "tls:r1.example:6000"],
  ])("a link listener with %s", (given, text) => {
    const { config, warnings } = read(
      `link: { listeners: [{ binding: transport, bind: "tls:0.0.0.0:6000", ${given} }] }`,
    );
    expect(warnings).toEqual([]);
    expect(config.link?.listeners[0]?.advertiseText).toBe(text);
  });

  it("a link listener at one host advertises it when nothing else is said", () => {
    const { config } = read(`link: { listeners: [{ binding: transport, bind: "tls:192.0.2.1:6000" }] }`);
    expect(config.link?.listeners[0]?.advertiseText).toBe("tls:192.0.2.1:6000");
  });

  it.each([
    ['bind: "tls:0.0.0.0:6000"', /link\.listeners\[0\]\.advertise: expected <host>:<port> that other routers/],
    ['bind: "tls:[::]:6000"', /link\.listeners\[0\]\.advertise: expected <host>:<port> that other routers/],
    ['bind: "tls:192.0.2.1:0"', /link\.listeners\[0\]\.advertise: expected <host>:<port> that other routers/],
    ['bind: "tls:0.0.0.0:1", advertise: "wss:r1.example:1"', /listeners\[0\]\.advertise: expected .*\(tls\).*"wss:r1/],
    ['bind: "tls:0.0.0.0:1", options: { advertise: "wss:r1.example:1" }', /\[0\]\.options\.advertise: .*"wss:r1/],
  ])("a link listener with %s cannot be reached", (given, message) => {
    expect(() => read(`link: { listeners: [{ binding: transport, ${given} }] }`)).toThrow(message);
  });

  it("a tunneler without a mode hosts", () => {
    expect(read("listeners: [{ binding: tunnel }]").config.listeners[0]).toMatchObject({ options: { mode: "host" } });
  });

  it.each(["tls:r1.example:6000", "r1.example:6000"])("link advertise %s", (advertise) => {
    const { config } = read(
      `link: { listeners: [{ binding: transport, bind: "tls:0.0.0.0:6000", advertise: "${advertise}", groups: a }] }`,
    );
    expect(config.link?.listeners[0]).toMatchObject({ advertiseText: "tls:r1.example:6000", groups: ["a"] });
  });

  it("takes times that no timer can wait for as the longest one can", () => {
    const { config } = read("metrics: { reportInterval: 10000h }\nforwarder: { faultTxInterval: 9007199254740991 }");
    expect([config.metrics.reportInterval, config.forwarder.faultTxInterval]).toEqual([2 ** 31 - 1, 2 ** 31 - 1]);
  });

  it("takes endpoint before endpoints, and csr of the root before that of edge", () => {
    const { config } = parseRouterConfig(
      `v: 3
identity: { cert: a, key: b, ca: c }
ctrl: { endpoint: "tls:one:1", endpoints: ["tls:two:2", "tls:three:3"] }
csr: { organization: root }
edge: { csr: { organization: deprecated } }
`,
      { env: {} },
    );
    expect(config.ctrl.endpoints).toEqual([{ protocol: "tls", host: "one", port: 1 }]);
    expect(config.csr?.organization).toBe("root");
    expect(read("edge: { csr: { organization: N } }").config.csr?.organization).toBe("N");
  });

  it("reads YAML 1.1: booleans, octal and underscored numbers, merges, aliases, the last of two keys", () => {
    const { config, warnings } = read(`
link:
  dialers:
    - &first { binding: transport, split: off, maxDefaultConnections: 010 }
    - { <<: *first, split: yes }
    - *first
forwarder: { linkDialQueueLength: 1_000, linkDialWorkerCount: 0x10, linkDialWorkerCount: 7 }
`);
    expect(config.link?.dialers.map((d) => [d.split, d.maxDefaultConnections])).toEqual([
      [false, 8],
      [true, 8],
      [false, 8],
    ]);
    expect(config.forwarder).toMatchObject({ linkDialQueueLength: 1000, linkDialWorkerCount: 7 });
    expect(warnings.map((w) => w.path)).toEqual(["forwarder.linkDialWorkerCount"]);
  });

  it.each([
    ["y", true],
    ["Yes", true],
    ["ON", true],
    ["TRUE", true],
    ["n", false],
    ["No", false],
    ["OFF", false],
    ["False", false],
  ])("the boolean %s is %s", (written, value) => {
    expect(read(`link: { dialers: [{ binding: transport, split: ${written} }] }`).config.link?.dialers[0]?.split).toBe(
      value,
    );
  });

  it.each([
    ["0x1F", 31],
    ["0o17", 15],
    ["0b101", 5],
    ["017", 15],
    ["1_0", 10],
    ["+7", 7],
  ])("the integer %s is %d", (written, value) => {
    expect(read(`forwarder: { linkDialWorkerCount: ${written} }`).config.forwarder.linkDialWorkerCount).toBe(value);
  });

  it.each(["edge:", "edge: ~", "edge: null"])("%s leaves the edge disabled, and says so", (line) => {
    const { config, warnings } = read(line);
    expect(config.edge).toBeUndefined();
    expect(warnings.map((w) => w.path)).toEqual(["edge"]);
  });

  it("reads the first document only", () => {
    const { config, warnings } = read("metrics: { reportInterval: 3s }\n---\nmetrics: { reportInterval: 9s }\n");
    expect(config.metrics.reportInterval).toBe(3000);
    expect(warnings.map((w) => w.found)).toEqual(["several; only the first is read"]);
  });

  it("takes the 4 that generated files give links and SDKs as output queue for their standard", () => {
    const listener = (size: string) =>
      `link: { listeners: [{ binding: transport, bind: "tls:a:1", options: { outQueueSize: ${size} } }] }`;
    const sizeOf = (size: string) => read(listener(size)).config.link?.listeners[0]?.options.outQueueSize;
    expect([sizeOf("4"), sizeOf("4.0"), sizeOf("16.0"), sizeOf("128")]).toEqual([64, 64, 16, 128]);
  });

  it("takes threads for an edge listener, but not for web sockets", () => {
    const edge = (protocol: string, workers: number): string =>
      `listeners: [{ binding: edge, address: "${protocol}:0.0.0.0:3022", advertise: "r1.example:3022", options: { workers: ${workers} } }]`;
    expect(read(edge("tls", 64)).config.listeners).toMatchObject([{ options: { workers: 64 } }]);
    expect(read(edge("wss", 0)).config.listeners).toMatchObject([{ options: { workers: 0 } }]);
    expect(problems(base + edge("tls", 65))).toEqual([
      expect.stringMatching(/workers: expected an integer from 0 to 64/),
    ]);
    expect(problems(base + edge("wss", 2))).toEqual([
      expect.stringMatching(/listeners\[0\]\.options\.workers: expected 0 where the address is wss/),
    ]);
  });

  it("takes transport.ws for transport.wss, and both with their defaults", () => {
    expect(read("transport: { ws: { pingInterval: 20 } }").config.transport.wss).toMatchObject({
      pingInterval: 20,
      pongTimeout: 60,
      handshakeTimeout: 10,
    });
    expect(read().config.transport.wss.pingInterval).toBe(54);
  });

  it("raises times of the tunnel's UDP flows that are too short to the standard", () => {
    const { config } = read(
      "listeners: [{ binding: tunnel, options: { udpIdleTimeout: 4s, udpCheckInterval: 900ms } }]",
    );
    expect(config.listeners[0]?.options).toMatchObject({ udpIdleTimeout: 300_000, udpCheckInterval: 30_000 });
  });

  it("keeps texts that look like booleans or numbers where text is meant", () => {
    const { config } = read("csr: { country: NO, province: y, locality: 007, organization: N, sans: { dns: [on] } }");
    expect(config.csr).toMatchObject({ country: "NO", province: "y", locality: "007", organization: "N" });
    expect(config.csr?.sans.dns).toEqual(["on"]);
  });
});

describe("the environment", () => {
  // Written with § for the dollar sign: the linter takes ${ in a plain string for a slip.
  const env = { HOME: "/h", N: "3" };
  it.each([
    ["§{HOME}/a", "/h/a"],
    ["§HOME/a", "/h/a"],
    ["x§HOMEx", "x"],
    ["§{X}b", "b"],
    ["§{HOME:-/d}b", "b"],
    ["a§§b", "ab"],
    ["a§5b", "ab"],
    ["cost§", "cost§"],
    ["a§ x", "a§ x"],
    ["a§.x", "a§.x"],
    ["a§{}b", "ab"],
    ["a§{bc", "abc"],
  ])("%s becomes %s", (written, value) => {
    const text = written.replaceAll("§", "$");
    expect(read(`csr: { organization: '${text}' }`, env).config.csr?.organization).toBe(value.replaceAll("§", "$"));
  });

  it("never makes a number", () => {
    expect(problems(`${base}forwarder: { linkDialQueueLength: $N }`, env)).toEqual([
      'router.yml:4:14: forwarder.linkDialQueueLength: expected an integer from 1 to 10000, found "3"',
    ]);
  });
});

describe("files that OpenZiti's generator writes", () => {
  it("load without complaint", () => {
    const { config, warnings } = parseRouterConfig(
      `
v: 3

identity:
  cert:             "/home/z/r1.cert"
  server_cert:      "/home/z/r1.server.chain.cert"
  key:              "/home/z/r1.key"
  ca:               "/home/z/r1.cas"
  #alt_server_certs:
  #  - server_cert:  "" 

ha:
  enabled: true

ctrl:
  endpoint:             tls:localhost:6262

link:
  dialers:
    - binding: transport
  listeners:
    - binding:          transport
      bind:             tls:0.0.0.0:10080
      advertise:        tls:r1.example:10080
      options:
        outQueueSize:   4

listeners:
# bindings of edge and tunnel requires an "edge" section below
  - binding: edge
    address: tls:0.0.0.0:3022
    options:
      advertise: r1.example:3022
      connectTimeoutMs: 5000
      getSessionTimeout: 60
  - binding: tunnel
    options:
      mode: host #tproxy|host

edge:
  csr:
    country: US
    province: NC
    locality: Charlotte
    organization: NetFoundry
    organizationalUnit: Ziti
    sans:
      dns:
        - localhost
        - r1.example
      ip:
        - "127.0.0.1"
        - "::1"

#transport:
#  ws:
#    writeTimeout: 10

forwarder:
  latencyProbeInterval: 0
  xgressDialQueueLength: 1000
  xgressDialWorkerCount: 128
  linkDialQueueLength: 1000
  linkDialWorkerCount: 32
`,
      { env: {} },
    );
    expect(warnings).toEqual([]);
    expect(config.csr?.sans.ip).toEqual(["127.0.0.1", "::1"]);
    expect(config.listeners.map((l) => l.binding)).toEqual(["edge", "tunnel"]);
  });
});
