/** Those who wait, in the order in which they came. */
const waiting: (() => void)[] = [];

/**
 * Resolves in a turn of the event loop that no other caller gets. Code that is about to write out a long page awaits one: answers of the database that arrive
 * together would otherwise be written out all in the same turn, and other requests would wait for the sum of them.
 */
export function turn(): Promise<void> {
  return new Promise((resolve) => {
    waiting.push(resolve);
    if (waiting.length === 1) setImmediate(next);
  });
}

function next(): void {
  const [resolve] = waiting;
  resolve?.();
  waiting.shift();
  if (waiting.length > 0) setImmediate(next);
}
