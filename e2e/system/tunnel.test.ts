import { once } from "node:events";
import { createServer as createHttpServer } from "node:http";
import { join } from "node:path";
import { freePort, freePorts } from "@sallyport/wire/testing/free-ports";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { exchange, openTcp, receive, startEcho, startTcpServer, type TcpServer } from "../network/bytes.ts";
import { eventually } from "../network/eventually.ts";
import { loginOfRun, loginsOf } from "../network/login/logins.ts";
import { type Network, startNetwork } from "../network/network.ts";
import { accepts, type Program } from "../network/program.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";
import {
  allow,
  askUdp,
  type ConfiguredService,
  declareConfigured,
  declareIdentity,
  openUdp,
  startTunneler,
  startUdpEcho,
} from "../network/tunneler.ts";

const MIB = 1024 * 1024;

/** Says who it is, then echoes. */
async function startNamed(name: string): Promise<TcpServer> {
  return await startTcpServer((socket) => {
    socket.write(`${name}\n`);
    socket.pipe(socket);
  });
}

/** The server that answers a connection; undefined when none does. */
async function whoAnswers(port: number): Promise<string | undefined> {
  const socket = await openTcp(port);
  socket.on("error", () => {});
  const first = await Promise.race([once(socket, "data"), once(socket, "close").then(() => [undefined])]);
  socket.destroy();
  return first[0]?.toString().trim();
}

describe("our tunnelers on a network of two routers", { timeout: 90_000 }, () => {
  const folder = makeScratch("tunnel");
  let network: Network;
  let hosting: Program;
  let proxy: Program;
  let echo: TcpServer;
  let one: TcpServer;
  let two: TcpServer;
  let udp: Awaited<ReturnType<typeof startUdpEcho>>;
  let files: { host: string; client: string };
  const ports: Record<string, number> = {};
  const services: Record<string, ConfiguredService> = {};
  const health = createHttpServer((_request, response) => {
    response.statusCode = isHealthy ? 200 : 500;
    response.end(isHealthy ? "I am fine" : "I am not");
  });
  let isHealthy = true;

  beforeAll(async () => {
    network = await startNetwork(join(folder, "network"));
    [echo, one, two, udp] = await Promise.all([startEcho(), startNamed("one"), startNamed("two"), startUdpEcho()]);
    health.listen(0, "127.0.0.1");
    await once(health, "listening");
    const healthPort = (health.address() as { port: number }).port;
    const host = await declareIdentity(network, "host", "r2");
    const client = await declareIdentity(network, "client", "r1");
    files = { host: host.file, client: client.file };
    await allow(network, "Bind", "host", "tunnel");
    await allow(network, "Dial", "client", "tunnel");
    await network.management.createServiceEdgeRouterPolicy({
      body: { name: "all", semantic: "AnyOf", serviceRoles: ["#all"], edgeRouterRoles: ["#all"] },
    });
    const target = (port: number, protocol = "tcp") => ({ protocol, address: "127.0.0.1", port });
    const declare = async (name: string, configs: Record<string, object>, isEncrypted = true) => {
      services[name] = await declareConfigured(network, { name, roles: ["tunnel"], configs, isEncrypted });
    };
    await declare("sealed", { "host.v1": target(echo.port) });
    await declare("plain", { "host.v1": target(echo.port) }, false);
    await declare("old", { "ziti-tunneler-server.v1": { hostname: "localhost", port: echo.port, protocol: "tcp" } });
    await declare("udp", { "host.v1": target(udp.port, "udp") });
    await declare("moved", { "host.v1": target(one.port) });
    await declare("broken", { "host.v1": { protocol: "tcp", address: "127.0.0.1", port: 1 } });
    const check = {
      url: `http://127.0.0.1:${healthPort}/`,
      interval: "200ms",
      timeout: "2s",
      expectInBody: "fine",
      actions: [
        { trigger: "fail", consecutiveEvents: 2, action: "mark unhealthy" },
        { trigger: "pass", action: "mark healthy" },
      ],
    };
    await declare("double", {
      "host.v2": {
        terminators: [
          { ...target(one.port), listenOptions: { cost: 1, precedence: "required" }, httpChecks: [check] },
          { ...target(two.port), listenOptions: { cost: 10 } },
        ],
      },
    });
    const names = ["sealed", "plain", "old", "udp", "moved", "broken", "double", "late"];
    const free = await freePorts(names.length);
    names.forEach((name, i) => {
      ports[name] = free[i]!;
    });
    hosting = startTunneler(folder, "hosting", "host", "-i", files.host);
    const wanted = names.map((name) => `${name}:${ports[name]}${name === "udp" ? ":udp" : ""}`);
    proxy = startTunneler(folder, "proxy", "proxy", "-i", files.client, ...wanted);
    await proxy.ready("an open port", () => accepts(ports.sealed!));
    for (const name of ["sealed", "plain", "old"]) {
      await proxy.ready(`an echo of ${name}`, async () => {
        await exchange(await openTcp(ports[name]!), 1, 100);
        return true;
      });
    }
  }, 180_000);

  afterAll(async () => {
    await proxy?.stop();
    await hosting?.stop();
    await network?.stop();
    for (const server of [echo, one, two]) await server?.close();
    udp?.close();
    health.close();
    removeScratch(folder);
  });

  it("log in by the way of this run", async () => {
    const login = loginOfRun();
    const logins = async (name: string) => await loginsOf(network.management, name);
    expect([await logins("host"), await logins("client")]).toEqual([[login], [login]]);
  });

  it.each(["sealed", "plain"])("carry 64 MiB both ways at once, half closed (%s)", async (name) => {
    await exchange(await openTcp(ports[name]!), 3, 64 * MIB);
  });

  it.each(["sealed", "plain"])("carry 100 connections at once (%s)", async (name) => {
    await Promise.all(Array.from({ length: 100 }, async (_, i) => exchange(await openTcp(ports[name]!), i, 100_000)));
  });

  it("carry what the older config types say", async () => {
    await exchange(await openTcp(ports.old!), 4, MIB);
  });

  it("a client that ends first still gets everything; one that says nothing gets the end", async () => {
    const socket = await openTcp(ports.sealed!);
    socket.end("just this");
    expect((await receive(socket)).length).toBe("just this".length);
    const silent = await openTcp(ports.plain!);
    silent.end();
    expect((await receive(silent)).length).toBe(0);
  });

  it("a client that goes away ends the target's connection, too", async () => {
    const before = echo.open.size;
    const socket = await openTcp(ports.sealed!);
    socket.write("x");
    await once(socket, "data");
    expect(echo.open.size).toBe(before + 1);
    socket.resetAndDestroy();
    await eventually("the target sees the end", () => echo.open.size === before);
  });

  it("a client that does not read stops its sender, and no other one", async () => {
    const stuck = await openTcp(ports.sealed!);
    stuck.pause();
    const piece = Buffer.alloc(MIB);
    for (let sent = 0; sent < 64; sent++) stuck.write(piece);
    await exchange(await openTcp(ports.sealed!), 5, 4 * MIB);
    expect(stuck.writableLength).toBeGreaterThan(0);
    stuck.destroy();
  });

  it("datagrams stay what they are, small and large", async () => {
    const socket = await openUdp(ports.udp!);
    for (const size of [1, 100, 1_400, 9_000, 16_000]) {
      const datagram = Buffer.alloc(size, size);
      const answer = await askUdp(socket, datagram);
      expect(answer.equals(datagram)).toBe(true);
    }
    socket.close();
  });

  it("datagrams of two clients reach the target from two sockets, and each its own client", async () => {
    const [first, second] = [await openUdp(ports.udp!), await openUdp(ports.udp!)];
    const before = udp.clients.size;
    expect((await askUdp(first, Buffer.from("first"))).toString()).toBe("first");
    expect((await askUdp(second, Buffer.from("second"))).toString()).toBe("second");
    expect(udp.clients.size).toBe(before + 2);
    first.close();
    second.close();
  });

  it("a target that refuses connections ends the client's, at once", async () => {
    const socket = await openTcp(ports.broken!);
    expect((await once(socket, "error"))[0]).toMatchObject({ code: "ECONNRESET" });
    await hosting.line(/a dial was refused.*ECONNREFUSED|ECONNREFUSED.*a dial was refused/);
  });

  it("host.v2: the required terminator gets the circuits until its health check fails, and again when it passes", async () => {
    await eventually("the first target", async () => (await whoAnswers(ports.double!)) === "one");
    isHealthy = false;
    await eventually("the other target", async () => (await whoAnswers(ports.double!)) === "two");
    const { data } = await network.management.listServiceTerminators({ params: { id: services.double!.id } });
    expect(data.map(({ precedence }) => precedence).toSorted()).toEqual(["default", "failed"]);
    isHealthy = true;
    await eventually("the first target again", async () => (await whoAnswers(ports.double!)) === "one");
  });

  it("a changed config moves the service; open connections go on", async () => {
    await eventually("the first target", async () => (await whoAnswers(ports.moved!)) === "one");
    const open = await openTcp(ports.moved!);
    await once(open, "data");
    await network.management.patchConfig({
      params: { id: services.moved!.configs["host.v1"]! },
      body: { data: { protocol: "tcp", address: "127.0.0.1", port: two.port } },
    });
    await eventually("the other target", async () => (await whoAnswers(ports.moved!)) === "two");
    open.write("still there");
    expect(String((await once(open, "data"))[0])).toBe("still there");
    open.destroy();
  });

  it("a service that comes later opens its port; one that goes closes it", async () => {
    expect(await accepts(ports.late!)).toBe(false);
    const late = await declareConfigured(network, {
      name: "late",
      roles: ["tunnel"],
      configs: { "host.v1": { protocol: "tcp", address: "127.0.0.1", port: one.port } },
    });
    await eventually("an answer", async () => (await whoAnswers(ports.late!)) === "one");
    await network.management.deleteService({ params: { id: late.id } });
    await eventually("a closed port", async () => !(await accepts(ports.late!)));
    const again = await declareConfigured(network, {
      name: "late",
      roles: ["tunnel"],
      configs: { "host.v2": { terminators: [{ protocol: "tcp", address: "127.0.0.1", port: two.port }] } },
    });
    await eventually("an answer again", async () => (await whoAnswers(ports.late!)) === "two");
    await network.management.deleteService({ params: { id: again.id } });
  });

  it("SIGTERM closes the ports, lets an open connection end, and ends the program with 0", async () => {
    const port = await freePort();
    const program = startTunneler(folder, "stopping", "proxy", "-i", files.client, "--drain", "30s", `sealed:${port}`);
    await program.ready("its port", () => accepts(port));
    const socket = await openTcp(port);
    socket.write("before");
    await once(socket, "data");
    program.signal("SIGTERM");
    await eventually("a closed port", async () => !(await accepts(port)));
    expect(program.isRunning).toBe(true);
    socket.end("after");
    expect((await receive(socket)).length).toBe("after".length);
    expect(await program.exited).toBe(0);
  });

  it("a misspelt service is logged; SIGTERM waits for open connections only as long as configured", async () => {
    const port = await freePort();
    const wanted = [`sealed:${port}`, `seald:${await freePort()}`];
    const program = startTunneler(folder, "impatient", "proxy", "-i", files.client, "--drain", "0s", ...wanted);
    await program.ready("its port", () => accepts(port));
    await program.line(/"reason":"seald does not exist, or .*; perhaps sealed is meant"/);
    const socket = await openTcp(port);
    socket.on("error", () => {});
    socket.write("x");
    await once(socket, "data");
    // A cut must not look like the end of the data.
    const cut = expect(once(socket.resume(), "close")).rejects.toMatchObject({ code: "ECONNRESET" });
    program.signal("SIGTERM");
    expect(await program.exited).toBe(0);
    await cut;
  });
});
