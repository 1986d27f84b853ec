/** A tunneler over an overlay in memory, and what stands at its two ends. For tests. */
import { once } from "node:events";
import { connect, createServer, type Server, type Socket } from "node:net";
import type { Logger } from "@sallyport/wire";
import { afterEach, beforeEach, expect } from "vitest";
import type { InterceptedClients, Interceptor, InterceptTarget } from "../interceptor.ts";
import { ProxyInterceptor } from "../proxy/proxy-interceptor.ts";
import { Tunneler, type TunnelerOptions } from "../tunneler.ts";
import { MemoryOverlay } from "./memory-overlay.ts";

/** What a test started; called in reverse order when it ends. */
export const stops: (() => unknown)[] = [];
export const logged: { msg: string; fields: object }[] = [];
const note = (fields: object, msg: string) => void logged.push({ msg, fields });
/** Lines of level `debug`. */
const details: typeof logged = [];
const noteDetail = (fields: object, msg: string) => void details.push({ msg, fields });
export const log: Logger = { debug: noteDetail, info: note, warn: note, error: note };
/** A new one for each test. */
export let overlay: MemoryOverlay;

beforeEach(() => {
  overlay = new MemoryOverlay();
  logged.length = 0;
  details.length = 0;
});
afterEach(async () => {
  for (const stop of stops.splice(0).reverse()) await stop();
});

export function tunneler(more: Partial<TunnelerOptions> = {}): Tunneler {
  const started = new Tunneler({ overlay, log, ...more });
  stops.push(() => started.close());
  started.start();
  return started;
}

export async function listen(onSocket: (socket: Socket) => void, at = 0): Promise<Server & { port: number }> {
  const sockets = new Set<Socket>();
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
    onSocket(socket);
  });
  server.listen(at, "127.0.0.1");
  await once(server, "listening");
  stops.push(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return Object.assign(server, { port: (server.address() as { port: number }).port });
}

export const echo = (at = 0) => listen((socket) => void socket.on("error", () => {}).pipe(socket), at);

export async function open(port: number): Promise<Socket> {
  const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
  stops.push(() => socket.destroy());
  socket.on("error", () => {});
  await once(socket, "connect");
  return socket;
}

export function proxyOf(name: string, port: number, protocol: "tcp" | "udp" = "tcp"): ProxyInterceptor {
  const interceptor = new ProxyInterceptor({ services: [{ name, port, protocol }], bindAddress: "127.0.0.1", log });
  stops.push(() => interceptor.close());
  return interceptor;
}

export const configs = (all: Record<string, unknown>) => new Map(Object.entries(all));
export const hostAt = (port: number, more: object = {}) => ({ protocol: "tcp", address: "127.0.0.1", port, ...more });
export const says = (msg: string) =>
  expect.poll(() => [...logged, ...details].filter((entry) => entry.msg === msg)).not.toEqual([]);

/** Keeps what it was asked to intercept, and its clients. */
export class RecordingInterceptor implements Interceptor {
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
export async function tcpClient(): Promise<{ near: Socket; far: Socket }> {
  const accepted: Socket[] = [];
  const server = createServer({ allowHalfOpen: true, pauseOnConnect: true }, (socket) => void accepted.push(socket));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  stops.push(() => server.close());
  const near = await open((server.address() as { port: number }).port);
  await expect.poll(() => accepted.length).toBe(1);
  const far = accepted[0] as Socket;
  stops.push(() => far.destroy());
  return { near, far };
}

export const client = {
  protocol: "tcp" as const,
  sourceIp: "192.0.2.2",
  sourcePort: 5_000,
  destinationIp: "100.64.0.2",
  destinationPort: 80,
  destinationHostname: "web.ziti",
};
export const interceptV1 = { protocols: ["tcp"], addresses: ["web.ziti"], portRanges: [{ low: 80, high: 80 }] };
