import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import type { Socket } from "node:net";
import { setTimeout as wait } from "node:timers/promises";
import { abandonedHandshake, costlyChain } from "@sallyport/wire/testing/costly-handshake";

export interface Row {
  readonly figure: string;
  readonly value: number;
  readonly isMet?: boolean;
}

type Kind = "ours" | "node";

const CONNECTIONS_PER_SECOND = 20;
const FLOOD_SECONDS = 60;
/** Node's server is busy for several seconds with each of these. */
const FLOOD_SECONDS_OF_NODE = 1;
/** With 5 % of a core, the first handshake, and the connections that are refused. */
const TARGET_MS_PER_SECOND = 75;

/** What the handshakes themselves cost a port: one, and a flood of them from one address. None is finished; 98 KB of certificates are sent. */
export async function* handshakeRows(runs: number): AsyncGenerator<Row> {
  const costs = await Promise.all(
    (["node", "ours"] as const).map((kind) => perHandshake(kind, kind === "node" ? runs : 1)),
  );
  const [node, ours] = costs.map((cost) => Number(cost.toFixed(1)));
  yield { figure: "an untrusted handshake of 98 KB", value: ours ?? Number.NaN, ...{ unit: "CPU ms", node, runs } };
  const value = Number((await perSecond("ours", FLOOD_SECONDS)).toFixed(1));
  const alone = Number((await perSecond("node", FLOOD_SECONDS_OF_NODE)).toFixed(1));
  yield {
    figure: "a flood of such handshakes from one address",
    value,
    ...{ unit: "CPU ms for each second", node: alone, connectionsPerSecond: CONNECTIONS_PER_SECOND },
    ...{ target: TARGET_MS_PER_SECOND, isMet: value <= TARGET_MS_PER_SECOND },
  };
}

async function perHandshake(kind: Kind, runs: number): Promise<number> {
  return withPort(kind, async (port, cpuMs) => {
    const before = await cpuMs();
    for (let i = 0; i < runs; i++) await handshake(port);
    return ((await cpuMs()) - before) / runs;
  });
}

async function perSecond(kind: Kind, seconds: number): Promise<number> {
  return withPort(kind, async (port, cpuMs) => {
    const before = await cpuMs();
    const began = performance.now();
    const all: Promise<void>[] = [];
    for (let i = 0; i < seconds * CONNECTIONS_PER_SECOND; i++) {
      all.push(handshake(port));
      await wait(1000 / CONNECTIONS_PER_SECOND);
    }
    const passed = (performance.now() - began) / 1000;
    await Promise.all(all);
    return ((await cpuMs()) - before) / passed;
  });
}

const chain = costlyChain();

async function handshake(port: number): Promise<void> {
  const socket: Socket = await abandonedHandshake({ port, ...chain });
  await wait(500);
  socket.destroy();
}

async function withPort(
  kind: Kind,
  measure: (port: number, cpuMs: () => Promise<number>) => Promise<number>,
): Promise<number> {
  const server = fork(new URL("./port.ts", import.meta.url), [kind]);
  try {
    const { port = 0 } = await said(server);
    // The answer comes when the port has worked off what it had been sent.
    return await measure(port, async () => {
      server.send("cpu");
      return (await said(server)).cpuMs ?? Number.NaN;
    });
  } finally {
    server.disconnect();
  }
}

async function said(server: ChildProcess): Promise<{ port?: number; cpuMs?: number }> {
  const [message] = await once(server, "message");
  return message;
}
