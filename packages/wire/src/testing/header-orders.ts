import { Headers } from "../frame/headers.ts";

/**
 * The same headers in every order (n! of them). Other programs write headers in the order of a hash table, so every reader
 * of frames has to take them all (docs/protocol/channel.md "Headers"). For tests.
 */
export function headerOrders(headers: Headers): Headers[] {
  return permutations([...headers.entries()]).map((entries) => {
    const ordered = new Headers();
    for (const [key, value] of entries) ordered.set(key, value);
    return ordered;
  });
}

function permutations<T>(items: readonly T[]): T[][] {
  if (items.length === 0) return [[]];
  return items.flatMap((item, at) => permutations(items.toSpliced(at, 1)).map((rest) => [item, ...rest]));
}
