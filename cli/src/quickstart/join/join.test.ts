import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { hostedPlaces } from "./hosted-place.ts";
import { removeNames } from "./hosts-file.ts";
import { canHavePort, localPorts, whyNotIntercepted } from "./way-in.ts";

it("the hosts file loses the lines of services, and no other one", async () => {
  const folder = mkdtempSync(join(tmpdir(), "sallyport-hosts-"));
  try {
    const file = join(folder, "hosts");
    const own = "127.0.0.1 localhost\n100.64.0.9\tweb.example\n100.64.0.3\tother.example\t# NetFoundry\n";
    writeFileSync(file, `${own}100.64.0.2\tweb.example\t# NetFoundry\n`);
    await removeNames(["Web.example", "db.example"], file);
    expect(readFileSync(file, "utf8")).toBe(own);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

const service = (name: string, port: number | undefined, ...protocols: ("tcp" | "udp")[]) => ({
  ...{ name, port, protocols: protocols.length === 0 ? (["tcp"] as const) : protocols },
  ...{ isDialled: true, isHosted: false, hostedPlaces: [], hostNames: [] },
});

it("services get the ports of an earlier run, their own, or the next free ones", async () => {
  const server = createServer().listen(0);
  await new Promise((resolve) => server.once("listening", resolve));
  const { port: taken } = server.address() as { port: number };
  try {
    const services = [service("a", taken), service("b", 80), service("c", 20_411), service("dns", 53, "tcp", "udp")];
    const ports = await localPorts(services, { b: 20_410, "dns:udp": 20_411 });
    const of = (name: string) => ports.filter((each) => each.service === name).map(({ port }) => port);
    expect(of("a")[0]).toBeGreaterThan(taken);
    expect(of("b")).toEqual([20_410]);
    expect(of("c")[0]).toBeGreaterThan(20_411);
    expect(of("dns")[0]).toBeGreaterThanOrEqual(8_000);
    expect(of("dns")[1]).toBe(20_411);
    expect(new Set(ports.map(({ port }) => port)).size).toBe(5);
    expect(["web-1", "a:b", "a b", "a\u0000"].map((name) => canHavePort(service(name, 80)))).toEqual([
      true,
      false,
      false,
      false,
    ]);
  } finally {
    server.close();
  }
});

it("a name or port that the network chose badly does not keep the machine from other services", async () => {
  const services = [service("__proto__", 80), service("far", 1e9), service("web", 80)];
  const ports = await localPorts(services, {});
  expect(ports.map((each) => each.service)).toEqual(["__proto__", "far", "web"]);
  for (const { port } of ports) expect(port).toBeGreaterThanOrEqual(8_000);
});

it("each of more services than ports are tried for one gets a port", async () => {
  const services = Array.from({ length: 120 }, (_, index) => service(`s${index}`, 443));
  const ports = await localPorts(services, {});
  expect(new Set(ports.map(({ port }) => port)).size).toBe(120);
});

it.each([
  [{ "host.v1": { protocol: "tcp", address: "localhost", port: 22 } }, ["tcp:localhost:22"]],
  [
    {
      "host.v1": {
        ...{ forwardProtocol: true, allowedProtocols: ["tcp", "udp"], forwardAddress: true },
        ...{ allowedAddresses: ["10.0.0.0/8", "*.lan"], forwardPort: true },
        allowedPortRanges: [
          { low: 1, high: 1_024 },
          { low: 8_080, high: 8_080 },
        ],
      },
    },
    ["tcp,udp:10.0.0.0/8,*.lan:1-1024,8080"],
  ],
  [
    { "host.v2": { terminators: [{ address: "a", port: 1 }, { address: "b", port: 2 }, null] } },
    ["tcp:a:1", "tcp:b:2"],
  ],
  [{ "ziti-tunneler-server.v1": { protocol: "udp", hostname: "dns", port: 53 } }, ["udp:dns:53"]],
  [{ "host.v1": 3, "intercept.v1": {} }, []],
  [undefined, []],
])("what a machine hosts is said: %j", (configs, places) => expect(hostedPlaces(configs)).toEqual(places));

it.skipIf(process.platform !== "linux")("connections are intercepted by root only, with the programs for it", () => {
  const why = whyNotIntercepted({ PATH: "/nonexistent" });
  expect(why).toMatch(process.getuid?.() === 0 ? /no program 'ip'|CAP_NET_ADMIN/ : /not root/);
});
