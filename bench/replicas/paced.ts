import { pause } from "@sallyport/async";

const TICK_MS = 5;

/**
 * Begins calls at a fixed rate, whether or not the earlier ones have ended; resolves when all have ended. What is late is made up for.
 * @param isOver ends it before its time
 */
export async function paced(
  perSecond: number,
  forMs: number,
  call: (index: number) => Promise<unknown>,
  isOver: () => boolean = () => false,
): Promise<void> {
  const began = performance.now();
  const calls: Promise<unknown>[] = [];
  const count = Math.round((forMs / 1_000) * perSecond);
  while (calls.length < count && !isOver()) {
    const due = Math.min(count, Math.ceil(((performance.now() - began) / 1_000) * perSecond));
    while (calls.length < due) {
      const called = call(calls.length);
      // Told below, when all have ended.
      called.catch(() => undefined);
      calls.push(called);
    }
    await pause(TICK_MS);
  }
  await Promise.all(calls);
}
