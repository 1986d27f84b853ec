/** What `ping` measured. Pure but for the questions to the hops. */
import type { TraceHop, TraceOptions } from "@sallyport/sdk";

/** A path of more routers has a circle in it. */
const MAX_HOPS = 32;
const FIRST_ROUTER = 1;

export type TraceRoute = (hops: number, options?: TraceOptions) => Promise<TraceHop>;

/** One answer, or none in time. */
export interface HopAnswer {
  /** Of the hop as it answered, or as it answered before. */
  readonly type: string;
  readonly id: string;
  readonly milliseconds?: number;
  readonly error?: string;
}

/** One measurement of the whole circuit. */
export interface Round {
  readonly hops: readonly HopAnswer[];
  /** The end of the circuit answered. */
  readonly isComplete: boolean;
}

export interface RoundOptions {
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  /** The round before: a hop that does not answer is still the one that it was. */
  readonly before?: Round | undefined;
}

/**
 * Asks every hop, from the first router to the end.
 * @throws what ends the circuit, or the signal's reason
 */
export async function measureRound(trace: TraceRoute, { timeoutMs, signal, before }: RoundOptions): Promise<Round> {
  const hops: HopAnswer[] = [];
  for (let number = FIRST_ROUTER; number <= MAX_HOPS; number++) {
    let answer: HopAnswer;
    try {
      answer = await trace(number, { timeoutMs, signal });
    } catch (error) {
      if ((error as Error).name !== "RequestTimeoutError") throw error;
      const known = before?.hops[number - 1];
      hops.push({ type: known?.type ?? "", id: known?.id ?? "" });
      // Nothing is known of what is behind it.
      if (known === undefined || known.type === "") return { hops, isComplete: false };
      if (isEnd(known.type)) return { hops, isComplete: false };
      continue;
    }
    hops.push(answer);
    if (answer.error !== undefined) return { hops, isComplete: false };
    if (isEnd(answer.type)) return { hops, isComplete: true };
  }
  return { hops, isComplete: false };
}

/** Routers pass a trace on: the first one, forwarders, and the last one, behind which the SDK of the host is. */
function isEnd(type: string): boolean {
  return type !== "forwarder" && type !== "xgress/edge";
}

export interface HopStatistics {
  readonly hop: number;
  readonly type: string;
  /** Of a router, where it is known. */
  readonly routerId?: string;
  readonly sent: number;
  readonly answered: number;
  readonly minMs?: number;
  readonly avgMs?: number;
  readonly maxMs?: number;
}

/** @param path ids of the routers of the circuit, where the controller tells them */
export function statisticsOf(rounds: readonly Round[], path: readonly string[]): HopStatistics[] {
  const longest = rounds.reduce((most, { hops }) => Math.max(most, hops.length), 0);
  return Array.from({ length: longest }, (_, index): HopStatistics => {
    const answers = rounds.flatMap(({ hops }) => hops[index] ?? []);
    const { type = "", id = "" } = answers.find((each) => each.type !== "") ?? {};
    const times = answers.flatMap(({ milliseconds }) => milliseconds ?? []);
    const routerId = id || routerAt(type, index, path);
    return {
      hop: index + 1,
      type,
      ...(routerId !== undefined && { routerId }),
      sent: answers.length,
      answered: times.length,
      ...(times.length > 0 && {
        minMs: times.reduce((least, each) => Math.min(least, each)),
        avgMs: times.reduce((sum, each) => sum + each) / times.length,
        maxMs: times.reduce((most, each) => Math.max(most, each)),
      }),
    };
  });
}

/** Edges answer without their id: the first hop is the first router, any other one the last. */
function routerAt(type: string, index: number, path: readonly string[]): string | undefined {
  if (type !== "xgress/edge" && type !== "") return undefined;
  return index === 0 ? path[0] : type === "" ? undefined : path.at(-1);
}
