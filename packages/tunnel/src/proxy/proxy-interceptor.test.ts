import { createSocket, Socket as UdpSocket } from "node:dgram";
import { once } from "node:events";
import { connect, createServer, Server, type Socket } from "node:net";
import { freePort } from "@sallyport/wire/testing/free-ports";
import { afterEach, describe, expect, it, vi } from "vitest";
import type { InterceptedClients, InterceptTarget, TcpClient, UdpFlow } from "../interceptor.ts";
import { ProxyInterceptor, parseProxyService } from "./proxy-interceptor.ts";

const stops: (() => void | Promise<void>)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0).reverse()) await stop();
});

const target = (name: string): InterceptTarget => ({
  id: name,
  name,
  protocols: ["tcp", "udp"],
  addresses: [],
  portRanges: [],
  allowedSourceAddresses: [],
});

/** Clients as they come. */
function collector() {
  const tcp: TcpClient[] = [];
  const udp: UdpFlow[] = [];
  const clients: InterceptedClients = { tcp: (client) => tcp.push(client), udp: (flow) => udp.push(flow) };
  stops.push(() => {
    for (const { socket } of tcp) socket.destroy();
  });
  return { tcp, udp, clients };
}

function proxy(services: string[], more: { udpIdleTimeoutMs?: number } = {}): ProxyInterceptor {
  const interceptor = new ProxyInterceptor({
    services: services.map(parseProxyService),
    bindAddress: "127.0.0.1",
    ...more,
  });
  stops.push(() => interceptor.close());
  return interceptor;
}

async function open(port: number): Promise<Socket> {
  const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
  stops.push(() => void socket.destroy());
  socket.on("error", () => {});
  await once(socket, "connect");
  return socket;
}

function udpClient(): UdpSocket {
  const socket = createSocket("udp4");
  stops.push(() => void socket.close());
  return socket;
}

describe("services of a proxy", () => {
  it.each([
    ["web:8080", { name: "web", port: 8080, protocol: "tcp" }],
    ["a name:1:TCP", { name: "a name", port: 1, protocol: "tcp" }],
    ["dns:53:udp", { name: "dns", port: 53, protocol: "udp" }],
  ])("%s", (text, service) => {
    expect(parseProxyService(text)).toEqual(service);
  });

  it.each([
    ["web", "invalid argument 'web'"],
    [":80", "invalid argument ':80'"],
    ["a:1:tcp:x", "invalid argument 'a:1:tcp:x'"],
    ["web:0", "invalid port specified in 'web:0'"],
    ["web:65536", "invalid port specified in 'web:65536'"],
    ["web:http", "invalid port specified in 'web:http'"],
    ["web:80:sctp", "invalid protocol specified in 'web:80:sctp', must be tcp or udp"],
  ])("%s is none", (text, message) => {
    expect(() => parseProxyService(text)).toThrow(message);
  });
});

describe("ports of a proxy", () => {
  it("give clients with both ends' addresses, unread; close with the service, and what is open goes on", async () => {
    const port = await freePort();
    const { tcp, clients } = collector();
    const interception = await proxy([`web:${port}`]).intercept(target("web"), clients);
    const socket = await open(port);
    socket.write("hello");
    await expect.poll(() => tcp.length).toBe(1);
    const [client] = tcp;
    expect(client!.addresses).toEqual({
      protocol: "tcp",
      sourceIp: "127.0.0.1",
      sourcePort: socket.localPort,
      destinationIp: "127.0.0.1",
      destinationPort: port,
    });
    expect(client!.socket.isPaused()).toBe(true);
    await interception.close();
    await expect(open(port)).rejects.toThrow("ECONNREFUSED");
    client!.socket.resume();
    expect(String((await once(client!.socket, "data"))[0])).toBe("hello");
    client!.socket.write("and back");
    expect(String((await once(socket, "data"))[0])).toBe("and back");
  });

  it("can be opened again by a service that comes again, and are several for one service", async () => {
    const [first, second] = [await freePort(), await freePort()];
    const { tcp, clients } = collector();
    const interceptor = proxy([`web:${first}`, `web:${second}`, `web:${first}`]);
    for (let round = 1; round <= 3; round++) {
      const interception = await interceptor.intercept(target("web"), clients);
      await open(first);
      await open(second);
      await expect.poll(() => tcp.length).toBe(round * 2);
      await interception.close();
    }
  });

  it("stay open after a failed accept", async () => {
    const port = await freePort();
    const { tcp, clients } = collector();
    const listens = vi.spyOn(Server.prototype, "listen");
    await proxy([`web:${port}`]).intercept(target("web"), clients);
    const [server] = listens.mock.contexts as Server[];
    listens.mockRestore();
    server?.emit("error", new Error("accept EMFILE"));
    await open(port);
    await expect.poll(() => tcp.length).toBe(1);
  });

  it("of services that were not asked for there are none", async () => {
    const { clients } = collector();
    const interception = await proxy([`web:${await freePort()}`]).intercept(target("other"), clients);
    await interception.close();
  });

  it("that are taken are named with what to do, and leave nothing open", async () => {
    const [free, taken] = [await freePort(), await freePort()];
    const other = createServer().listen(taken, "127.0.0.1");
    await once(other, "listening");
    stops.push(() => void other.close());
    const { clients } = collector();
    const attempt = proxy([`web:${free}`, `web:${taken}`]).intercept(target("web"), clients);
    await expect(attempt).rejects.toMatchObject({
      code: "PORT_UNAVAILABLE",
      message: expect.stringContaining(
        `cannot listen on tcp 127.0.0.1:${taken} for the service web: another program listens there`,
      ),
    });
    await expect(open(free)).rejects.toThrow("ECONNREFUSED");
  });
});

describe("UDP ports of a proxy", () => {
  it("tell clients apart; their destination is the port, not themselves", async () => {
    const port = await freePort();
    const { udp, clients } = collector();
    const bound = vi.spyOn(UdpSocket.prototype, "bind");
    await proxy([`dns:${port}:udp`]).intercept(target("dns"), clients);
    const [first, second] = [udpClient(), udpClient()];
    first.send("1", port, "127.0.0.1");
    await expect.poll(() => udp.length).toBe(1);
    // Only forged packets come from port 0; nothing could be answered there.
    const open = bound.mock.contexts[0] as UdpSocket;
    bound.mockRestore();
    open.emit("message", Buffer.from("x"), { address: "127.0.0.1", family: "IPv4", port: 0, size: 1 });
    expect(udp.length).toBe(1);
    second.send("2", port, "127.0.0.1");
    await expect.poll(() => udp.length).toBe(2);
    expect(udp[0]!.addresses).toEqual({
      protocol: "udp",
      sourceIp: "127.0.0.1",
      sourcePort: first.address().port,
      destinationIp: "127.0.0.1",
      destinationPort: port,
    });
    // What came before there was a listener is not lost.
    const seen: string[] = [];
    udp[0]!.onMessage((datagram) => seen.push(String(datagram)));
    expect(seen).toEqual(["1"]);
    first.send("1 again", port, "127.0.0.1");
    await expect.poll(() => seen).toEqual(["1", "1 again"]);
    const answer = once(second, "message");
    udp[1]!.send(Buffer.from("xanswerx"), 1, 7);
    expect(String((await answer)[0])).toBe("answer");
    expect(udp.length).toBe(2);
  });

  it("forget an idle client without harm to the others", async () => {
    const port = await freePort();
    const { udp, clients } = collector();
    await proxy([`dns:${port}:udp`], { udpIdleTimeoutMs: 2_000 }).intercept(target("dns"), clients);
    const [idle, busy] = [udpClient(), udpClient()];
    idle.send("i", port, "127.0.0.1");
    await expect.poll(() => udp.length).toBe(1);
    const closed = new Promise<void>((resolve) => udp[0]!.onClose(resolve));
    const alive = setInterval(() => udp[1]?.send(Buffer.from("."), 0, 1), 20);
    stops.push(() => clearInterval(alive));
    busy.send("b", port, "127.0.0.1");
    await expect.poll(() => udp.length).toBe(2);
    await closed;
    const answer = once(busy, "message");
    await answer;
    // The idle client comes again as a new one.
    idle.send("i", port, "127.0.0.1");
    await expect.poll(() => udp.length).toBe(3);
  });

  it("stay for the clients that are left when the service has gone, and for new ones when it comes again", async () => {
    const port = await freePort();
    const { udp, clients } = collector();
    const interceptor = proxy([`dns:${port}:udp`]);
    const interception = await interceptor.intercept(target("dns"), clients);
    const [client, other] = [udpClient(), udpClient()];
    client.send("1", port, "127.0.0.1");
    await expect.poll(() => udp.length).toBe(1);
    await interception.close();
    other.send("nobody", port, "127.0.0.1");
    const answer = once(client, "message");
    udp[0]!.send(Buffer.from("still"), 0, 5);
    expect(String((await answer)[0])).toBe("still");
    expect(udp.length).toBe(1);
    const again = await interceptor.intercept(target("dns"), clients);
    other.send("2", port, "127.0.0.1");
    await expect.poll(() => udp.length).toBe(2);
    await again.close();
    for (const flow of udp) flow.close();
    // With the last one the port is free again.
    const socket = udpClient();
    socket.bind({ port, address: "127.0.0.1", exclusive: true });
    await once(socket, "listening");
  });
});
