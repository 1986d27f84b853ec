import type { Logger } from "@sallyport/wire";
import type { Edge } from "../edge/edge-listener.ts";
import type { Forwarder } from "../forwarder/forwarder.ts";
import type { Quiesce } from "./quiesce.ts";

export interface DrainParts {
  readonly quiesce: Quiesce;
  readonly edge: Edge | undefined;
  readonly forwarder: Forwarder;
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
 * Empties a router that is to stop: the controllers choose other terminators, SDKs are sent to other routers as soon as
 * they have no circuit here, and circuits that begin or end here go on until they end or the time is up. Circuits that
 * only pass through are not waited for; they are given another path when the links close.
 *
 * @returns circuits that still had an end here
 */
export async function drain(parts: DrainParts, o: DrainOptions): Promise<number> {
  const { quiesce, edge, forwarder, log } = parts;
  if (o.limitMs === 0 || o.signal.aborted) return openCircuits(forwarder);
  const began = performance.now();
  const stopped = aborted(o.signal);
  const isAvoided = await Promise.race([quiesce.begin(), stopped]);
  log.info({ circuits: openCircuits(forwarder), isAvoided, limitMs: o.limitMs }, "waiting for circuits to end");
  for (;;) {
    const sdks = edge?.sendAway() ?? 0;
    const circuits = openCircuits(forwarder);
    const waitedMs = Math.round(performance.now() - began);
    if ((circuits === 0 && sdks === 0) || waitedMs >= o.limitMs || o.signal.aborted) {
      log.info({ circuits, sdks, waitedMs }, circuits === 0 ? "no circuit is left" : "circuits are cut");
      return circuits;
    }
    await Promise.race([pause(Math.min(LOOK_MS, o.limitMs)), stopped]);
  }
}

/** Circuits with an end at this router. */
function openCircuits(forwarder: Forwarder): number {
  let count = 0;
  for (const _end of forwarder.ends()) count++;
  return count;
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

function aborted(signal: AbortSignal): Promise<false> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(false);
    else signal.addEventListener("abort", () => resolve(false), { once: true });
  });
}
