import { parseRouterConfig } from "@sallyport/router-config";
import { describe, expect, test } from "vitest";
import { edgeRouter } from "../testing/edge-router.ts";
import { type ConfigInput, podProblems, type RenderedConfig, renderRouterConfig } from "./router-config.ts";

const INPUT: ConfigInput = {
  ordinal: 0,
  address: { host: "eu-0.edge.example.com", port: 443 },
  hosts: ["eu-0.edge.example.com"],
  controllers: { endpoints: ["tls:ctrl.overlay.svc:1280"], areChosen: false },
};

function rendered(spec: object = {}, input: Partial<ConfigInput> = {}): RenderedConfig {
  return renderRouterConfig(edgeRouter(spec), { ...INPUT, ...input });
}

function file(spec: object = {}, input: Partial<ConfigInput> = {}): { text: string; hash: string } {
  const result = rendered(spec, input);
  if ("problems" in result) throw new Error(JSON.stringify(result.problems));
  return result;
}

const configOf = (spec: object = {}, input: Partial<ConfigInput> = {}) =>
  parseRouterConfig(file(spec, input).text, { env: { HOST_IP: "192.0.2.7" } }).config;

describe("the router's file", () => {
  test("is what the design of the pods wants, in a fixed order", () => {
    expect(
      file()
        .text.replaceAll(/^ *#.*\n/gm, "")
        .replaceAll(/\n+/g, "\n")
        .trimStart(),
    ).toBe(`v: 3
identity:
  ca: /var/lib/sallyport/ca.pem
  cert: /var/lib/sallyport/client.crt
  key: /var/lib/sallyport/key.pem
  server_cert: /var/lib/sallyport/server.crt
ctrl:
  endpoints:
    - tls:ctrl.overlay.svc:1280
  endpointsFile: /var/lib/sallyport/endpoints.yml
  startupTimeout: 0s
csr:
  sans:
    dns:
      - eu-0.edge.example.com
      - eu-0-edge.edge.svc
      - localhost
    ip:
      - 127.0.0.1
edge: {}
link:
  dialers:
    - binding: transport
  listeners:
    - advertise: tls:eu-0.edge.example.com:443
      bind: tls:0.0.0.0:3022
      binding: transport
listeners:
  - address: tls:0.0.0.0:3022
    binding: edge
    options:
      advertise: eu-0.edge.example.com:443
dialers:
  - binding: transport
web:
  - apis:
      - binding: health-checks
    bindPoints:
      - address: 127.0.0.1:8081
        interface: 0.0.0.0:8081
    name: health
shutdown:
  drainTimeout: 30s
`);
  });

  test("is read by the router as it was meant", () => {
    const config = configOf({
      tunneler: { enabled: true, mode: "proxy", proxyServices: ["b:8000", "a:9000:udp"] },
      link: { groups: ["z", "a"], listen: true, dial: true },
      forwarder: { xgressDialWorkerCount: 256 },
      csr: { organization: "Example", sans: { dns: ["more.example"], ip: ["192.0.2.9"] } },
      config: {
        overrides: {
          forwarder: { linkDialQueueLength: 7 },
          dialers: [{ binding: "transport" }, { binding: "transport_udp" }],
        },
      },
      drainSeconds: 5,
    });
    expect(config.listeners.map(({ binding }) => binding)).toEqual(["edge", "tunnel"]);
    expect(config.listeners[1]).toMatchObject({
      options: { mode: "proxy", services: [{ service: "a" }, { service: "b" }] },
    });
    expect(config.link?.listeners[0]).toMatchObject({
      groups: ["a", "z"],
      advertiseText: "tls:eu-0.edge.example.com:443",
    });
    expect(config.forwarder).toMatchObject({ xgressDialWorkerCount: 256, linkDialQueueLength: 7 });
    expect(config.dialers.map(({ binding }) => binding)).toEqual(["transport", "transport_udp"]);
    expect(config.csr?.sans).toMatchObject({
      dns: expect.arrayContaining(["more.example", "localhost"]),
      ip: ["127.0.0.1", "192.0.2.9"],
    });
    expect(config.csr?.organization).toBe("Example");
    expect(config.shutdown.drainTimeout).toBe(5_000);
  });

  // biome-ignore format: a table
  test.each<[string, object, Partial<ConfigInput>, (c: ReturnType<typeof configOf>) => unknown, unknown]>([
    ["without an address has no listener of clients and routers", { exposure: { type: "None" } }, { address: undefined, hosts: [] },
      (c) => [c.listeners, c.link?.listeners, c.link?.dialers.length], [[], [], 1]],
    ["without links has no section for them", { link: { listen: false, dial: false } }, {}, (c) => c.link, undefined],
    ["without controllers leaves them to the token", {}, { controllers: { endpoints: [], areChosen: false } }, (c) => c.ctrl.endpoints, []],
    [
      "takes the node's address from the pod",
      { exposure: { type: "HostPort" } },
      { address: { host: `\${HOST_IP}`, port: 3022 }, hosts: [`\${HOST_IP}`] },
      (c) => [c.listeners[0], c.csr?.sans.ip],
      [expect.objectContaining({ advertise: { host: "192.0.2.7", port: 3022 } }), ["192.0.2.7", "127.0.0.1"]],
    ],
    ["leaves alone what only looks like the stand-in of the node's address", { csr: { sans: { dns: ["192.0.2.254.example"] } } }, {},
      (c) => c.csr?.sans.dns.includes("192.0.2.254.example"), true],
    ["keeps a name with line ends in its comment", { name: "x\ny: 1\rz: 2\u0085w: 3\u2028u: 4" }, {}, (c) => c.ctrl.endpoints.length, 1],
    ["puts IPv6 into brackets", {}, { address: { host: "2001:db8::1", port: 443 }, hosts: ["2001:db8::1"] },
      (c) => [c.link?.listeners[0]?.advertise.host, c.csr?.sans.ip], ["2001:db8::1", ["2001:db8::1", "127.0.0.1"]]],
    ["shows metrics where they are scraped", { serviceMonitor: { enabled: true } }, {}, (c) => c.web[0]?.apis.map(({ binding }) => binding),
      ["health-checks", "metrics"]],
    ["gives way with the port of probes", { edge: { port: 8081 } }, {}, (c) => c.web[0]?.bindPoints[0]?.interface.port, 8082],
  ])("%s", (_name, spec, input, look, wanted) => expect(look(configOf(spec, input))).toEqual(wanted));

  test("keeps the chosen controllers of one choice apart from those of another", () => {
    const chosen = (...endpoints: string[]) =>
      configOf({}, { controllers: { endpoints, areChosen: true } }).ctrl.endpointsFile;
    expect(chosen("tls:a:1", "tls:b:1")).toBe(chosen("tls:b:1", "tls:a:1"));
    expect(chosen("tls:a:1")).not.toBe(chosen("tls:b:1"));
    expect(chosen("tls:a:1")).toMatch(/^\/var\/lib\/sallyport\/endpoints-[0-9a-f]{8}\.yml$/);
  });
});

describe("the hash of the file", () => {
  const { hash } = file();
  // biome-ignore format: a table
  test.each<[string, object, Partial<ConfigInput>]>([
    ["attributes, cost and policies of the entity",
      { roleAttributes: ["a"], cost: 7, noTraversal: true, disabled: true, tags: { a: "b" }, appData: { a: 1 }, deletionPolicy: "Orphan" }, {}],
    ["replicas, image and template",
      { replicas: 3, exposure: { hostname: "{ordinal}.x" }, image: "x", template: { metadata: { labels: { a: "b" } } } }, {}],
    ["controllers that the network told", {}, { controllers: { endpoints: ["tls:other:1"], areChosen: false } }],
    ["child objects", { networkPolicy: { enabled: true }, podDisruptionBudget: { enabled: false }, storage: { size: "60Mi" } }, {}],
  ])("is not changed by %s", (_name, spec, input) => expect(file(spec, input).hash).toBe(hash));

  test.each<[string, object, Partial<ConfigInput>]>([
    ["the address", {}, { address: { host: "other", port: 443 } }],
    ["the names of the certificate", {}, { hosts: ["eu-0.edge.example.com", "other"] }],
    ["chosen controllers", {}, { controllers: { ...INPUT.controllers, areChosen: true } }],
    ["the tunneler", { tunneler: { enabled: true } }, {}],
    ["a section", { metrics: { reportInterval: "30s" } }, {}],
    ["an override", { config: { overrides: { forwarder: { linkDialQueueLength: 7 } } } }, {}],
    ["the time to drain", { drainSeconds: 31 }, {}],
  ])("is changed by %s", (_name, spec, input) => expect(file(spec, input).hash).not.toBe(hash));

  test("stays what it is from release to release: else every update would restart every router", () => {
    expect(hash).toBe("1d8c3152a4ac1794");
  });

  test("does not depend on the order in which sets and overrides were written", () => {
    const one = {
      link: { groups: ["a", "b"], listen: true, dial: true },
      csr: { sans: { dns: ["x", "y"] } },
      config: { overrides: { forwarder: { linkDialQueueLength: 7, linkDialWorkerCount: 8 } } },
    };
    const other = {
      link: { groups: ["b", "a"], listen: true, dial: true },
      csr: { sans: { dns: ["y", "x"] } },
      config: { overrides: { forwarder: { linkDialWorkerCount: 8, linkDialQueueLength: 7 } } },
    };
    expect(file(one)).toEqual(file(other));
  });
});

describe("what the file can't be", () => {
  const overrides = (value: object) => ({ config: { overrides: value } });
  // biome-ignore format: a table
  test.each<[string, object, string, RegExp]>([
    ["another version", overrides({ v: 4 }), "spec.config.overrides.v", /can't be overridden/],
    ["another identity", overrides({ identity: { cert: "x" } }), "spec.config.overrides.identity", /can't be overridden/],
    ["other controllers", overrides({ ctrl: { endpoint: "tls:x:1" } }), "spec.config.overrides.ctrl.endpoint", /ctrlEndpoints of the Network/],
    ["a list of other controllers", overrides({ ctrl: { endpoints: [] } }), "spec.config.overrides.ctrl.endpoints", /ctrlEndpoints of the Network/],
    ["no controllers", overrides({ ctrl: null }), "spec.config.overrides.ctrl", /expected an object/],
    ["without probes", overrides({ web: [] }), "spec.config.overrides.web", /the one for probes, \{"apis":/],
    ["with a value out of bounds", overrides({ link: { dialers: [{ binding: "transport", maxDefaultConnections: 1000 }] } }),
      "spec.config.overrides.link.dialers[0].maxDefaultConnections", /from 1 to 100, found 1000/],
    ["with an unknown key", overrides({ forwarder: { linkDialQueLength: 3 } }), "spec.config.overrides.forwarder.linkDialQueLength",
      /perhaps linkDialQueueLength/],
    ["with an unknown section", overrides({ forwader: {} }), "spec.config.overrides.forwader", /perhaps forwarder/],
    ["with a text from the environment", overrides({ trace: { path: "/tmp/$HOME" } }), "spec.config.overrides.trace.path", /without \$/],
    ["with a duration that is none, in a section of the spec", { metrics: { reportInterval: "soon" } }, "spec.metrics.reportInterval",
      /found "soon"/],
    ["with the environment in a section of the spec", { csr: { organization: "$ORG" } }, "spec.csr.organization", /without \$/],
    ["with a listener that is none", overrides({ listeners: [{ binding: "edge" }] }), "spec.config.overrides.listeners[0].options.advertise",
      /SDKs can reach/],
  ])("%s", (_name, spec, path, message) => {
    expect(rendered(spec)).toMatchObject({
      problems: expect.arrayContaining([{ path, message: expect.stringMatching(message) }]),
    });
  });

  test("an override of the web servers keeps the one for probes and adds others", () => {
    const health = {
      name: "health",
      bindPoints: [{ interface: "0.0.0.0:8081", address: "127.0.0.1:8081" }],
      apis: [{ binding: "health-checks" }],
    };
    const more = {
      name: "more",
      bindPoints: [{ interface: "0.0.0.0:8090", address: "127.0.0.1:8090" }],
      apis: [{ binding: "metrics" }],
    };
    expect(rendered(overrides({ web: [health, more] }))).toMatchObject({ text: expect.stringContaining("name: more") });
  });
});

test("a name of a router can't end the comment that it stands in", () => {
  const [line] = file({ name: "x\ny: 1\rz: 2\u0085w: 3\u2028u: 4" }).text.split("\n");
  expect(line).toBe("# Rendered by the operator for router x?y: 1?z: 2?w: 3?u: 4-0 of EdgeRouter edge/eu.");
});

describe("what the pod is made for", () => {
  // biome-ignore format: a table
  test.each<[string, object, string]>([
    ["a container", { containers: [{ name: "x" }, { name: "router" }] }, "spec.template.spec.containers[1].name"],
    ["a first container", { initContainers: [{ name: "enroll" }] }, "spec.template.spec.initContainers[0].name"],
    ["a volume", { volumes: [{ name: "data" }] }, "spec.template.spec.volumes[0].name"],
    ["a mount", { volumeMounts: [{ name: "x", mountPath: "/etc/sallyport" }] }, "spec.template.spec.volumeMounts[0].mountPath"],
    ["a variable", { env: [{ name: "HOST_IP", value: "x" }] }, "spec.template.spec.env[0].name"],
  ])("may not lose %s to the template", (_name, spec, path) => {
    expect(podProblems(edgeRouter({ template: { spec } }))).toEqual([
      { path, message: expect.stringContaining("the operator's own") },
    ]);
  });

  const proxying = (proxyServices: readonly string[], more: object = {}) =>
    podProblems(edgeRouter({ ...more, tunneler: { enabled: true, mode: "proxy", proxyServices } }));

  test.each<[string, readonly string[], number, string]>([
    ["of the edge listener", ["web:3022"], 0, "port TCP 3022 is that of the edge listener (spec.edge.port)"],
    ["of the probes", ["db:5432", "web:8081"], 1, "port TCP 8081 is that of the probes"],
    ["of another service", ["a:80", "dns:80:udp", "b:80:tcp"], 2, "port TCP 80 is that of a:80"],
  ])("a service may not have the port %s", (_what, services, index, message) => {
    const path = `spec.tunneler.proxyServices[${index}]`;
    expect(proxying(services)).toEqual([{ path, message: `${message}: choose another` }]);
  });

  test("services may have the ports that others have of another protocol, and that others have left", () => {
    expect(proxying(["dns:53", "dns:53:udp", "x:3022:udp"])).toEqual([]);
    expect(proxying(["web:3022"], { edge: { port: 443 } })).toEqual([]);
  });
});
