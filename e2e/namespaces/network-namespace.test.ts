import { once } from "node:events";
import { connect, createServer } from "node:net";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { eventually } from "../network/eventually.ts";
import { type Host, hasNamespaces, Site } from "./network-namespace.ts";

describe.skipIf(!hasNamespaces)("network namespaces of tests", () => {
  let site: Site;
  let a: Host;
  let b: Host;

  beforeEach(async () => {
    site = new Site();
    a = await site.host("a");
    b = await site.host("b");
  });
  afterEach(async () => await site.close());

  const join = () => site.cable(a, ["192.0.2.1/24", "2001:db8::1/64"], b, ["192.0.2.2/24", "2001:db8::2/64"]);
  const echo = async (host: Host, address: string): Promise<void> => {
    const program = `require("node:net").createServer({ allowHalfOpen: true }, (s) => s.pipe(s)).listen(7, ${JSON.stringify(address)}, () => console.log("ready"))`;
    await host.start({ name: "echo", command: process.execPath, args: ["-e", program] }).line(/ready/);
  };
  /** Sends a line to the echo from inside a host. */
  const ask = async (host: Host, address: string, timeoutMs = 500): Promise<string> => {
    const program = `
      const s = require("node:net").connect(7, ${JSON.stringify(address)}, () => s.end("hello"));
      s.setTimeout(${timeoutMs}, () => { console.log("silence"); process.exit() });
      s.on("data", (d) => console.log(String(d))).on("error", (e) => console.log(e.code));`;
    return (await host.run(process.execPath, "-e", program)).stdout.trim();
  };

  test("hosts reach each other by their cable, by both address families, and nothing else", async () => {
    await join();
    await echo(a, "::");
    expect(await ask(b, "192.0.2.1", 10_000)).toBe("hello");
    expect(await ask(b, "2001:db8::1", 10_000)).toBe("hello");
    expect(await ask(b, "203.0.113.1")).toBe("ENETUNREACH");
  });

  test("a cut cable is silent, and works again when it is repaired", async () => {
    const cable = await join();
    await echo(a, "192.0.2.1");
    await cable.cut();
    expect(await ask(b, "192.0.2.1")).toBe("silence");
    await cable.repair();
    expect(await ask(b, "192.0.2.1", 10_000)).toBe("hello");
  });

  test("packets of one port are lost, others not, and none any more when the fault has ended", async () => {
    await join();
    await echo(a, "192.0.2.1");
    const other = await a.lose({ protocol: "tcp", port: 8 });
    const fault = await a.lose({ protocol: "tcp", port: 7 });
    expect(await ask(b, "192.0.2.1")).toBe("silence");
    await fault.end();
    expect(await ask(b, "192.0.2.1", 10_000)).toBe("hello");
    await other.end();
    expect((await a.run("nft", "list", "ruleset")).stdout).not.toContain("dport");
  });

  test("a share of the packets is lost", async () => {
    await join();
    const fault = await a.lose({ share: 0.5, direction: "in" });
    const lost = await b.attempt("bash", "-c", "for i in {1..400}; do echo x >/dev/udp/192.0.2.1/9; done");
    expect(lost.code).toBe(0);
    const arrived = async (): Promise<number> =>
      Number(/Udp: (\d+) (\d+)/.exec((await a.run("cat", "/proc/net/snmp")).stdout)?.[2] ?? 0);
    const count = await eventually("datagrams arrive", async () => (await arrived()) || undefined);
    expect(count).toBeGreaterThan(40);
    expect(count).toBeLessThan(360);
    await fault.end();
  });

  test("a rate is limited", async () => {
    const cable = await join();
    await cable.limit(1_000_000);
    expect((await a.run("tc", "qdisc", "show")).stdout).toContain("rate 8Mbit");
    await cable.limit(undefined);
    expect((await a.run("tc", "qdisc", "show")).stdout).not.toContain("rate");
  });

  test("the delay proxy passes everything on, later, with half close", async () => {
    await join();
    await echo(a, "192.0.2.1");
    await b.delayProxy({ host: "127.0.0.1", port: 7, targetHost: "192.0.2.1", targetPort: 7, delayMs: 50 });
    const program = `
      const begin = performance.now();
      const s = require("node:net").connect(7, "127.0.0.1", () => s.end("hello"));
      let got = "";
      s.on("data", (d) => { got += d }).on("end", () => console.log(got, performance.now() - begin >= 95));`;
    expect((await b.run(process.execPath, "-e", program)).stdout.trim()).toBe("hello true");
  });

  test("a name server is given to programs inside only", async () => {
    b.resolveWith("192.0.2.53");
    expect((await b.run("cat", "/etc/resolv.conf")).stdout).toContain("nameserver 192.0.2.53");
    expect((await a.run("cat", "/etc/resolv.conf")).stdout).not.toContain("192.0.2.53");
  });

  test("in the test's own namespace a port of loopback can be cut", async () => {
    const server = createServer((socket) => void socket.on("error", () => {}).pipe(socket)).listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as { port: number };
    const socket = connect(port, "127.0.0.1");
    await once(socket, "connect");
    const fault = await site.here().lose({ protocol: "tcp", port });
    socket.write("hello");
    const silence = await Promise.race([
      once(socket, "data").then(() => "data"),
      new Promise((resolve) => setTimeout(resolve, 300, "silence")),
    ]);
    expect(silence).toBe("silence");
    const data = once(socket, "data");
    await fault.end();
    expect(String((await data)[0])).toBe("hello");
    socket.destroy();
    server.close();
  });

  test("closing a site ends what runs in it, and leaves nothing", async () => {
    await echo(a, "127.0.0.1");
    // A daemon that its parent does not wait for.
    await a.run("bash", "-c", "setsid sleep 1000 </dev/null >/dev/null 2>&1 &");
    const before = (await site.here().run("ip", "netns", "pids", a.name!)).stdout.trim().split("\n");
    expect(before).toHaveLength(2);
    await site.close();
    await eventually("processes have ended", () => before.every((pid) => isGone(Number(pid))));
    expect((await site.here().run("ip", "netns")).stdout).not.toContain(a.name!);
    site = new Site();
  });
});

function isGone(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return false;
  } catch {
    return true;
  }
}
