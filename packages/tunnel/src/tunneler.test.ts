import { createSocket } from "node:dgram";
import { once } from "node:events";
import { connect, createServer, type Server, type Socket } from "node:net";
import type { Logger } from "@sallyport/wire";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { LocalRoutes } from "./host/source-addresses.ts";
import type { InterceptedClients, Interceptor, InterceptTarget } from "./interceptor.ts";
import { ProxyInterceptor } from "./proxy/proxy-interceptor.ts";
import { MemoryOverlay } from "./testing/memory-overlay.ts";
import { Tunneler, type TunnelerOptions } from "./tunneler.ts";

const stops: (() => unknown)[] = [];
const logged: { msg: string; fields: object }[] = [];
const note = (fields: object, msg: string) => void logged.push({ msg, fields });
const log: Logger = { debug: note, info: note, warn: note, error: note };
let overlay: MemoryOverlay;

beforeEach(() => {
  overlay = new MemoryOverlay();
  logged.length = 0;
});
afterEach(async () => {
  for (const stop of stops.splice(0).reverse()) await stop();
});

function tunneler(more: Partial<TunnelerOptions> = {}): Tunneler {
  const started = new Tunneler({ overlay, log, ...more });
  stops.push(() => started.close());
  started.start();
  return started;
}

async function listen(onSocket: (socket: Socket) => void): Promise<Server & { port: number }> {
  const sockets = new Set<Socket>();
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
    onSocket(socket);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  stops.push(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return Object.assign(server, { port: (server.address() as { port: number }).port });
}

const echo = () => listen((socket) => void socket.pipe(socket));

async function open(port: number): Promise<Socket> {
  const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
  stops.push(() => socket.destroy());
  socket.on("error", () => {});
  await once(socket, "connect");
  return socket;
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}

function proxyOf(name: string, port: number, protocol: "tcp" | "udp" = "tcp"): ProxyInterceptor {
  const interceptor = new ProxyInterceptor({ services: [{ name, port, protocol }], bindAddress: "127.0.0.1", log });
  stops.push(() => interceptor.close());
  return interceptor;
}

const configs = (all: Record<string, unknown>) => new Map(Object.entries(all));
const hostAt = (port: number, more: object = {}) => ({ protocol: "tcp", address: "127.0.0.1", port, ...more });
const says = (msg: string) => expect.poll(() => logged.filter((entry) => entry.msg === msg)).not.toEqual([]);

/** Keeps what it was asked to intercept, and its clients. */
class RecordingInterceptor implements Interceptor {
  readonly targets: InterceptTarget[] = [];
  readonly clients: InterceptedClients[] = [];
  closed: string[] = [];
  failure: Error | undefined;

  async intercept(target: InterceptTarget, clients: InterceptedClients) {
    if (this.failure !== undefined) throw this.failure;
    this.targets.push(target);
    this.clients.push(clients);
    return { close: async () => void this.closed.push(target.name) };
  }

  async close(): Promise<void> {}
}

/** A client's connection, both of its ends. */
async function tcpClient(): Promise<{ near: Socket; far: Socket }> {
  const accepted: Socket[] = [];
  const server = createServer({ allowHalfOpen: true, pauseOnConnect: true }, (socket) => void accepted.push(socket));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  stops.push(() => server.close());
  const near = await open((server.address() as { port: number }).port);
  await expect.poll(() => accepted.length).toBe(1);
  stops.push(() => accepted[0]!.destroy());
  return { near, far: accepted[0]! };
}

const client = {
  protocol: "tcp" as const,
  sourceIp: "192.0.2.2",
  sourcePort: 5_000,
  destinationIp: "100.64.0.2",
  destinationPort: 80,
  destinationHostname: "web.ziti",
};
const interceptV1 = { protocols: ["tcp"], addresses: ["web.ziti"], portRanges: [{ low: 80, high: 80 }] };

describe("a client's connection", () => {
  it("reaches the target and comes back, each direction ended on its own", async () => {
    const { port } = await echo();
    const proxyPort = await freePort();
    const running = tunneler({ interceptor: proxyOf("web", proxyPort) });
    overlay.change({ web: { canDial: true, canBind: true, configs: configs({ "host.v1": hostAt(port) }) } });
    await says("a port is open");
    const socket = await open(proxyPort);
    const { localPort } = socket;
    const sent = Buffer.alloc(3_000_000, "0123456789abc");
    const received: Buffer[] = [];
    socket.on("data", (bytes: Buffer) => void received.push(bytes));
    socket.end(sent);
    await once(socket, "end");
    expect(Buffer.concat(received).equals(sent)).toBe(true);
    expect(overlay.dials).toMatchObject([
      {
        kind: "stream",
        timeoutMs: 5_000,
        appData: { dst_protocol: "tcp", dst_ip: "127.0.0.1", dst_port: String(proxyPort) },
        localAddress: `127.0.0.1:${proxyPort}`,
        remoteAddress: `127.0.0.1:${localPort}`,
      },
    ]);
    await expect.poll(() => running.circuits).toBe(0);
  });

  it("slows down a target that sends more than is read", async () => {
    const piece = Buffer.alloc(1_000_000);
    let written = 0;
    const target = await listen((socket) => {
      const more = () => {
        while (written < 200 && socket.write(piece)) written++;
      };
      socket.on("drain", more);
      more();
    });
    const proxyPort = await freePort();
    tunneler({ interceptor: proxyOf("web", proxyPort) });
    overlay.change({ web: { canDial: true, canBind: true, configs: configs({ "host.v1": hostAt(target.port) }) } });
    await says("a port is open");
    const socket = await open(proxyPort);
    socket.pause();
    let before = -1;
    await expect
      .poll(() => {
        const isStill = written > 0 && written === before;
        before = written;
        return isStill;
      })
      .toBe(true);
    expect(written).toBeLessThan(100);
    let length = 0;
    socket.on("data", (bytes) => {
      length += bytes.length;
    });
    socket.resume();
    await expect.poll(() => length, { timeout: 20_000 }).toBeGreaterThanOrEqual(200_000_000);
  });

  it("that gets no circuit is reset", async () => {
    const interceptor = new RecordingInterceptor();
    tunneler({ interceptor });
    overlay.change({ web: { canDial: true, configs: configs({ "intercept.v1": interceptV1 }) } });
    await expect.poll(() => interceptor.clients.length).toBe(1);
    const { near, far } = await tcpClient();
    const failed = once(near, "error");
    interceptor.clients[0]!.tcp({ addresses: client, socket: far });
    expect((await failed)[0]).toMatchObject({ code: "ECONNRESET" });
    expect(logged).toContainEqual({
      msg: "a client got no circuit",
      fields: { service: "web", client: "192.0.2.2:5000", reason: "service web has no terminators" },
    });
  });

  it("is dialled as the config says: instance, source address, timeout", async () => {
    const interceptor = new RecordingInterceptor();
    overlay.identity = { id: "me", name: "laptop", appData: { site: "b" } };
    tunneler({ interceptor });
    const config = {
      ...interceptV1,
      sourceIp: "$src_ip:$src_port",
      dialOptions: { identity: "$tunneler_id.appData[site]-$dst_hostname", connectTimeoutSeconds: 9 },
      allowedSourceAddresses: ["192.0.2.0/24"],
    };
    overlay.change({ web: { canDial: true, configs: configs({ "intercept.v1": config }) } });
    await expect.poll(() => interceptor.targets.length).toBe(1);
    expect(interceptor.targets[0]).toEqual({
      id: "web",
      name: "web",
      ...interceptV1,
      allowedSourceAddresses: ["192.0.2.0/24"],
    });
    const { far } = await tcpClient();
    interceptor.clients[0]!.tcp({ addresses: client, socket: far });
    await expect.poll(() => overlay.dials.length).toBe(1);
    expect(overlay.dials[0]).toMatchObject({
      instanceId: "b-web.ziti",
      timeoutMs: 9_000,
      appData: { dst_hostname: "web.ziti", dst_ip: "100.64.0.2", source_addr: "192.0.2.2:5000" },
    });
  });

  it("is dialled without a template that is none", async () => {
    const interceptor = new RecordingInterceptor();
    tunneler({ interceptor });
    const config = { ...interceptV1, sourceIp: "$tunneler_id.appData[x" };
    overlay.change({ web: { canDial: true, configs: configs({ "intercept.v1": config }) } });
    await expect.poll(() => interceptor.clients.length).toBe(1);
    const { far } = await tcpClient();
    interceptor.clients[0]!.tcp({ addresses: client, socket: far });
    await says("a template cannot be used");
    expect(overlay.dials[0]?.appData).not.toHaveProperty("source_addr");
  });
});

describe("a hosted service", () => {
  it("forwards what the dialer asked for, and says why not", async () => {
    const { port } = await echo();
    const interceptor = new RecordingInterceptor();
    tunneler({ interceptor });
    const forwarding = {
      forwardProtocol: true,
      allowedProtocols: ["tcp"],
      forwardAddress: true,
      allowedAddresses: ["100.64.0.0/10"],
      forwardAddressTranslations: [{ from: "100.64.0.0", to: "127.0.0.0", prefixLength: 30 }],
      forwardPort: true,
      allowedPortRanges: [{ low: port, high: port }],
    };
    overlay.change({
      web: {
        canDial: true,
        canBind: true,
        configs: configs({ "intercept.v1": interceptV1, "host.v1": forwarding }),
      },
    });
    await expect.poll(() => [interceptor.clients.length, overlay.hosted.length]).toEqual([1, 1]);
    const { destinationHostname: _, ...unnamed } = client;
    const { near, far } = await tcpClient();
    const addresses = { ...unnamed, destinationIp: "100.64.0.1", destinationPort: port };
    interceptor.clients[0]!.tcp({ addresses, socket: far });
    near.write("hello");
    expect(String((await once(near, "data"))[0])).toBe("hello");

    const second = await tcpClient();
    interceptor.clients[0]!.tcp({ addresses: unnamed, socket: second.far });
    await says("a client got no circuit");
    expect(logged.at(-1)?.fields).toMatchObject({ reason: "port 80 is not in allowed port ranges" });
  });

  it("carries datagrams message by message", async () => {
    const target = createSocket("udp4");
    target.on("message", (datagram, from) => target.send(datagram, from.port, from.address));
    target.bind(0, "127.0.0.1");
    await once(target, "listening");
    stops.push(() => target.close());
    const proxyPort = await freePort();
    const config = hostAt(target.address().port, { protocol: "udp" });
    const running = tunneler({ interceptor: proxyOf("dns", proxyPort, "udp") });
    overlay.change({ dns: { canDial: true, canBind: true, configs: configs({ "host.v1": config }) } });
    await says("a port is open");
    const socket = createSocket("udp4");
    stops.push(() => socket.close());
    for (const size of [1, 1_400, 16_000, 60_000]) {
      const answer = once(socket, "message");
      socket.send(Buffer.alloc(size, size), proxyPort, "127.0.0.1");
      expect(Buffer.alloc(size, size).equals((await answer)[0])).toBe(true);
    }
    expect(running.circuits).toBe(2);
  });

  it("answers questions for names on a connection of that kind", async () => {
    tunneler();
    const config = { ...hostAt(1), forwardAddress: true, allowedAddresses: ["*.example.com"] };
    overlay.change({ web: { canBind: true, configs: configs({ "host.v1": config }) } });
    await expect.poll(() => overlay.hosted.length).toBe(1);
    const connection = await overlay.dial(overlay.hosted[0]!.service, {
      kind: "datagrams",
      appData: { connType: "resolver" },
      timeoutMs: 1_000,
    });
    const answers: string[] = [];
    connection.start({
      data: (buffer, start, end) => answers.push(buffer.toString("utf8", start, end)) > 0,
      endOfData: () => {},
      writable: () => {},
      closed: () => {},
    });
    const ask = (question: object) => {
      const bytes = Buffer.from(JSON.stringify({ id: 3, question: [question] }));
      connection.write(bytes, 0, bytes.length);
    };
    ask({ name: "other.com", type: 15 });
    ask({ name: "x.example.com", type: 1 });
    await expect.poll(() => answers.length).toBe(2);
    expect(answers.map((text) => JSON.parse(text))).toMatchObject([
      { id: 3, status: 3, question: [{ name: "other.com", type: 15 }] },
      { id: 3, status: 4 },
    ]);
    connection.close();
  });

  it("is offered by what the identity, the config and the identity's values for the service say", async () => {
    overlay.identity = { id: "me", name: "laptop", appData: { site: "b" } };
    tunneler();
    const terminators = [
      hostAt(1),
      hostAt(2, { listenOptions: { cost: 20, precedence: "failed", identity: "$tunneler_id.appData[site]" } }),
      hostAt(3, { listenOptions: { bindUsingEdgeIdentity: true, identity: "x" } }),
    ];
    const web = { canBind: true, defaultCost: 5, defaultPrecedence: "required" as const };
    overlay.change({ web: { ...web, configs: configs({ "host.v2": { terminators } }) } });
    await expect.poll(() => overlay.hosted.length).toBe(3);
    const offers = () => overlay.hosted.map(({ o }) => [o.index, o.cost, o.precedence, o.instanceId]);
    expect(offers()).toEqual([
      [0, 5, "required", undefined],
      [1, 20, "failed", "b"],
      [2, 5, "required", "laptop"],
    ]);
    overlay.change({
      web: { ...web, cost: 7, precedence: "default", configs: configs({ "host.v2": { terminators } }) },
    });
    await expect.poll(() => overlay.hosted.length).toBe(6);
    expect(offers().slice(3)).toEqual([
      [0, 7, "default", undefined],
      [1, 7, "default", "b"],
      [2, 7, "default", "laptop"],
    ]);
    expect(overlay.hosted.map(({ isClosed }) => isClosed)).toEqual([true, true, true, false, false, false]);
  });

  it("makes its source addresses local as long as somebody needs them", async () => {
    const changes: string[] = [];
    const localRoutes: LocalRoutes = {
      add: async (prefix) => void changes.push(`+${prefix}`),
      remove: async (prefix) => void changes.push(`-${prefix}`),
    };
    const running = tunneler({ localRoutes });
    const config = (prefixes: string[]) => configs({ "host.v1": hostAt(1, { allowedSourceAddresses: prefixes }) });
    overlay.change({
      one: { canBind: true, configs: config(["192.0.2.0/24", "198.51.100.1"]) },
      two: { canBind: true, configs: config(["192.0.2.0/24"]) },
    });
    await expect.poll(() => overlay.hosted.length).toBe(2);
    expect(changes).toEqual(["+192.0.2.0/24", "+198.51.100.1"]);
    overlay.change({ one: undefined });
    await expect.poll(() => changes.slice(2)).toEqual(["-198.51.100.1"]);
    await running.close();
    expect(changes.slice(3)).toEqual(["-192.0.2.0/24"]);
  });

  it("goes on without a source address that cannot be made local", async () => {
    const failing = async () => Promise.reject(new Error("no permission"));
    tunneler({ localRoutes: { add: failing, remove: failing } });
    const config = hostAt(1, { allowedSourceAddresses: ["192.0.2.1"] });
    overlay.change({ web: { canBind: true, configs: configs({ "host.v1": config }) } });
    await expect.poll(() => overlay.hosted.length).toBe(1);
    await says("the route of a source address could not be changed");
  });

  it("whose port answers no more is offered last, then again as before", async () => {
    const target = await echo();
    tunneler();
    const portChecks = [
      {
        address: `127.0.0.1:${target.port}`,
        interval: "100ms",
        timeout: "1s",
        actions: [
          { trigger: "fail", action: "mark unhealthy" },
          { trigger: "change", action: "send event" },
          { trigger: "change", action: "increase cost 100" },
          { trigger: "pass", action: "mark healthy" },
        ],
      },
    ];
    overlay.change({ web: { canBind: true, configs: configs({ "host.v1": hostAt(target.port, { portChecks }) }) } });
    await expect.poll(() => overlay.hosted.length).toBe(1);
    const [terminator] = overlay.hosted;
    await new Promise((resolve) => target.close(resolve));
    await expect.poll(() => terminator!.updates).toEqual([{ precedence: "failed" }]);
    target.listen(target.port, "127.0.0.1");
    await expect.poll(() => terminator!.updates).toEqual([{ precedence: "failed" }, { precedence: "default" }]);
    expect(terminator!.events).toEqual([false, true]);
    overlay.change({ web: undefined });
    await expect.poll(() => terminator!.isClosed).toBe(true);
  });
});

describe("changes of services", () => {
  it("disturb only what they are about", async () => {
    const interceptor = new RecordingInterceptor();
    tunneler({ interceptor });
    const web = (dial: object, host: object, more = {}) => ({
      web: { canDial: true, canBind: true, configs: configs({ "intercept.v1": dial, "host.v1": host }), ...more },
    });
    overlay.change(web(interceptV1, hostAt(1)));
    await expect.poll(() => [interceptor.targets.length, overlay.hosted.length]).toEqual([1, 1]);
    overlay.change(web(interceptV1, hostAt(1)));
    overlay.change(web(interceptV1, hostAt(2)));
    await expect.poll(() => overlay.hosted.map(({ isClosed }) => isClosed)).toEqual([true, false]);
    expect(interceptor.targets.length).toBe(1);
    overlay.change(web({ ...interceptV1, addresses: ["other"] }, hostAt(2)));
    await expect.poll(() => interceptor.targets.map(({ addresses }) => addresses)).toEqual([["web.ziti"], ["other"]]);
    expect([interceptor.closed, overlay.hosted.length]).toEqual([["web"], 2]);
    overlay.change(web({ ...interceptV1, addresses: ["other"] }, hostAt(2), { canDial: false }));
    await expect.poll(() => interceptor.closed.length).toBe(2);
    overlay.change({ web: undefined });
    await expect.poll(() => overlay.hosted.every(({ isClosed }) => isClosed)).toBe(true);
  });

  it("with a config that cannot be used cost that permission only, and the log says where", async () => {
    const interceptor = new RecordingInterceptor();
    tunneler({ interceptor });
    const bad = { ...interceptV1, portRanges: [{ low: 9, high: 1 }] };
    overlay.change({
      web: { canDial: true, canBind: true, configs: configs({ "intercept.v1": bad, "host.v1": hostAt(1) }) },
    });
    await expect.poll(() => overlay.hosted.length).toBe(1);
    expect(interceptor.targets).toEqual([]);
    expect(logged).toContainEqual({
      msg: "a config cannot be used; this permission of the service is not used",
      fields: {
        service: "web",
        permission: "Dial",
        configType: "intercept.v1",
        path: "portRanges[0]",
        reason: "portRanges[0]: expected low not to be above high",
      },
    });
  });

  it("that make no sense are told: no hosting config, no interception in host mode", async () => {
    tunneler();
    overlay.change({ web: { canDial: true, canBind: true, configs: configs({ "intercept.v1": interceptV1 }) } });
    await says("service is hostable but no compatible host config found");
    await says("failed to intercept service: can not intercept services in host mode");
    expect(overlay.hosted).toEqual([]);
  });

  it("meet a failing interceptor: it is told, and the rest goes on", async () => {
    const interceptor = new RecordingInterceptor();
    interceptor.failure = new Error("no permission");
    tunneler({ interceptor });
    overlay.change({
      web: { canDial: true, canBind: true, configs: configs({ "intercept.v1": interceptV1, "host.v1": hostAt(1) }) },
    });
    await says("the service cannot be intercepted");
    await expect.poll(() => overlay.hosted.length).toBe(1);
  });
});

describe("closing", () => {
  it("waits for open circuits up to the limit, and ends those that are left", async () => {
    const { port } = await echo();
    const proxyPort = await freePort();
    const running = tunneler({ interceptor: proxyOf("web", proxyPort) });
    overlay.change({ web: { canDial: true, canBind: true, configs: configs({ "host.v1": hostAt(port) }) } });
    await says("a port is open");
    const ending = await open(proxyPort);
    ending.write("x");
    await once(ending, "data");
    const closing = running.close({ drainMs: 60_000 });
    await expect.poll(() => overlay.hosted.every(({ isClosed }) => isClosed)).toBe(true);
    await expect(open(proxyPort)).rejects.toThrow("ECONNREFUSED");
    ending.end("y");
    expect(String((await once(ending, "data"))[0])).toBe("y");
    await closing;

    const second = new Tunneler({ overlay, interceptor: proxyOf("web", proxyPort), log });
    logged.length = 0;
    second.start();
    await says("a port is open");
    const staying = await open(proxyPort);
    staying.write("x");
    await once(staying, "data");
    const ended = once(staying.resume(), "end");
    await second.close({ drainMs: 0 });
    await ended;
    expect(logged).toContainEqual({
      msg: "circuits were still open and had to be ended",
      fields: { circuits: 2 },
    });
  });
});
