import { randomInt } from "node:crypto";
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { createServer } from "node:net";

/** Below those that a system gives to a process that asks for any. */
const FIRST = 12_000;
const PER_SHARE = 2_500;
const SHARES = 8;

const given = new Set<number>();

/**
 * Ports of 127.0.0.1 that are free for TCP and UDP, and stay free until the test opens them: they are below those for outgoing
 * connections and for servers without a port of their own, and each test process draws from its own share of them.
 */
export async function freePorts(count: number): Promise<number[]> {
  const ports: number[] = [];
  while (ports.length < count) {
    const port = drawn();
    if (given.has(port)) continue;
    given.add(port);
    if (await isFree(port)) ports.push(port);
  }
  return ports;
}

/** One of {@link freePorts}. */
export async function freePort(): Promise<number> {
  const [port = 0] = await freePorts(1);
  return port;
}

/** The first of so many ports in a row, each as one of {@link freePorts}. */
export async function freePortRange(count: number): Promise<number> {
  for (;;) {
    const first = await freePort();
    const further = Array.from({ length: count - 1 }, (_, at) => first + at + 1);
    if (further.some((port) => given.has(port))) continue;
    for (const port of further) given.add(port);
    const free = await Promise.all(further.map(isFree));
    if (free.every(Boolean)) return first;
  }
}

function drawn(): number {
  // All are given, after some hours: from the start.
  if (given.size >= PER_SHARE) given.clear();
  const share = (process.ppid + Number(process.env.VITEST_POOL_ID ?? 0)) % SHARES;
  return FIRST + share * PER_SHARE + randomInt(PER_SHARE);
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer().listen(port, "127.0.0.1");
  const socket = createSocket("udp4").bind(port, "127.0.0.1");
  const opened = await Promise.allSettled([once(server, "listening"), once(socket, "listening")]);
  await Promise.all([
    new Promise((resolve) => server.close(resolve)),
    new Promise<void>((resolve) => socket.close(resolve)),
  ]);
  return opened.every(({ status }) => status === "fulfilled");
}
