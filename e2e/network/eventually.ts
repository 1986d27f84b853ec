/**
 * Resolves with the first answer of `probe` that is neither false nor undefined; it is asked again and again until then,
 * also when it throws. Rejects with its last words when time is up.
 */
export async function eventually<T>(what: string, probe: () => T | Promise<T>, timeoutMs = 20_000): Promise<T> {
  const until = performance.now() + timeoutMs;
  for (;;) {
    let last: unknown;
    try {
      const answer = await probe();
      if (answer !== false && answer !== undefined) return answer;
      last = answer;
    } catch (error) {
      last = error;
    }
    if (performance.now() > until) {
      throw new Error(`not within ${timeoutMs} ms: ${what}; last: ${last instanceof Error ? last.message : last}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
