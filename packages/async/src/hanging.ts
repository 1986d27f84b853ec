import { pause, pauseAwake } from "./waits.ts";

/**
 * Whether a server answers a question within `ms` milliseconds, in which time that this process stood still does not count. The question is
 * withdrawn at the end.
 */
export async function answersWithin(ms: number, ask: (signal: AbortSignal) => Promise<boolean>): Promise<boolean> {
  const end = new AbortController();
  try {
    return await Promise.race([ask(end.signal), pauseAwake(ms, end.signal).then(() => false)]);
  } finally {
    end.abort();
  }
}

export interface HangingOptions<T> {
  /** Asks a server. To be withdrawn when the signal aborts. */
  readonly work: (signal: AbortSignal) => Promise<T>;
  /** How long the work may take before the server is asked whether it answers at all; after each answer twice as long. */
  readonly patienceMs: number;
  /** Whether the server answers something small that is asked now. */
  readonly answers: () => Promise<boolean>;
  /** Whether another server could do the work. */
  readonly hasAlternative: () => boolean;
  /** The error for a server that answers nothing. */
  readonly hangs: () => Error;
}

/**
 * The outcome of work at a server, however long that takes while the server answers anything at all: it is busy then, and another one would be,
 * too. When it answers nothing and another one could do the work, the work is withdrawn, and this rejects with what `hangs` gives.
 */
export async function unlessHanging<T>({
  work,
  patienceMs,
  answers,
  hasAlternative,
  hangs,
}: HangingOptions<T>): Promise<T> {
  const withdrawal = new AbortController();
  const settled = new AbortController();
  const { promise, resolve, reject } = Promise.withResolvers<T>();
  const watch = async (): Promise<void> => {
    for (let waitMs = patienceMs; ; waitMs *= 2) {
      await pause(waitMs, settled.signal, { ref: false });
      while (!settled.signal.aborted && !hasAlternative()) await pause(patienceMs, settled.signal, { ref: false });
      if (settled.signal.aborted) return;
      if ((await answers()) || settled.signal.aborted || !hasAlternative()) continue;
      const error = hangs();
      reject(error);
      withdrawal.abort(error);
      return;
    }
  };
  work(withdrawal.signal)
    .then(resolve, reject)
    .finally(() => settled.abort());
  watch().catch(reject);
  return await promise;
}
