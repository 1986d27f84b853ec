import { chmodSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { curl, datagram, hostState, type InterceptingHost, InterceptionSite } from "./interception.ts";
import { type Host, hasNamespaces } from "./network-namespace.ts";

/** What interception needs of its host, what it changes there, and that it takes all of that back. */
describe.skipIf(!hasNamespaces)("the host of an interceptor", () => {
  let site: InterceptionSite;
  let router: Host;
  let client: Host;

  beforeEach(async () => {
    site = new InterceptionSite();
    await site.build();
    ({ router, client } = site);
  });
  afterEach(async () => await site.close());

  const start = async (options: object = {}, env: Record<string, string> = {}) => await site.start(options, env);

  describe("is as before", () => {
    const busy = async (interceptor: InterceptingHost): Promise<void> => {
      const addresses = ["web.ziti", "*.wild.ziti", "10.5.0.0/16", "2001:db8:5::/48"];
      await interceptor.intercept({ name: "web", protocols: ["tcp", "udp"], addresses });
      await interceptor.source("198.51.100.0/24");
      expect(await curl(router, "http://x.wild.ziti/")).toMatchObject({ service: "web" });
    };

    test("when it stops", async () => {
      const before = await hostState(router);
      const interceptor = await start();
      await busy(interceptor);
      expect(await hostState(router)).not.toBe(before);
      expect(await interceptor.program.stop()).toBe(0);
      expect(await hostState(router)).toBe(before);
    });

    test("after kill -9, once the next one starts", async () => {
      const before = await hostState(router);
      const killed = await start();
      await busy(killed);
      killed.program.signal("SIGKILL");
      await killed.program.exited;
      expect(await hostState(router)).toContain("tproxy");
      const next = await start();
      expect((await router.run("nft", "list", "ruleset")).stdout).not.toContain("tproxy");
      expect(await curl(client, "http://10.5.0.1/", "--max-time", "5")).not.toMatchObject({ service: "web" });
      await next.intercept({ name: "other", addresses: ["10.5.0.1"] });
      expect(await curl(client, "http://10.5.0.1/")).toMatchObject({ service: "other" });
      expect(await next.program.stop()).toBe(0);
      expect(await hostState(router)).toBe(before);
    });

    test("but for what another interceptor on it still uses", async () => {
      const first = await start({ resolver: "udp://127.0.0.1:53" });
      await first.intercept({ name: "first", addresses: ["10.5.0.1", "10.6.0.1"] });
      await expect(start({ resolver: "udp://127.0.0.2:53" })).rejects.toThrow(
        /another tunneler of this host uses 100\.64\.0\.0\/10/,
      );
      const second = await start({ resolver: "udp://127.0.0.2:53", dnsSvcIpRange: "100.128.0.1/16" });
      await second.intercept({
        name: "second",
        addresses: ["10.5.0.1", "10.7.0.1"],
        portRanges: [{ low: 81, high: 81 }],
      });
      expect(await curl(client, "http://10.5.0.1/")).toMatchObject({ service: "first" });
      expect(await curl(client, "http://10.5.0.1:81/")).toMatchObject({ service: "second" });
      second.program.signal("SIGKILL");
      await second.program.exited;
      const third = await start({ resolver: "udp://127.0.0.2:53", dnsSvcIpRange: "100.128.0.1/16" });
      expect(await curl(client, "http://10.5.0.1:81/")).toBe(7);
      expect(await curl(client, "http://10.6.0.1/")).toMatchObject({ service: "first" });
      await third.program.stop();
      expect(await curl(client, "http://10.6.0.1/")).toMatchObject({ service: "first" });
      await first.program.stop();
      expect((await router.run("nft", "list", "ruleset")).stdout).toBe("");
    });
  });

  describe("without nft", () => {
    /** A PATH on which nft is not: the suite has it in a folder of its own. */
    const without = (): Record<string, string> => ({
      PATH: (process.env.PATH ?? "")
        .split(":")
        .filter((folder) => !/nft/.test(folder))
        .join(":"),
    });

    test("single addresses and ports are listened on, and that is said", async () => {
      const before = await hostState(router);
      await router.run("sysctl", "-w", "net.ipv6.ip_nonlocal_bind=1");
      const interceptor = await start({}, without());
      await interceptor.program.line(/falls back to one listener.*install the package nftables/);
      const both = { protocols: ["tcp", "udp"] as ("tcp" | "udp")[], portRanges: [{ low: 80, high: 82 }] };
      expect(
        await interceptor.intercept({ name: "web", addresses: ["web.ziti", "10.5.0.8/30", "2001:db8:5::1"], ...both }),
      ).toEqual({
        kind: "listeners",
      });
      expect(await curl(router, "http://web.ziti:82/")).toMatchObject({
        destinationHostname: "web.ziti",
        sourceIp: "192.0.2.1",
      });
      expect(await curl(client, "http://10.5.0.11/")).toMatchObject({
        destinationIp: "10.5.0.11",
        sourceIp: "192.0.2.2",
      });
      expect(await curl(client, "http://[2001:db8:5::1]/")).toMatchObject({ destinationIp: "2001:db8:5::1" });
      expect(await curl(client, "http://10.5.0.12/", "--max-time", "5")).not.toMatchObject({ service: "web" });
      expect(JSON.parse(await datagram(client, "10.5.0.9", 81))).toMatchObject({
        destinationIp: "10.5.0.9",
        sourceIp: "192.0.2.2",
      });
      await expect(interceptor.intercept({ name: "wide", addresses: ["10.0.0.0/8"] })).rejects.toThrow(
        /TOO_MANY_LISTENERS.*install nft/,
      );
      await interceptor.forget("web");
      expect(await curl(router, "http://10.5.0.9/")).toBe(7);
      await interceptor.program.stop();
      expect(await hostState(router)).toBe(before);
    });

    test("a port that another program has on all addresses is named, and nothing of the service stays", async () => {
      const server = `require("node:net").createServer().listen(81, "0.0.0.0", () => console.log("up"))`;
      await router.start({ name: "server", command: process.execPath, args: ["-e", server] }).line(/up/);
      const interceptor = await start({}, without());
      const target = { name: "web", addresses: ["10.5.0.1"], portRanges: [{ low: 80, high: 81 }] };
      await expect(interceptor.intercept(target)).rejects.toThrow(
        /ADDRESS_TAKEN.*10\.5\.0\.1 port 81.*another program has that port/,
      );
      expect(await router.ip("route", "show", "table", "local")).not.toContain("10.5.0.1");
    });
  });

  describe("privileges", () => {
    /** Runs a program as the user `nobody`, with these capabilities only. */
    const unprivileged = (...capabilities: string[]): string[] => {
      const only = ["-all", ...capabilities.map((name) => `+${name}`)].join(",");
      return [
        "setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        `--inh-caps=${only}`,
        `--ambient-caps=${only}`,
      ];
    };

    test("without any, it is said what is needed", async () => {
      const failed = site.start({}, {}, unprivileged());
      await expect(failed).rejects.toThrow(/CAP_NET_ADMIN/);
    });

    test("the two capabilities are enough", async () => {
      chmodSync(site.folder, 0o777);
      const prefix = unprivileged("net_admin", "net_bind_service");
      const interceptor = await site.start({}, {}, prefix);
      await interceptor.intercept({ name: "web", addresses: ["web.ziti"] });
      expect(await curl(router, "http://web.ziti/")).toMatchObject({ service: "web" });
      expect(await interceptor.program.stop()).toBe(0);
      expect(await hostState(router)).not.toContain("100.64.0.0/10");
    });
  });

  test("hosted targets see the address that a connection is to come from", async () => {
    const interceptor = await start();
    await interceptor.source("203.0.113.0/24");
    const server = `require("node:net").createServer((s) => s.end(s.remoteAddress + "\\n")).listen(7000, "192.0.2.2", () => console.log("up"))`;
    await client.start({ name: "target", command: process.execPath, args: ["-e", server] }).line(/up/);
    const connect = `require("node:net").connect({ host: "192.0.2.2", port: 7000, localAddress: "203.0.113.7" }).on("error", (e) => console.log(e.code)).pipe(process.stdout)`;
    expect((await router.run(process.execPath, "-e", connect)).stdout.trim()).toBe("203.0.113.7");
    await interceptor.program.stop();
    expect((await router.run(process.execPath, "-e", connect)).stdout.trim()).toBe("EADDRNOTAVAIL");
  });
});
