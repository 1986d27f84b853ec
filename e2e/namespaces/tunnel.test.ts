import { execFileSync } from "node:child_process";
import { createSocket, type Socket } from "node:dgram";
import { once } from "node:events";
import { copyFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { eventually } from "../network/eventually.ts";
import { type Network, startNetwork } from "../network/network.ts";
import type { Program } from "../network/program.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";
import { allow, declareConfigured, declareIdentity, startTunneler } from "../network/tunneler.ts";
import { type Host, hasNamespaces, Site } from "./network-namespace.ts";

/**
 * A whole network in the namespace of the test: controller, two routers, a tunneler that hosts and one that intercepts. `client` is a machine
 * behind the intercepting one, `server` one behind the hosting one; neither knows of the overlay, nor of the other.
 */
describe.skipIf(!hasNamespaces)("applications on a network that they know nothing of", () => {
  const folder = makeScratch("namespaces");
  const site = new Site();
  const here = site.here();
  let client: Host;
  /** The interface towards it. */
  let lanIf: string;
  let server: Host;
  let network: Network;
  let hosting: Program;
  let tunneler: Program;
  let nameServer: Socket;
  let files: { host: string; client: string };
  /** Id of the service that the router intercepts. */
  let routed: string;
  const tunnel = () => startTunneler(folder, "run", "run", "-i", files.client, "--resolver", "udp://198.18.5.1:53");
  const ask = async (host: Host, url: string): Promise<string> => {
    const ran = await host.attempt("curl", "-sS", "--max-time", "10", url);
    return ran.code === 0 ? ran.stdout : `curl ${ran.code}`;
  };
  const answers = async (host: Host, url: string): Promise<string> =>
    await eventually(
      `an answer of ${url}`,
      async () => {
        const answer = await ask(host, url);
        if (answer.startsWith("curl ")) throw new Error(answer);
        return answer;
      },
      60_000,
    );

  /** Asks one name server by UDP; the addresses, or the error's code. */
  const resolve = async (host: Host, nameServer: string, name: string): Promise<string> => {
    const program = `
      const { Resolver } = require("node:dns").promises;
      const resolver = new Resolver({ timeout: 2000, tries: 20 });
      resolver.setServers(["${nameServer}"]);
      resolver.resolve4("${name}").then((found) => console.log(found.join()), (e) => console.log(e.code));`;
    return (await host.run(process.execPath, "-e", program)).stdout.trim();
  };

  beforeAll(async () => {
    client = await site.host("client");
    server = await site.host("server");
    const lan = await site.cable(here, ["198.18.5.1/24", "198.18.5.3/24"], client, "198.18.5.2/24");
    lanIf = lan.a.device;
    await site.cable(here, "198.18.6.1/24", server, "198.18.6.2/24");
    await client.ip("route", "add", "default", "via", "198.18.5.1");
    await server.ip("route", "add", "default", "via", "198.18.6.1");
    client.resolveWith("198.18.5.1");
    const web = `require("node:http").createServer((q, r) => r.end(q.headers.host + " " + q.url + " from " + q.socket.remoteAddress)).listen(8080, () => console.log("up"))`;
    await server.start({ name: "web", command: process.execPath, args: ["-e", web] }).line(/up/);
    nameServer = createSocket("udp4").bind(0, "127.0.0.1");
    await once(nameServer, "listening");
    // Every question of one name for an address has the same answer.
    nameServer.on("message", (query, from) => {
      const answer = Buffer.concat([query, Buffer.from("c00c000100010000003c0004c633640a", "hex")]);
      answer.writeUInt16BE(0x8180, 2);
      answer.writeUInt16BE(1, 6);
      nameServer.send(answer, from.port, from.address);
    });
    const resolver = `udp://198.18.5.3:53?upstream=127.0.0.1:${nameServer.address().port}`;
    const tproxy = `mode: tproxy, resolver: "${resolver}", dnsSvcIpRange: 100.128.0.1/16, lanIf: ${lanIf}`;
    // A flow of datagrams of an SDK is a circuit until it is idle: nothing to wait for when a router stops.
    const stop = "\nshutdown: { drainTimeout: 1s }\n";
    network = await startNetwork(join(folder, "network"), {
      routerSettings: (name, text) =>
        name === "r1"
          ? text.replace("\nlisteners:\n", `\nlisteners:\n  - binding: tunnel\n    options: { ${tproxy} }\n`) + stop
          : text.replace("\nlisteners:\n", "\nlisteners:\n  - binding: tunnel\n    options: { mode: host }\n") + stop,
    });
    files = {
      host: (await declareIdentity(network, "host", "r2")).file,
      client: (await declareIdentity(network, "client", "r1")).file,
    };
    await allow(network, "Bind", "host", "tunnel");
    await allow(network, "Dial", "client", "tunnel");
    // The router's own tunneler has the identity with the router's id.
    const { data: routers } = await network.management.listEdgeRouters({});
    for (const { id, name } of routers) {
      await network.management.patchEdgeRouter({ params: { id }, body: { isTunnelerEnabled: true } });
      await network.management.patchIdentity({ params: { id }, body: { roleAttributes: [name] } });
    }
    await allow(network, "Dial", "r1", "routed");
    await allow(network, "Bind", "r2", "behind");
    await allow(network, "Dial", "client", "behind");
    await network.management.createServiceEdgeRouterPolicy({
      body: { name: "all", semantic: "AnyOf", serviceRoles: ["#all"], edgeRouterRoles: ["#all"] },
    });
    const roles: Record<string, string[]> = {
      ...{ routed: ["tunnel", "routed"], "routed names": ["tunnel", "routed"], behind: ["behind"] },
    };
    const declare = async (name: string, intercept: object, host: object): Promise<string> => {
      const ports = { protocols: ["tcp"], portRanges: [{ low: 80, high: 80 }] };
      const { id } = await declareConfigured(network, {
        ...{ name, roles: roles[name] ?? ["tunnel"] },
        configs: {
          "intercept.v1": { ...ports, ...intercept },
          "host.v1": { protocol: "tcp", address: "198.18.6.2", port: 8080, ...host },
        },
      });
      return id;
    };
    await declare("web", { addresses: ["web.ziti", "*.apps.ziti", "10.77.0.0/24"] }, {});
    const dns = { protocols: ["udp"], portRanges: [{ low: 53, high: 53 }] };
    const dnsHost = { protocol: "udp", address: "127.0.0.1", port: nameServer.address().port };
    await declare("names", { ...dns, addresses: ["10.77.1.53"] }, dnsHost);
    await declare("routed names", { ...dns, addresses: ["ns.routed.ziti", "10.78.1.53"] }, dnsHost);
    await declare(
      "transparent",
      { addresses: ["10.77.3.1"], sourceIp: "203.0.113.50" },
      { allowedSourceAddresses: ["203.0.113.0/24"] },
    );
    await declare(
      "behind",
      { addresses: ["10.77.4.1"], sourceIp: "192.0.2.50" },
      { allowedSourceAddresses: ["192.0.2.0/24"] },
    );
    routed = await declare(
      "routed",
      { protocols: ["tcp", "udp"], addresses: ["routed.ziti", "*.routed.example", "10.78.0.0/24"] },
      { protocol: undefined, forwardProtocol: true, allowedProtocols: ["tcp", "udp"] },
    );
    hosting = startTunneler(folder, "hosting", "host", "-i", files.host);
    tunneler = tunnel();
  });

  afterAll(async () => {
    await tunneler?.stop();
    await hosting?.stop();
    await network?.stop();
    nameServer?.close();
    await site.close();
    removeScratch(folder);
  });

  test("curl reaches a service by its name, by a name under its wildcard, and by its addresses", async () => {
    expect(await answers(client, "http://web.ziti/a")).toBe("web.ziti /a from ::ffff:198.18.6.1");
    expect(await answers(client, "http://one.apps.ziti/b")).toBe("one.apps.ziti /b from ::ffff:198.18.6.1");
    expect(await answers(client, "http://10.77.0.9/c")).toBe("10.77.0.9 /c from ::ffff:198.18.6.1");
    expect(await ask(client, "http://web.ziti:81/")).toBe("curl 7");
    expect(await ask(client, "http://nowhere.ziti/")).toBe("curl 6");
    // Applications of the tunneler's own machine, too.
    expect(await answers(here, "http://10.77.0.9/d")).toBe("10.77.0.9 /d from ::ffff:198.18.6.1");
  });

  test("a DNS query goes over UDP to a name server behind the network", async () => {
    expect(await resolve(client, "10.77.1.53", "anything.example")).toBe("198.51.100.10");
  });

  test("the server sees the address that the service's configuration says", async () => {
    expect(await answers(client, "http://10.77.3.1/")).toBe("10.77.3.1 / from ::ffff:203.0.113.50");
    // The same with a router as host; what it needs for it goes with it.
    expect(await answers(client, "http://10.77.4.1/")).toBe("10.77.4.1 / from ::ffff:192.0.2.50");
    const claimed = async () => (await here.ip("route", "show", "table", "local")).includes("192.0.2.0/24");
    expect(await claimed()).toBe(true);
    await network.stopProgram("r2");
    expect(await claimed()).toBe(false);
    await network.startRouter("r2");
  });

  test("a router's own tproxy serves its machine and those behind it: names, curl by name, and DNS as a service's traffic", async () => {
    expect((await here.run("nft", "list", "ruleset")).stdout).toContain(`iifname "${lanIf}" ip daddr`);
    try {
      for (const [host, from] of [
        [here, "here"],
        [client, "client"],
      ] as const) {
        host.resolveWith("198.18.5.3");
        expect(await answers(host, "http://routed.ziti/a")).toBe("routed.ziti /a from ::ffff:198.18.6.1");
        expect(await answers(host, `http://${from}.routed.example/b`)).toContain(`${from}.routed.example /b`);
        expect(await resolve(host, "198.18.5.3", "routed.ziti")).toMatch(/^100\.128\.0\.\d+$/);
        // What the router does not know its upstream answers.
        expect(await resolve(host, "198.18.5.3", "anything.example")).toBe("198.51.100.10");
        // Through the network to a name server behind it, by its address and by the one that its name was given.
        expect(await resolve(host, "10.78.1.53", "anything.example")).toBe("198.51.100.10");
        const named = await resolve(host, "198.18.5.3", "ns.routed.ziti");
        expect(named).toMatch(/^100\.128\.0\.\d+$/);
        expect(await resolve(host, named, "anything.example")).toBe("198.51.100.10");
      }
    } finally {
      here.resolveWith("127.0.0.1");
      client.resolveWith("198.18.5.1");
    }
  });

  test("a router has a diverter of the user divert packets, and calls it to remove all entries when it stops", async () => {
    const program = join(folder, "diverter");
    copyFileSync(join(import.meta.dirname, "diverter.sh"), program);
    const file = join(network.folder, "r1.yml");
    const settings = readFileSync(file, "utf8");
    client.resolveWith("198.18.5.3");
    try {
      await network.stopProgram("r1");
      writeFileSync(file, settings.replace("mode: tproxy,", `mode: "tproxy:${program}",`));
      await network.startRouter("r1");
      expect(await answers(client, "http://routed.ziti/a")).toBe("routed.ziti /a from ::ffff:198.18.6.1");
      expect(await resolve(client, "10.78.1.53", "anything.example")).toBe("198.51.100.10");
      expect(await network.stopProgram("r1")).toBe(0);
      const calls = readFileSync(`${program}.calls`, "utf8").trim().split("\n");
      expect(calls[0]).toBe("-V");
      const [made, taken] = ["-I", "-D"].map((what) => calls.filter((call) => call.startsWith(`${what} `)));
      const key = "-c 10.78.0.0 -m 24 -o 0.0.0.0 -n 0 -p udp -l 80 -h 80";
      expect(made).toContainEqual(expect.stringMatching(new RegExp(`^-I ${key} -t \\d+ -s ${routed}$`)));
      expect(taken?.toSorted()).toEqual(
        made?.map((call) => call.replace(/^-I/, "-D").replace(/ -t \d+ -s \S+$/, "")).toSorted(),
      );
      expect((await here.run("nft", "list", "table", "ip", "diverted")).stdout).not.toContain("tproxy");
    } finally {
      await here.attempt("nft", "delete", "table", "ip", "diverted");
      client.resolveWith("198.18.5.1");
      writeFileSync(file, settings);
      await network.startRouter("r1");
    }
  });

  test("a router intercepts by itself, beside the tunneler, and removes what is its own when it stops", {
    timeout: 300_000,
  }, async () => {
    client.resolveWith("198.18.5.3");
    expect(await answers(client, "http://routed.ziti/a")).toBe("routed.ziti /a from ::ffff:198.18.6.1");
    const tables = async (): Promise<number> =>
      (await here.run("nft", "list", "tables")).stdout.split("sallyport_").length - 1;
    const ranges = async (): Promise<string[]> =>
      [...(await here.ip("route", "show", "table", "local")).matchAll(/^local (100\.\d+\.0\.0\/\d+)/gm)]
        .map((match) => match[1] ?? "")
        .toSorted();
    expect([await tables(), await ranges()]).toEqual([2, ["100.128.0.0/16", "100.64.0.0/10"]]);
    await network.stopProgram("r1");
    expect([await tables(), await ranges()]).toEqual([1, ["100.64.0.0/10"]]);
    await network.startRouter("r1");
    expect(await answers(client, "http://routed.ziti/b")).toBe("routed.ziti /b from ::ffff:198.18.6.1");
    await network.stopProgram("r1", "SIGKILL");
    expect([await tables(), await ranges()]).toEqual([2, ["100.128.0.0/16", "100.64.0.0/10"]]);
    await network.startRouter("r1");
    expect(await answers(client, "http://routed.ziti/c")).toBe("routed.ziti /c from ::ffff:198.18.6.1");
    expect([await tables(), await ranges()]).toEqual([2, ["100.128.0.0/16", "100.64.0.0/10"]]);
    await network.stopProgram("r1");
    client.resolveWith("198.18.5.1");
    await network.startRouter("r1");
  });

  test("an identity is not enrolled onto a disk that is full: the token stays good, and nothing is left", async () => {
    const { data } = await network.management.createIdentity({
      body: { name: "enrolled", type: "Device", isAdmin: false, enrollment: { ott: true } },
    });
    const detail = await network.management.detailIdentity({ params: { id: data.id } });
    const token = join(folder, "enrolled.jwt");
    writeFileSync(token, detail.data.enrollment.ott?.jwt ?? "");
    const disk = join(folder, "disk");
    mkdirSync(disk);
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=32k", "tmpfs", disk]);
    try {
      writeFileSync(join(disk, "other"), Buffer.alloc(32 * 1024));
      const enroll = () => startTunneler(folder, "enroll", "enroll", "--jwt", token, "-o", join(disk, "me.json"));
      const full = enroll();
      expect(await full.exited).not.toBe(0);
      expect(full.tail.join("\n")).toContain("ENOSPC");
      expect(readdirSync(disk)).toEqual(["other"]);
      execFileSync("mount", ["-o", "remount,size=1m", disk]);
      const second = enroll();
      expect([await second.exited, second.tail]).toMatchObject([0, {}]);
      expect(JSON.parse(readFileSync(join(disk, "me.json"), "utf8"))).toMatchObject({
        id: { cert: expect.any(String) },
      });
    } finally {
      execFileSync("umount", [disk]);
    }
  });

  test("a tunneler that is killed leaves no stale rules once the next one runs; the last one leaves none at all", async () => {
    await answers(client, "http://10.77.0.9/");
    const ofBoth = ["10.78.0.0/24", "10.78.1.53"];
    const everything = [
      ...["10.77.0.0/24", "10.77.1.53", "10.77.3.1", "10.77.4.1", "100.64.0.0/10", ...ofBoth],
      ...["100.128.0.0/16", ...ofBoth],
      // What hosts may send from: the tunneler's, and the router's.
      ...["203.0.113.0/24", "192.0.2.0/24"],
    ]
      .toSorted()
      .join("\n");
    // Without the numbers of slots: a restarted tunneler takes the first free one.
    const local = async (): Promise<string> =>
      (await here.ip("route", "show", "table", "local"))
        .split("\n")
        .filter((line) => /metric 2\d\d/.test(line))
        .map((line) => line.split(" ")[1])
        .toSorted()
        .join("\n");
    // Other files of tests have tables of their own in this namespace.
    const rules = async (): Promise<string> =>
      (await here.run("nft", "list", "tables")).stdout
        .split("\n")
        .filter((line) => line.includes("sallyport_"))
        .map((line) => line.replaceAll(/\d+/g, "N"))
        .join("\n");
    // Routers that were started a moment ago find out in their own time what there is to intercept and to host.
    const inStep = async (): Promise<void> => {
      const patience = { timeout: 60_000 };
      await expect.poll(local, patience).toBe(everything);
      await expect.poll(rules, patience).toBe("table inet sallyport_N\ntable inet sallyport_N");
    };
    await inStep();
    tunneler.signal("SIGKILL");
    await tunneler.exited;
    expect(await local()).toBe(everything);
    tunneler = tunnel();
    expect(await answers(client, "http://web.ziti/again")).toContain("web.ziti /again");
    await inStep();
    expect(await tunneler.stop()).toBe(0);
    expect(await hosting.stop()).toBe(0);
    await Promise.all(["r1", "r2"].map((name) => network.stopProgram(name)));
    expect([await local(), await rules()]).toEqual(["", ""]);
  });
});
