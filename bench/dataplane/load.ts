/** The load that is put on a path: a TCP port of this machine at which connections to `target.ts` come out at the other end. */

import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { pause } from "@sallyport/async";

const CHUNK = Buffer.alloc(65_536, 0xa5);
/** A connection that took nothing for so long is full. */
const QUIET_MS = 1_000;

async function open(port: number): Promise<Socket> {
  const socket = connect({ port, host: "127.0.0.1", noDelay: true, allowHalfOpen: true });
  await once(socket, "connect");
  return socket;
}

function command(letter: string, length: number): Buffer {
  const bytes = Buffer.alloc(9);
  bytes.write(letter);
  bytes.writeBigUInt64BE(BigInt(length), 1);
  return bytes;
}

/** Sends `bytes` in all over so many connections at once; megabytes (10^6) per second until the last one was swallowed. */
export async function upload(port: number, streams: number, bytes: number): Promise<number> {
  const each = Math.floor(bytes / streams);
  const started = performance.now();
  await Promise.all(
    Array.from({ length: streams }, async () => {
      const socket = await open(port);
      const answered = once(socket, "data");
      const broken = failed(socket);
      socket.write(command("u", each));
      for (let left = each; left > 0; left -= CHUNK.length) {
        const chunk = left >= CHUNK.length ? CHUNK : CHUNK.subarray(0, left);
        if (!socket.write(chunk)) await Promise.race([once(socket, "drain"), broken]);
      }
      await Promise.race([answered, broken]);
      socket.destroy();
    }),
  );
  return (each * streams) / 1e3 / (performance.now() - started);
}

/** Rejects when the connection ends; a rejection without a waiter is ignored. */
function failed(socket: Socket): Promise<never> {
  const promise = new Promise<never>((_, reject) => {
    socket.once("close", () => reject(new Error("the path closed the connection")));
    socket.once("error", reject);
  });
  promise.catch(() => {});
  return promise;
}

export interface Circuits {
  readonly perSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly failed: number;
}

/** Opens `count` connections, so many at a time; each is measured from connect to its first echoed byte, then closed. */
export async function openCircuits(port: number, count: number, concurrency: number): Promise<Circuits> {
  const times: number[] = [];
  let begun = 0;
  let failures = 0;
  const started = performance.now();
  await Promise.all(
    Array.from({ length: concurrency }, async () => {
      while (begun++ < count) {
        const from = performance.now();
        try {
          const socket = await open(port);
          socket.write("e1");
          await Promise.race([once(socket, "data"), failed(socket)]);
          times.push(performance.now() - from);
          socket.destroy();
        } catch {
          failures += 1;
        }
      }
    }),
  );
  const seconds = (performance.now() - started) / 1000;
  return {
    perSecond: times.length / seconds,
    p50Ms: percentile(times, 50),
    p99Ms: percentile(times, 99),
    failed: failures,
  };
}

/** Round trips of one byte on one open connection, one after the other. */
export async function roundTrips(port: number, count: number): Promise<{ p50Ms: number; p99Ms: number }> {
  const times = await timedRoundTrips(port, count);
  return { p50Ms: percentile(times, 50), p99Ms: percentile(times, 99) };
}

async function timedRoundTrips(port: number, count: number): Promise<number[]> {
  const socket = await open(port);
  socket.write("e");
  const broken = failed(socket);
  const times: number[] = [];
  for (let i = 0; i < count; i++) {
    const from = performance.now();
    socket.write("x");
    await Promise.race([once(socket, "data"), broken]);
    times.push(performance.now() - from);
  }
  socket.destroy();
  return times;
}

/** The same on several connections at once; percentiles over all of them. */
export async function roundTripsOfMany(
  port: number,
  connections: number,
  count: number,
): Promise<{ p50Ms: number; p99Ms: number }> {
  const all = await Promise.all(Array.from({ length: connections }, () => timedRoundTrips(port, count / connections)));
  const times = all.flat();
  return { p50Ms: percentile(times, 50), p99Ms: percentile(times, 99) };
}

/** A connection whose reader stops, and which is full: nothing more was taken for a while. */
export async function openStopped(port: number): Promise<{ close(): void }> {
  const socket = await open(port);
  socket.on("error", () => socket.destroy());
  socket.write("s");
  for (let full = false; !full; ) {
    if (socket.write(CHUNK)) continue;
    full = await Promise.race([once(socket, "drain").then(() => false), pause(QUIET_MS).then(() => true)]);
  }
  return { close: () => socket.destroy() };
}

export function percentile(values: readonly number[], p: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor((sorted.length * p) / 100))] ?? Number.NaN;
}
