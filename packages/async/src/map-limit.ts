/**
 * Does `work` for every item, at most `limit` at a time, and answers the results in the order of the items.
 * After an error no further item is begun, and the promise rejects with it.
 */
export async function mapLimit<T, R>(
  items: Iterable<T>,
  limit: number,
  work: (item: T, index: number) => Promise<R>,
): Promise<R[]> {
  const results: R[] = [];
  const waiting = items[Symbol.iterator]();
  let begun = 0;
  let hasFailed = false;
  const lane = async (first: T): Promise<void> => {
    for (let item = first; ; ) {
      const index = begun++;
      try {
        results[index] = await work(item, index);
      } catch (error) {
        hasFailed = true;
        throw error;
      }
      const next = hasFailed ? undefined : waiting.next();
      if (next === undefined || next.done === true) return;
      item = next.value;
    }
  };
  const lanes: Promise<void>[] = [];
  while (lanes.length < limit) {
    const first = waiting.next();
    if (first.done === true) break;
    lanes.push(lane(first.value));
  }
  await Promise.all(lanes);
  return results;
}
