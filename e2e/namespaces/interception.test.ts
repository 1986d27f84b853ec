import { chmodSync, copyFileSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { eventually } from "../network/eventually.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";
import { curl, datagram, hostState, InterceptingHost } from "./interception.ts";
import { type Host, hasNamespaces, Site } from "./network-namespace.ts";

/** The router with the interceptor, a client behind it, and somebody's network that services stand for. */
describe.skipIf(!hasNamespaces)("interception", () => {
  let site: Site;
  let router: Host;
  let client: Host;
  let folder: string;

  beforeEach(async () => {
    folder = makeScratch("interception");
    site = new Site();
    router = await site.host("router");
    client = await site.host("client");
    await site.cable(router, ["192.0.2.1/24", "2001:db8::1/64"], client, ["192.0.2.2/24", "2001:db8::2/64"]);
    await client.ip("route", "add", "default", "via", "192.0.2.1");
    await client.ip("-6", "route", "add", "default", "via", "2001:db8::1");
    router.resolveWith("127.0.0.1");
    client.resolveWith("192.0.2.1");
  });
  afterEach(async () => {
    await site.close();
    removeScratch(folder);
  });

  const start = async (options: object = {}, env: Record<string, string> = {}) =>
    await InterceptingHost.start(router, folder, options, env);

  describe("by the packet filter", () => {
    test("curl finds a service by its name, on the router and behind it", async () => {
      const interceptor = await start({ resolver: "udp://192.0.2.1:53" });
      expect(await interceptor.intercept({ name: "web", addresses: ["web.ziti"] })).toEqual({ kind: "packet filter" });
      expect(await curl(client, "http://web.ziti/")).toMatchObject({
        ...{
          service: "web",
          sourceIp: "192.0.2.2",
          destinationIp: "100.64.0.2",
          destinationPort: 80,
          destinationHostname: "web.ziti",
        },
      });
      router.resolveWith("192.0.2.1");
      expect(await curl(router, "http://WEB.ziti/")).toMatchObject({
        ...{ service: "web", sourceIp: "192.0.2.1", destinationIp: "100.64.0.2", destinationHostname: "web.ziti" },
      });
      // Another port of the name, and an unknown name.
      expect(await curl(client, "http://web.ziti:81/")).toBe(7);
      expect(await curl(client, "http://other.ziti/")).toBe(6);
      await interceptor.forget("web");
      expect(await curl(client, "http://web.ziti/")).toBe(6);
      expect(await curl(client, "http://100.64.0.2/")).toBe(7);
    });

    test("a name under a wildcard is intercepted from the moment it is asked for", async () => {
      const interceptor = await start();
      await interceptor.intercept({
        name: "all",
        addresses: ["*.apps.example"],
        portRanges: [{ low: 8000, high: 8100 }],
      });
      expect(await curl(router, "http://a.b.apps.example:8042/")).toMatchObject({
        ...{ service: "all", destinationPort: 8042, destinationHostname: "a.b.apps.example" },
      });
      expect(await curl(router, "http://apps.example:8042/")).toBe(6);
    });

    test("addresses and ranges are intercepted, ports within their ranges only, for both families", async () => {
      const interceptor = await start();
      await interceptor.intercept({
        ...{ name: "net", addresses: ["10.5.0.0/16", "203.0.113.9", "2001:db8:5::/48"] },
        portRanges: [
          { low: 80, high: 80 },
          { low: 9000, high: 9999 },
        ],
      });
      expect(await curl(client, "http://10.5.7.9:9500/")).toMatchObject({
        destinationIp: "10.5.7.9",
        destinationPort: 9500,
      });
      expect(await curl(client, "http://203.0.113.9/")).toMatchObject({
        destinationIp: "203.0.113.9",
        sourceIp: "192.0.2.2",
      });
      expect(await curl(client, "http://[2001:db8:5::77]:9999/")).toMatchObject({
        ...{ destinationIp: "2001:db8:5::77", destinationPort: 9999, sourceIp: "2001:db8::2" },
      });
      expect(await curl(router, "http://[2001:db8:5::77]/")).toMatchObject({ destinationIp: "2001:db8:5::77" });
      expect(await curl(client, "http://10.5.7.9:8999/")).toBe(7);
      expect(await curl(client, "http://[2001:db8:5::77]:10000/")).toBe(7);
    });

    test("of overlapping services the most specific one gets the connection", async () => {
      const interceptor = await start();
      await interceptor.intercept({ name: "wide", addresses: ["10.5.0.0/16"] });
      await interceptor.intercept({ name: "narrow", addresses: ["10.5.7.0/24"] });
      await interceptor.intercept({ name: "one", addresses: ["10.5.7.9"], portRanges: [{ low: 1, high: 1000 }] });
      expect(await curl(client, "http://10.5.1.1/")).toMatchObject({ service: "wide" });
      expect(await curl(client, "http://10.5.7.1/")).toMatchObject({ service: "narrow" });
      expect(await curl(client, "http://10.5.7.9/")).toMatchObject({ service: "one" });
      await interceptor.forget("one");
      expect(await curl(client, "http://10.5.7.9/")).toMatchObject({ service: "narrow" });
    });

    test("two services share a range, and the second one lives on without the first", async () => {
      const interceptor = await start();
      await interceptor.intercept({ name: "web", addresses: ["10.5.0.0/16"] });
      await interceptor.intercept({ name: "api", addresses: ["10.5.0.0/16"], portRanges: [{ low: 8080, high: 8080 }] });
      await interceptor.forget("web");
      expect(await curl(client, "http://10.5.0.1:8080/")).toMatchObject({ service: "api" });
      expect(await curl(client, "http://10.5.0.1/")).toBe(7);
      await interceptor.forget("api");
      expect(await router.ip("route", "show", "table", "local")).not.toContain("10.5.0.0/16");
    });

    test("only allowed sources are intercepted", async () => {
      const interceptor = await start();
      await interceptor.intercept({
        name: "mine",
        addresses: ["10.5.0.1"],
        allowedSourceAddresses: ["192.0.2.2", "198.51.100.0/24"],
      });
      expect(await curl(client, "http://10.5.0.1/")).toMatchObject({ service: "mine" });
      expect(await curl(router, "http://10.5.0.1/")).toBe(7);
    });

    test("who connects to the listener itself is cut off", async () => {
      const interceptor = await start();
      await interceptor.intercept({ name: "web", addresses: ["10.5.0.1"] });
      const port = /tproxy ip to 127\.0\.0\.1:(\d+)/.exec((await router.run("nft", "list", "ruleset")).stdout)?.[1];
      // Reset while it connects, while it asks, or right behind that.
      expect(await curl(router, `http://127.0.0.1:${port}/`)).toBeOneOf([7, 55, 56]);
    });

    test("a connection goes on when its service ends, and its route stays until then", async () => {
      const interceptor = await start();
      await interceptor.intercept({ name: "echo", addresses: ["10.5.0.1"], portRanges: [{ low: 7, high: 7 }] });
      const program = `
        const socket = require("node:net").connect(7, "10.5.0.1", () => socket.write("first\\n"));
        let got = "";
        socket.on("data", (d) => { got += d; if (got.includes("first")) console.log("echoed"); if (got.includes("second")) socket.end(); });
        socket.on("end", () => console.log("ended in peace")).on("error", (e) => console.log(e.code));
        process.on("SIGUSR2", () => socket.write("second\\n"));`;
      const talker = client.start({ name: "talker", command: process.execPath, args: ["-e", program] });
      await talker.line(/echoed/);
      await interceptor.forget("echo");
      expect(await curl(client, "http://10.5.0.1:7/")).toBe(7);
      talker.signal("SIGUSR2");
      await talker.line(/ended in peace/);
      await eventually(
        "the route is gone",
        async () => !(await router.ip("route", "show", "table", "local")).includes("10.5.0.1"),
      );
    });

    test("datagrams reach a service and come back from where they were sent, small and large, in both families", async () => {
      const interceptor = await start();
      const ports = [{ low: 5000, high: 5999 }];
      await interceptor.intercept({
        name: "udp",
        protocols: ["udp"],
        addresses: ["10.5.0.0/16", "2001:db8:5::1", "u.ziti"],
        portRanges: ports,
      });
      const seen = JSON.parse(await datagram(client, "10.5.6.7", 5353));
      expect(seen).toMatchObject({
        service: "udp",
        protocol: "udp",
        sourceIp: "192.0.2.2",
        destinationIp: "10.5.6.7",
        destinationPort: 5353,
      });
      expect(JSON.parse(await datagram(client, "2001:db8:5::1", 5000))).toMatchObject({
        destinationIp: "2001:db8:5::1",
      });
      expect(JSON.parse(await datagram(router, "10.5.6.8", 5999))).toMatchObject({ sourceIp: "192.0.2.1" });
      expect(JSON.parse(await datagram(router, "100.64.0.2", 5999))).toMatchObject({ destinationHostname: "u.ziti" });
      for (const size of [1472, 9000, 65_507])
        expect(await datagram(client, "10.5.6.7", 5353, size)).toBe(String(size));
      expect(await datagram(client, "10.5.6.7", 6000, 4, 500)).toMatch(/ECONNREFUSED|silence/);
    });

    test("a flow is one client port and one destination; it ends when the client's port is closed", async () => {
      const interceptor = await start();
      await interceptor.intercept({
        name: "udp",
        protocols: ["udp"],
        addresses: ["10.5.0.0/16"],
        portRanges: [{ low: 5000, high: 5999 }],
      });
      const program = `
        const socket = require("node:dgram").createSocket("udp4");
        const answers = [];
        socket.on("message", (m, from) => {
          answers.push(JSON.parse(String(m).split("\\n")[0]).destinationIp + " from " + from.address);
          if (answers.length < 40) return;
          console.log(JSON.stringify([...new Set(answers)].sort()));
          socket.close();
        });
        socket.bind(() => { for (let i = 0; i < 20; i++) { socket.send("x", 5000, "10.5.0.1"); socket.send("y", 5000, "10.5.0.2"); } });`;
      const answers = JSON.parse((await client.run(process.execPath, "-e", program)).stdout);
      expect(answers).toEqual(["10.5.0.1 from 10.5.0.1", "10.5.0.2 from 10.5.0.2"]);
    });

    test("idle flows end", async () => {
      const interceptor = await start({ udpIdleTimeoutMs: 5_000, udpCheckIntervalMs: 1_000 });
      await interceptor.intercept({
        name: "udp",
        protocols: ["udp"],
        addresses: ["10.5.0.1"],
        portRanges: [{ low: 5000, high: 5000 }],
      });
      const program = `
        const socket = require("node:dgram").createSocket("udp4");
        socket.on("message", () => console.log("answer"));
        socket.bind(() => socket.send("x", 5000, "10.5.0.1"));`;
      await client.start({ name: "sender", command: process.execPath, args: ["-e", program] }).line(/answer/);
      await interceptor.program.line(/flow closed/, 60_000);
    });

    test("a program that has the port on all addresses of the host does not hinder TCP", async () => {
      const server = `require("node:http").createServer((q, r) => r.end('{"service":"local"}')).listen(80, () => console.log("up"))`;
      await router.start({ name: "web server", command: process.execPath, args: ["-e", server] }).line(/up/);
      const interceptor = await start();
      await interceptor.intercept({ name: "web", addresses: ["10.5.0.1"] });
      expect(await curl(client, "http://10.5.0.1/")).toMatchObject({ service: "web" });
      expect(await curl(client, "http://192.0.2.1/")).toEqual({ service: "local" });
    });

    test("what the tunneler itself needs is not intercepted", async () => {
      const interceptor = await start({
        ...{
          protect: ["192.0.2.2", "198.51.100.7", "ctrl.example.com"],
          resolver: "udp://127.0.0.1:53?upstream=203.0.113.53",
        },
      });
      const refused = async (...addresses: string[]) => await interceptor.intercept({ name: "bad", addresses });
      await expect(refused("198.51.100.0/24")).rejects.toThrow(
        /PROTECTED_ADDRESS.*198\.51\.100\.7.*narrow the addresses/,
      );
      await expect(refused("203.0.113.53")).rejects.toThrow(/PROTECTED_ADDRESS/);
      await expect(refused("0.0.0.0/0")).rejects.toThrow(/PROTECTED_ADDRESS/);
      await expect(refused("::/0")).rejects.toThrow(/PROTECTED_ADDRESS.*::1/);
      await expect(refused("Ctrl.Example.com")).rejects.toThrow(/PROTECTED_ADDRESS/);
      await interceptor.intercept({ name: "wild", addresses: ["*.example.com"] });
      expect(await curl(router, "http://ctrl.example.com/", "--max-time", "1")).not.toMatchObject({ service: "wild" });
      expect(await curl(router, "http://other.example.com/")).toMatchObject({ service: "wild" });
      // An address of the host itself may be intercepted: only the ports are taken.
      await interceptor.intercept({ name: "own", addresses: ["192.0.2.1"] });
      expect(await curl(client, "http://192.0.2.1/")).toMatchObject({ service: "own" });
    });

    test("clients of a network are let in by lanIf where the table of the tunneler decides", async () => {
      const [{ ifname = "" } = {}] = JSON.parse(await router.ip("-j", "-4", "addr", "show", "to", "192.0.2.1")) as {
        ifname?: string;
      }[];
      const interceptor = await start({ lanIf: ifname });
      await interceptor.intercept({ name: "web", addresses: ["10.5.0.1"] });
      expect((await router.run("nft", "list", "ruleset")).stdout).toContain(
        `iifname "${ifname}" ip daddr 10.5.0.1 tcp dport 80 accept`,
      );
      expect(await curl(client, "http://10.5.0.1/")).toMatchObject({ service: "web" });
    });
  });

  describe("by a diverter", () => {
    const target = { name: "web", addresses: ["10.5.0.0/16"], portRanges: [{ low: 80, high: 90 }] };
    let program: string;
    const calls = (): string[] =>
      readFileSync(`${program}.calls`, "utf8")
        .trim()
        .replaceAll(/ -t \d+/g, " -t PORT")
        .split("\n");
    /** It refuses what matches from now on; nothing without a pattern. */
    const refuses = (pattern: string): void => writeFileSync(`${program}.refuses`, pattern);

    beforeEach(() => {
      program = join(folder, "diverter");
      copyFileSync(join(import.meta.dirname, "diverter.sh"), program);
    });

    test("it is told each address, source and range of ports, and the same in reverse", async () => {
      const interceptor = await start({ diverter: program });
      await interceptor.intercept({ ...target, id: "idOfWeb", allowedSourceAddresses: ["192.0.2.2"] });
      await interceptor.intercept({ ...target, id: "idOfDatagrams", protocols: ["udp"] });
      expect((await router.run("nft", "list", "tables")).stdout.trim()).toBe("table ip diverted");
      expect(await curl(client, "http://10.5.7.9:85/")).toMatchObject({ service: "web", destinationIp: "10.5.7.9" });
      expect(JSON.parse(await datagram(client, "10.5.6.7", 90))).toMatchObject({ sourceIp: "192.0.2.2" });
      expect(await curl(router, "http://10.5.7.9:85/")).toBe(7);
      const web = "-c 10.5.0.0 -m 16 -o 192.0.2.2 -n 32 -p tcp -l 80 -h 90";
      const udp = "-c 10.5.0.0 -m 16 -o 0.0.0.0 -n 0 -p udp -l 80 -h 90";
      const told = ["-V", `-I ${web} -t PORT -s idOfWeb`, `-I ${udp} -t PORT -s idOfDatagrams`];
      expect(calls()).toEqual(told);
      await interceptor.forget("idOfWeb");
      expect(await curl(client, "http://10.5.7.9:85/")).toBe(7);
      expect(await interceptor.program.stop()).toBe(0);
      expect(calls()).toEqual([...told, `-D ${web}`, `-D ${udp}`]);
      expect((await router.run("nft", "list", "ruleset")).stdout).not.toContain("tproxy");
    });

    test("without it, or with one that says no, the tunneler does not start, and says why", async () => {
      await expect(start({ diverter: join(folder, "missing") })).rejects.toThrow(/missing is not on this host/);
      refuses("^-V");
      await expect(start({ diverter: program })).rejects.toThrow(/diverter -V" failed: no room in the table/);
      expect(await router.ip("route", "show", "table", "local")).not.toContain("100.64.0.0/10");
    });

    test("a service that it refuses is refused with its words, leaves nothing, and harms no other", async () => {
      const interceptor = await start({ diverter: program });
      await interceptor.intercept({ ...target, name: "first" });
      refuses("-c 10.7.0.2 ");
      const second = { ...target, name: "second", addresses: ["10.7.0.1", "10.7.0.2"] };
      await expect(interceptor.intercept(second)).rejects.toThrow(
        /COMMAND_FAILED.*-I -c 10\.7\.0\.2.*no room in the table/,
      );
      // The half of it that had been diverted was taken back.
      expect(calls().at(-1)).toMatch(/^-D -c 10\.7\.0\.1 /);
      expect(await router.ip("route", "show", "table", "local")).not.toContain("10.7.0.1");
      await interceptor.intercept({ ...target, name: "third", addresses: ["10.8.0.1"] });
      expect(await curl(client, "http://10.8.0.1/")).toMatchObject({ service: "third" });
      expect(await curl(client, "http://10.5.0.1/")).toMatchObject({ service: "first" });
      refuses("");
      await interceptor.intercept(second);
      expect(await curl(client, "http://10.7.0.2/")).toMatchObject({ service: "second" });
    });

    test("what it does not take back is logged, hinders nobody, and is told again", async () => {
      const interceptor = await start({ diverter: program });
      await interceptor.intercept({ ...target, name: "first" });
      refuses("^-D -c 10.5.0.0");
      const logged = interceptor.program.nextLine(/"warn".*has not taken an entry back.*no room in the table/);
      await interceptor.forget("first");
      await logged;
      // It still diverts, but nobody answers any more.
      expect(typeof (await curl(client, "http://10.5.0.1/", "--max-time", "2"))).toBe("number");
      await interceptor.intercept({ ...target, name: "second", addresses: ["10.8.0.1"] });
      expect(await curl(client, "http://10.8.0.1/")).toMatchObject({ service: "second" });
      refuses("");
      await interceptor.forget("second");
      expect((await router.run("nft", "list", "ruleset")).stdout).not.toContain("tproxy");
      expect(await interceptor.program.stop()).toBe(0);
    });
  });

  describe("leaves nothing behind", () => {
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

    test("of its own, while another one of the host goes on", async () => {
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
    /** Runs a program as nobody, with these capabilities only. */
    const nobody = (...capabilities: string[]): string[] => {
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
      const failed = InterceptingHost.start(router, folder, {}, {}, nobody());
      await expect(failed).rejects.toThrow(/CAP_NET_ADMIN/);
    });

    test("the two capabilities are enough", async () => {
      chmodSync(folder, 0o777);
      const prefix = nobody("net_admin", "net_bind_service");
      const interceptor = await InterceptingHost.start(router, folder, {}, {}, prefix);
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
