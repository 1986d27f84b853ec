/** How other machines reach this one. */
import { randomBytes } from "node:crypto";
import { createSocket } from "node:dgram";
import { lookup } from "node:dns/promises";
import { once } from "node:events";
import { connect, isIP } from "node:net";
import { networkInterfaces } from "node:os";
import { CommandError, UsageError } from "../errors.ts";
import { HeldPorts } from "./held-ports.ts";

const CONNECT_MS = 3_000;
/** Of documentation (RFC 5737, RFC 3849): a route to it is the one to the rest of the world, and nothing is sent. */
const ANYWHERE = ["192.0.2.1", "2001:db8::1"];

/** A host name or an IP address. @throws UsageError */
export function checkedHost(text: string): string {
  const host = text.replace(/^\[(.*)\]$/, "$1");
  const isName = /^(?=.{1,253}$)[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*$/i.test(host);
  if (isIP(host) !== 0 || (isName && !/^[\d.]+$/.test(host))) return host;
  throw new UsageError(
    `--host expects the name or IP address under which other machines reach this one, found '${text}'`,
  );
}

/** The address of this machine that its traffic to others has; `localhost` where it has none. */
export async function ownAddress(): Promise<string> {
  for (const address of ANYWHERE) {
    const found = await sourceFor(address);
    if (found !== undefined) return found;
  }
  const others = Object.values(networkInterfaces()).flatMap((each) => each ?? []);
  return others.find(({ internal, family }) => !internal && family === "IPv4")?.address ?? "localhost";
}

async function sourceFor(address: string): Promise<string | undefined> {
  const socket = createSocket(isIP(address) === 6 ? "udp6" : "udp4");
  try {
    const connected = once(socket, "connect");
    socket.connect(9, address);
    await connected;
    const { address: own } = socket.address();
    return own.startsWith("fe80:") || own.startsWith("127.") ? undefined : own;
  } catch {
    return undefined;
  } finally {
    socket.close();
  }
}

/** Whether nothing but this machine may reach the network. */
export function isLoopback(host: string): boolean {
  return host === "localhost" || host === "127.0.0.1";
}

/** The first free port from `first` on. Those that are taken already do not count as tries. @throws CommandError */
export async function freePortFrom(first: number, taken: readonly number[] = []): Promise<number> {
  const ports = new HeldPorts();
  const port = await ports.holdFrom(first, taken);
  await ports.releaseAll();
  return port;
}

/** Why a port of this machine cannot be listened on; undefined where it can. */
export async function whyNotFree(port: number): Promise<string | undefined> {
  const ports = new HeldPorts();
  const why = await ports.hold(port);
  await ports.releaseAll();
  return why;
}

/** Checks that the host leads to this machine, by a connection to a port that is held. @throws CommandError where it does not */
export async function checkLeadsHere(host: string, port: number, ports: HeldPorts): Promise<void> {
  const hint = "choose a name or an address of this machine with --host";
  const { address } = await lookup(host).catch(() => {
    throw new CommandError(`the host name ${host} cannot be resolved on this machine: ${hint}`);
  });
  const greeting = randomBytes(16).toString("hex");
  const heard = await ports.greeting(port, greeting, () => greetingOf(address, port));
  if (heard === greeting) return;
  const place = address === host ? host : `${host} (${address})`;
  throw new CommandError(
    `${place} does not lead to this machine: a connection to its port ${port} did not arrive here; ${hint}`,
  );
}

async function greetingOf(host: string, port: number): Promise<string> {
  const socket = connect({ host, port });
  socket.setTimeout(CONNECT_MS, () => socket.destroy());
  let heard = "";
  try {
    for await (const chunk of socket.setEncoding("utf8")) {
      heard += String(chunk);
      if (heard.length > 100) break;
    }
  } catch {
    // What was heard until then tells.
  }
  socket.destroy();
  return heard;
}

/** Whether something accepts connections there. */
export async function accepts(host: string, port: number): Promise<boolean> {
  const socket = connect({ host, port });
  socket.setTimeout(CONNECT_MS, () => socket.destroy(new Error("no answer")));
  try {
    await once(socket, "connect");
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}
