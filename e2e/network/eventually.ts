import { errorText, pause } from "@sallyport/async";

/** Between two questions. */
const PAUSE_MS = 50;
const MAX_PAUSE_MS = 1_000;

/**
 * Resolves with the first answer of `probe` that is neither false nor undefined; it is asked again and again until then,
 * also when it throws. Rejects with its last words when time is up.
 */
export async function eventually<T>(what: string, probe: () => T | Promise<T>, timeoutMs = 20_000): Promise<Answer<T>> {
  const until = performance.now() + timeoutMs;
  for (;;) {
    const askedAt = performance.now();
    let last: unknown;
    try {
      const answer = await probe();
      if (answer !== false && answer !== undefined) return answer as Answer<T>;
      last = answer;
    } catch (error) {
      last = error;
    }
    // A question that took long may be answered otherwise by now.
    if (askedAt > until) {
      throw new Error(`not within ${timeoutMs} ms: ${what}; last: ${errorText(last)}`);
    }
    // What is costly to ask, such as by a program, is to take a third of the time at most.
    const pauseMs = Math.min(MAX_PAUSE_MS, Math.max(PAUSE_MS, 2 * (performance.now() - askedAt)));
    await pause(pauseMs);
  }
}

type Answer<T> = Exclude<T, false | undefined>;
