import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { eventually } from "../network/eventually.ts";
import { curl, datagram, InterceptionSite } from "./interception.ts";
import { type Host, hasNamespaces } from "./network-namespace.ts";

describe.skipIf(!hasNamespaces)("interception by the packet filter", () => {
  let site: InterceptionSite;
  let router: Host;
  let client: Host;

  beforeEach(async () => {
    site = new InterceptionSite();
    await site.build();
    ({ router, client } = site);
  });
  afterEach(async () => await site.close());

  const start = async (options: object = {}) => await site.start(options);

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

  test("a client that connects to the listener itself is cut off", async () => {
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
    for (const size of [1472, 9000, 65_507]) expect(await datagram(client, "10.5.6.7", 5353, size)).toBe(String(size));
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
