import type { Socket as UdpSocket } from "node:dgram";
import { once } from "node:events";
import type { Socket } from "node:net";
import { join } from "node:path";
import { freePorts } from "@sallyport/wire/testing/free-ports";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { exchange, exchangeThenEnd, openTcp, startEcho, startTcpServer, type TcpServer } from "../network/bytes.ts";
import { eventually } from "../network/eventually.ts";
import { type Network, startNetwork } from "../network/network.ts";
import { accepts } from "../network/program.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";
import {
  allow,
  askUdp,
  type ConfiguredService,
  declareConfigured,
  openUdp,
  startUdpEcho,
} from "../network/tunneler.ts";

const MIB = 1024 * 1024;

/** The first line of a connection. */
async function firstLine(socket: Socket): Promise<string> {
  let text = "";
  while (!text.includes("\n")) {
    const bytes: unknown = socket.read();
    if (Buffer.isBuffer(bytes)) {
      const end = bytes.indexOf(0x0a);
      text += bytes.toString("utf8", 0, end < 0 ? undefined : end + 1);
      if (end >= 0 && end + 1 < bytes.length) socket.unshift(bytes.subarray(end + 1));
    } else
      await Promise.race([
        once(socket, "readable"),
        once(socket, "close").then(() => Promise.reject(new Error("closed"))),
      ]);
  }
  return text.trim();
}

describe("routers that tunnel by themselves, and listen for plain clients", { timeout: 120_000 }, () => {
  const folder = makeScratch("router-tunnel");
  let network: Network;
  let echo: TcpServer;
  let named: TcpServer[];
  let udp: Awaited<ReturnType<typeof startUdpEcho>>;
  const routerIds: Record<string, string> = {};
  const services: Record<string, ConfiguredService> = {};
  const port: Record<string, number> = {};
  let dialPolicy = "";

  /** Switches the tunneler of a router on or off; its identity has the router's id, and gets its name as role attribute. */
  const tunneling = async (name: string, isTunnelerEnabled: boolean): Promise<void> => {
    const params = { id: routerIds[name] ?? "" };
    await network.management.patchEdgeRouter({ params, body: { isTunnelerEnabled } });
    if (isTunnelerEnabled) await network.management.patchIdentity({ params, body: { roleAttributes: [name] } });
  };
  const terminators = async (serviceId: string) => {
    const { data } = await network.management.listServiceTerminators({ params: { id: serviceId } });
    return data;
  };
  const echoes = async (to: number): Promise<true> => {
    await exchangeThenEnd(await openTcp(to), 7, 1000);
    return true;
  };

  beforeAll(async () => {
    const names = ["echo", "plain", "duo", "udp", "transport", "proxy", "transportUdp", "proxyUdp", "gone"];
    const found = await freePorts(names.length);
    for (const [index, name] of names.entries()) port[name] = found[index] ?? 0;
    [echo, udp] = await Promise.all([startEcho(), startUdpEcho()]);
    named = await Promise.all(["one", "two"].map((name) => startTcpServer((socket) => void socket.end(`${name}\n`))));
    network = await startNetwork(join(folder, "network"), {
      routerSettings: (name, text) =>
        text
          .replace(
            "\nlisteners:\n",
            name === "r2"
              ? "\nlisteners:\n  - binding: tunnel\n    options: { mode: host }\n"
              : `
listeners:
  - binding: tunnel
    options:
      mode: proxy
      services: ["echo:${port.echo}", "plain:${port.plain}", "duo:${port.duo}", "udp:${port.udp}:udp"]
  - { binding: transport, address: "tcp:127.0.0.1:${port.transport}" }
  - { binding: proxy, address: "tcp:127.0.0.1:${port.proxy}", service: direct }
  - { binding: transport_udp, address: "udp:127.0.0.1:${port.transportUdp}" }
  - { binding: proxy_udp, address: "udp:127.0.0.1:${port.proxyUdp}", service: direct-udp }
`,
          )
          .replace(
            "\ndialers:\n  - binding: transport\n",
            "\ndialers:\n  - binding: transport\n  - binding: transport_udp\n  - binding: edge_transport\n",
          ),
    });
    const { management } = network;
    const { data } = await management.listEdgeRouters({});
    for (const router of data) routerIds[router.name] = router.id;
    const host = (target: TcpServer, more: object = {}) => ({
      protocol: "tcp",
      address: "127.0.0.1",
      port: target.port,
      ...more,
    });
    const declare = async (name: string, isEncrypted: boolean, configs: Record<string, object>) => {
      services[name] = await declareConfigured(network, { name, roles: ["tunnel"], isEncrypted, configs });
    };
    await declare("echo", true, { "host.v1": host(echo) });
    await declare("plain", false, { "host.v1": host(echo) });
    await declare("duo", true, {
      "host.v2": { terminators: named.map((target) => host(target, { listenOptions: { cost: 10 } })) },
    });
    await declare("udp", true, { "host.v1": { protocol: "udp", address: "127.0.0.1", port: udp.port } });
    for (const [name, isEncrypted, binding, address] of [
      ["direct", false, "transport", `tcp:127.0.0.1:${echo.port}`],
      ["direct-udp", false, "transport_udp", `udp:127.0.0.1:${udp.port}`],
      ["sealed", true, "edge_transport", `tcp:127.0.0.1:${echo.port}`],
    ] as const) {
      await declare(name, isEncrypted, {});
      await management.createTerminator({
        body: { service: services[name]?.id ?? "", router: routerIds.r2 ?? "", binding, address },
      });
    }
    await management.createServiceEdgeRouterPolicy({
      body: { name: "all", semantic: "AnyOf", serviceRoles: ["#all"], edgeRouterRoles: ["#all"] },
    });
    await allow(network, "Bind", "r2", "tunnel");
    dialPolicy = await allow(network, "Dial", "r1", "tunnel");
  }, 240_000);

  afterAll(async () => {
    await network?.stop();
    for (const server of [echo, ...(named ?? [])]) await server?.close();
    udp?.close();
    removeScratch(folder);
  });

  it("do nothing until the controller lets them tunnel", async () => {
    expect(await accepts(port.echo ?? 0)).toBe(false);
    expect(await terminators(services.echo?.id ?? "")).toEqual([]);
    await tunneling("r2", true);
    await eventually("a terminator", async () => (await terminators(services.echo?.id ?? "")).length === 1);
    const [terminator] = await terminators(services.echo?.id ?? "");
    expect(terminator).toMatchObject({ binding: "tunnel", routerId: routerIds.r2, cost: 0, precedence: "default" });
    expect(terminator?.id).toBe(terminator?.address);
    await tunneling("r1", true);
    await eventually("an open port", async () => await accepts(port.echo ?? 0));
  });

  it("carry streams between two tunnelers, encrypted end to end and not, with half close", async () => {
    for (const name of ["echo", "plain"]) {
      await eventually("an echo", async () => await echoes(port[name] ?? 0));
      await exchange(await openTcp(port[name] ?? 0), 1, 16 * MIB);
    }
  });

  it("spread circuits over the terminators of one service", async () => {
    const seen = new Set<string>();
    await eventually("both answer", async () => {
      seen.add(await firstLine(await openTcp(port.duo ?? 0)));
      return seen.size === 2;
    });
    expect([...seen].sort()).toEqual(["one", "two"]);
    expect((await terminators(services.duo?.id ?? "")).map(({ cost }) => cost)).toEqual([10, 10]);
  });

  it("carry datagrams one by one, up to the largest", async () => {
    const socket = await openUdp(port.udp ?? 0);
    expect((await askUdp(socket, Buffer.from("ping"))).toString()).toBe("ping");
    const large = Buffer.alloc(60_000, 7);
    expect((await askUdp(socket, large)).equals(large)).toBe(true);
    socket.close();
  });

  it("close the port when the dial policy goes, end circuits, and open it when it is back", async () => {
    const socket = await openTcp(port.echo ?? 0);
    socket.write("?");
    await once(socket, "data");
    // A cut stream must not look like a whole one: the connection is reset.
    const closed = new Promise<string>((resolve) => {
      socket.once("error", (error) => resolve(error.message));
      socket.once("close", () => resolve("closed"));
    });
    await network.management.deleteServicePolicy({ params: { id: dialPolicy } });
    expect(await closed).toContain("ECONNRESET");
    await eventually("a closed port", async () => !(await accepts(port.echo ?? 0)));
    dialPolicy = await allow(network, "Dial", "r1", "tunnel");
    await eventually("an echo", async () => (await accepts(port.echo ?? 0)) && (await echoes(port.echo ?? 0)));
  });

  it("host under the same ids after a restart, so that circuits are made at once", async () => {
    const before = (await terminators(services.duo?.id ?? "")).map(({ id }) => id).sort();
    await network.restartRouter("r2", "SIGKILL");
    await eventually("an echo", async () => await echoes(port.echo ?? 0));
    expect((await terminators(services.duo?.id ?? "")).map(({ id }) => id).sort()).toEqual(before);
  });

  it("go on when the controller was away", async () => {
    const socket = await openTcp(port.echo ?? 0);
    // A port is open before there is a circuit, and none is made without a controller.
    socket.write("?");
    await once(socket, "data");
    await network.restartController("SIGKILL");
    await exchange(socket, 3, MIB);
    await eventually("an echo", async () => await echoes(port.echo ?? 0));
  });

  it("take their services back when tunneling is switched off", async () => {
    await tunneling("r2", false);
    await eventually("no terminator", async () => (await terminators(services.echo?.id ?? "")).length === 0);
    await tunneling("r2", true);
    await eventually("an echo", async () => await echoes(port.echo ?? 0));
  });

  it("give plain clients a circuit for a line of JSON, or say why not", async () => {
    const ask = async (
      svcId: string,
    ): Promise<{ socket: Socket; answer: { scc: boolean; msg: string; circuitId?: string } }> => {
      const socket = await openTcp(port.transport ?? 0);
      socket.write(`${JSON.stringify({ id: "test", svcId })}\n`);
      return { socket, answer: JSON.parse(await firstLine(socket)) };
    };
    for (const name of ["direct", services.direct?.id ?? ""]) {
      const { socket, answer } = await ask(name);
      expect(answer).toMatchObject({ scc: true, msg: "" });
      expect(answer.circuitId).toMatch(/^\S{20,22}$/);
      await exchangeThenEnd(socket, 4, MIB);
    }
    const refused = await ask("no-such-service");
    expect(refused.answer.scc).toBe(false);
    expect(refused.answer.msg).toMatch(/service/);
    await once(refused.socket, "end");
    const nonsense = await openTcp(port.transport ?? 0);
    nonsense.write("hello\n");
    expect(JSON.parse(await firstLine(nonsense))).toMatchObject({ scc: false });
    // The service is encrypted from end to end, and such a client has no key.
    const unencrypted = await ask("sealed");
    expect(unencrypted.answer).toMatchObject({ scc: false });
  });

  it("lead every connection of a proxy listener to its service", async () => {
    await exchangeThenEnd(await openTcp(port.proxy ?? 0), 5, 4 * MIB);
  });

  it("give datagram clients sessions of their own, by request and by listener", async () => {
    const ask = async (socket: UdpSocket, svcId: string): Promise<object> => {
      const request = Buffer.from(JSON.stringify({ id: "test", svcId }));
      const answer = await askUdp(socket, request, undefined, (message) => message.includes('"scc"'));
      return JSON.parse(answer.toString());
    };
    const asked = await openUdp(port.transportUdp ?? 0);
    expect(await ask(asked, "direct-udp")).toMatchObject({ scc: true });
    expect((await askUdp(asked, Buffer.from("one"))).toString()).toBe("one");
    const [a, b] = await Promise.all([openUdp(port.proxyUdp ?? 0), openUdp(port.proxyUdp ?? 0)]);
    const answers = await Promise.all([askUdp(a, Buffer.from("from a")), askUdp(b, Buffer.from("from b"))]);
    expect(answers.map(String)).toEqual(["from a", "from b"]);
    const refused = await openUdp(port.transportUdp ?? 0);
    expect(await ask(refused, "nothing")).toMatchObject({ scc: false });
    for (const socket of [asked, a, b, refused]) socket.close();
  });
});
