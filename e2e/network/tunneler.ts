import { createSocket, type Socket } from "node:dgram";
import { on, once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { enroll } from "@sallyport/sdk";
import type { Network } from "./network.ts";
import { Program } from "./program.ts";

const MAIN = join(import.meta.dirname, "..", "..", "packages", "tunnel", "src", "main.ts");

/** Starts our tunneler program; it asks for changes every second. */
export function startTunneler(folder: string, name: string, ...args: string[]): Program {
  const isEnrolling = args[0] === "enroll" || args[0] === "join";
  return new Program({
    name,
    command: process.execPath,
    args: [MAIN, ...args, ...(isEnrolling ? [] : ["--refresh", "1s"])],
    logFile: join(folder, `${name}.log`),
    env: { SALLYPORT_LOG_LEVEL: "debug" },
  });
}

/** An enrolled identity that may use one router only. */
export interface TunnelIdentity {
  readonly id: string;
  readonly file: string;
}

/** Makes and enrolls an identity whose name is its role attribute; it may use the router with this attribute. */
export async function declareIdentity(network: Network, name: string, router: string): Promise<TunnelIdentity> {
  const { management, folder } = network;
  const { data } = await management.createIdentity({
    body: { name, type: "Device", isAdmin: false, roleAttributes: [name], enrollment: { ott: true } },
  });
  const detail = await management.detailIdentity({ params: { id: data.id } });
  const file = join(folder, `${name}.json`);
  writeFileSync(file, JSON.stringify(await enroll(detail.data.enrollment.ott?.jwt ?? "")), { mode: 0o600 });
  await management.createEdgeRouterPolicy({
    body: { name, semantic: "AnyOf", identityRoles: [`#${name}`], edgeRouterRoles: [`#${router}`] },
  });
  return { id: data.id, file };
}

/** Lets identities with an attribute dial or host the services with an attribute. */
export async function allow(
  network: Network,
  type: "Dial" | "Bind",
  identityRole: string,
  serviceRole: string,
): Promise<string> {
  const { data } = await network.management.createServicePolicy({
    body: {
      name: `${type} ${identityRole} ${serviceRole}`,
      type,
      semantic: "AnyOf",
      identityRoles: [`#${identityRole}`],
      serviceRoles: [`#${serviceRole}`],
    },
  });
  return data.id;
}

/** A service with configs by the name of their type. */
export interface ConfiguredService {
  readonly id: string;
  /** Ids of its configs by type. */
  readonly configs: Readonly<Record<string, string>>;
}

/** Makes a service that every router may carry. */
export async function declareConfigured(
  network: Network,
  o: {
    readonly name: string;
    readonly roles: readonly string[];
    readonly isEncrypted?: boolean;
    readonly configs?: Readonly<Record<string, object>>;
  },
): Promise<ConfiguredService> {
  const { management } = network;
  const configs: Record<string, string> = {};
  for (const [type, data] of Object.entries(o.configs ?? {})) {
    const { data: types } = await management.listConfigTypes({ query: { filter: `name = "${type}"` } });
    const created = await management.createConfig({
      body: { name: `${o.name} ${type}`, configTypeId: types[0]?.id ?? "", data: data as Record<string, unknown> },
    });
    configs[type] = created.data.id;
  }
  const { data } = await management.createService({
    body: {
      name: o.name,
      roleAttributes: [...o.roles],
      encryptionRequired: o.isEncrypted ?? true,
      configs: Object.values(configs),
    },
  });
  return { id: data.id, configs };
}

/** A UDP echo on the loopback. */
export async function startUdpEcho(): Promise<{ port: number; close(): void; readonly clients: ReadonlySet<string> }> {
  const socket = createSocket("udp4");
  const clients = new Set<string>();
  socket.on("message", (datagram, from) => {
    clients.add(`${from.address}:${from.port}`);
    socket.send(datagram, from.port, from.address);
  });
  socket.bind(0, "127.0.0.1");
  await once(socket, "listening");
  return { port: socket.address().port, clients, close: () => socket.close() };
}

/** A UDP client of a port of this machine. */
export async function openUdp(port: number): Promise<Socket> {
  const socket = createSocket("udp4");
  socket.connect(port, "127.0.0.1");
  await once(socket, "connect");
  return socket;
}

/**
 * Sends a datagram until an answer comes, and resolves with the answer: datagrams may be lost.
 * @param isAnswer tells it from one to an earlier datagram that was sent more than once; when absent it is as long as the
 * datagram, as that of an echo
 */
export async function askUdp(
  socket: Socket,
  datagram: Buffer,
  timeoutMs = 20_000,
  isAnswer: (message: Buffer) => boolean = ({ length }) => length === datagram.length,
): Promise<Buffer> {
  const messages = on(socket, "message", { signal: AbortSignal.timeout(timeoutMs) });
  const again = setInterval(() => socket.send(datagram), 1_000);
  socket.send(datagram);
  try {
    for await (const [message] of messages) if (isAnswer(message)) return message;
    throw new Error("the socket was closed");
  } finally {
    clearInterval(again);
  }
}
