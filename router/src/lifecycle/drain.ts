import { pause, untilAborted } from "@sallyport/async";
import type { Logger } from "@sallyport/wire";
import type { EdgeListener } from "../edge/edge-listener.ts";
import type { Forwarder } from "../forwarder/forwarder.ts";
import type { Quiesce } from "./quiesce.ts";

export interface DrainParts {
  readonly quiesce: Pick<Quiesce, "begin">;
  readonly edge: Pick<EdgeListener, "sendAway"> | undefined;
  readonly forwarder: Pick<Forwarder, "ends">;
  readonly log: Logger;
}

export interface DrainOptions {
  /** How long circuits may go on; 0: not at all. */
  readonly limitMs: number;
  /** Ends it early. */
  readonly signal: AbortSignal;
}

const LOOK_MS = 50;
/**
 * How long circuits with datagrams may go on: long enough for an answer that is on its way. They end by silence only,
 * minutes later, and their clients send again what is lost.
 */
const DATAGRAM_LIMIT_MS = 2_000;
/**
 * How long hosts keep their listeners here, at most half of the limit: when routers are restarted one after the other, a
 * host may just be on its way back to the one before.
 */
const HOSTS_STAY_MS = 3_000;

/**
 * Empties a router that is to stop. The controllers choose other terminators. SDKs are sent to other routers as soon as they
 * have no circuit here, hosts after a moment. Circuits that begin or end here go on until they end or the time is up; those
 * with datagrams for 2 s at most. Circuits that only pass through get another path when the links close.
 *
 * @returns circuits that still had an end here
 */
export async function drain(parts: DrainParts, o: DrainOptions): Promise<number> {
  const { quiesce, edge, forwarder, log } = parts;
  if (o.limitMs === 0 || o.signal.aborted) return openCircuits(forwarder).all;
  const began = performance.now();
  const isAvoided = await Promise.race([quiesce.begin(), untilAborted(o.signal).then(() => false)]);
  log.info({ circuits: openCircuits(forwarder).all, isAvoided, limitMs: o.limitMs }, "waiting for circuits to end");
  for (;;) {
    const waitedMs = Math.round(performance.now() - began);
    const cutsDatagrams = waitedMs >= DATAGRAM_LIMIT_MS;
    const sparesHosts = waitedMs < Math.min(HOSTS_STAY_MS, o.limitMs / 2);
    const sdks = edge?.sendAway({ cutsDatagrams, sparesHosts }) ?? 0;
    const { all: circuits, datagrams } = openCircuits(forwarder);
    const awaited = cutsDatagrams ? circuits - datagrams : circuits;
    if ((awaited === 0 && sdks === 0) || waitedMs >= o.limitMs || o.signal.aborted) {
      log.info({ circuits, sdks, waitedMs }, circuits === 0 ? "no circuit is left" : "circuits are cut");
      return circuits;
    }
    await pause(Math.min(LOOK_MS, o.limitMs), o.signal);
  }
}

/** Circuits with an end at this router, and how many of them carry datagrams, as far as is known. */
function openCircuits(forwarder: DrainParts["forwarder"]): { all: number; datagrams: number } {
  const count = { all: 0, datagrams: 0 };
  for (const end of forwarder.ends()) {
    count.all++;
    if (end.carriesDatagrams === true) count.datagrams++;
  }
  return count;
}
