import { once } from "node:events";
import { connect, createServer } from "node:net";
import { join } from "node:path";
import { freePort, freePorts } from "@sallyport/wire/testing/free-ports";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { exchange, exchangeThenEnd, openTcp, receive, startEcho, type TcpServer } from "../network/bytes.ts";
import { eventually } from "../network/eventually.ts";
import { type PeerNetwork, startPeerNetwork } from "../network/openziti/peer-network.ts";
import { accepts, Program } from "../network/program.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";
import { askUdp, openUdp, startTunneler, startUdpEcho } from "../network/tunneler.ts";
import { peer } from "./peer.ts";

const MIB = 1024 * 1024;

describe.skipIf(peer.isMissing)("our tunneler on OpenZiti's controller and routers", () => {
  let folder = "";
  let network: PeerNetwork;
  let echo: TcpServer;
  let udp: Awaited<ReturnType<typeof startUdpEcho>>;
  let running: Program[] = [];

  beforeAll(async () => {
    folder = makeScratch("our-tunnel");
    [echo, udp] = await Promise.all([startEcho(), startUdpEcho()]);
    network = await startPeerNetwork(peer.path, join(folder, "network"));
    const { cli } = network;
    for (const [side, router] of [
      ["host", "r2"],
      ["client", "r1"],
    ] as const) {
      const token = join(folder, `${side}.jwt`);
      await cli.edge("create", "identity", side, "-o", token, "-a", side);
      const enrolling = startTunneler(folder, "enroll", "enroll", "--jwt", token, "-o", join(folder, `${side}.json`));
      expect(await enrolling.exited).toBe(0);
      const policy = ["create", "edge-router-policy", side, "--identity-roles", `#${side}`];
      await cli.edge(...policy, "--edge-router-roles", `#${router}`);
    }
    const allServices = ["--service-roles", "#all"];
    await cli.edge("create", "service-edge-router-policy", "all", ...allServices, "--edge-router-roles", "#all");
    await cli.edge("create", "service-policy", "bind", "Bind", "--identity-roles", "#host", ...allServices);
    await cli.edge("create", "service-policy", "dial", "Dial", "--identity-roles", "#client", ...allServices);
    for (const [name, encryption, protocol, port] of [
      ["sealed", "ON", "tcp", echo.port],
      ["plain", "OFF", "tcp", echo.port],
      ["sealed-udp", "ON", "udp", udp.port],
      ["plain-udp", "OFF", "udp", udp.port],
    ] as const) {
      const target = JSON.stringify({ protocol, address: "127.0.0.1", port });
      await cli.edge("create", "config", name, "host.v1", target);
      await cli.edge("create", "service", name, "-e", encryption, "-c", name);
    }
  });

  afterEach(async () => {
    for (const program of running) await program.stop();
    running = [];
  });

  afterAll(async () => {
    await network?.stop();
    await echo?.close();
    udp?.close();
    removeScratch(folder);
  });

  const start = (whose: "our" | "OpenZiti's", ...args: string[]): Program => {
    const name = `${args[0]}-${whose}`.replaceAll(/[^a-z-]/g, "");
    const logFile = join(folder, `${name}.log`);
    const program =
      whose === "our"
        ? startTunneler(folder, name, ...args)
        : new Program({ name, command: peer.path, args: ["tunnel", ...args], env: { ZITI_HOME: folder }, logFile });
    running.push(program);
    return program;
  };

  it.each([
    ["our", "our"],
    ["our", "OpenZiti's"],
    ["OpenZiti's", "our"],
  ] as const)("%s proxy and %s host: streams and datagrams, encrypted and not", async (client, host) => {
    const names = ["sealed", "plain", "sealed-udp", "plain-udp"] as const;
    const ports = await freePorts(names.length);
    const port = (name: (typeof names)[number]): number => ports[names.indexOf(name)]!;
    start(host, "host", "-i", join(folder, "host.json"));
    const services = names.map((name) => `${name}:${port(name)}${name.endsWith("-udp") ? ":udp" : ""}`);
    const proxy = start(client, "proxy", "-i", join(folder, "client.json"), ...services);
    // OpenZiti's host closes right behind its last bytes, and its routers drop what was not acknowledged then.
    const transfer = host === "our" ? exchange : exchangeThenEnd;
    for (const name of ["sealed", "plain"] as const) {
      await proxy.ready(`an echo of ${name}`, async () => {
        await exchange(await openTcp(port(name)), 1, 100);
        return true;
      });
      await transfer(await openTcp(port(name)), 7, 8 * MIB);
      await Promise.all(
        Array.from({ length: 20 }, async (_, i) => await transfer(await openTcp(port(name)), i, 200_000)),
      );
      const socket = await openTcp(port(name));
      socket.end("half closed");
      expect((await receive(socket)).length).toBe("half closed".length);
    }
    for (const name of ["sealed-udp", "plain-udp"] as const) {
      const socket = await openUdp(port(name));
      for (const size of [1, 1_400, 9_000]) {
        const datagram = Buffer.alloc(size, size);
        expect((await askUdp(socket, datagram)).equals(datagram)).toBe(true);
      }
      socket.close();
    }
  });

  it("health checks change the terminators that OpenZiti's controller knows", async () => {
    const { cli } = network;
    // It is opened twice: no other program may get it in between.
    const port = await freePort();
    const target = createServer((socket) => void socket.on("error", () => {}).pipe(socket)).listen(port, "127.0.0.1");
    await once(target, "listening");
    const check = {
      address: `127.0.0.1:${port}`,
      interval: "200ms",
      timeout: "1s",
      actions: [
        { trigger: "fail", action: "mark unhealthy" },
        { trigger: "pass", action: "mark healthy" },
        { trigger: "change", action: "increase cost 7" },
        { trigger: "change", action: "send event" },
      ],
    };
    const terminator = { protocol: "tcp", address: "127.0.0.1", port, portChecks: [check] };
    const config = { terminators: [{ ...terminator, listenOptions: { cost: 5, precedence: "required" } }] };
    await cli.edge("create", "config", "checked", "host.v2", JSON.stringify(config));
    await cli.edge("create", "service", "checked", "-c", "checked");
    start("our", "host", "-i", join(folder, "host.json"));
    const offered = async (precedence: string, cost: number) =>
      await eventually(`a terminator ${precedence} at ${cost}`, async () => {
        const text = await cli.edge("list", "terminators", 'service.name = "checked"', "-j");
        const { data } = JSON.parse(text) as { data: { precedence: string; cost: number }[] };
        return data.length === 1 && data[0]!.precedence === precedence && data[0]!.cost === cost;
      });
    await offered("required", 5);
    await new Promise((resolve) => target.close(resolve));
    // The cost of a terminator that was just marked stays; it rises at the change back.
    await offered("failed", 5);
    target.listen(port, "127.0.0.1");
    await once(target, "listening");
    await offered("required", 12);
    await new Promise((resolve) => target.close(resolve));
  });

  it("is stopped by SIGTERM with its terminators gone from the controller", async () => {
    const { cli } = network;
    const host = start("our", "host", "-i", join(folder, "host.json"));
    const terminators = async (): Promise<number> => {
      const text = await cli.edge("list", "terminators", 'service.name = "plain"', "-j");
      return (JSON.parse(text) as { data: unknown[] }).data.length;
    };
    await eventually("a terminator", async () => (await terminators()) === 1);
    expect(await host.stop()).toBe(0);
    await eventually("none", async () => (await terminators()) === 0);
    const port = await freePort();
    const proxy = start("our", "proxy", "-i", join(folder, "client.json"), `plain:${port}`);
    await proxy.ready("its port", () => accepts(port));
    // It may be reset before it is told that it is connected.
    const [error] = await once(connect({ port, host: "127.0.0.1" }), "error");
    expect(error).toMatchObject({ code: "ECONNRESET" });
    await proxy.line(/has no terminators/);
  });
});
