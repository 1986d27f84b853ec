const waiting: (() => void)[] = [];

/**
 * Resolves in a turn of the event loop that no other caller gets, first come, first served. Code that is about to write out a long page awaits one: answers of
 * the database that arrive together would otherwise be written out in the same turn, and other requests would wait for all of them.
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
