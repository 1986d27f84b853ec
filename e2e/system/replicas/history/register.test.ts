import { describe, expect, it } from "vitest";
import { Random } from "../../../soak/random.ts";
import { linearizationProblem, type RegisterOperation } from "./register.ts";

const UNKNOWN = Number.POSITIVE_INFINITY;
const write = (value: string, began: number, ended: number): RegisterOperation => ({
  ...{ kind: "write", value, began, ended, by: "w" },
});
const read = (value: string | undefined, began: number, ended: number): RegisterOperation => ({
  ...{ kind: "read", value, began, ended, by: "r" },
});

/** Operations that took effect at one instant each, between question and answer. */
function realHistory(seed: number, count: number, clients: number): RegisterOperation[] {
  const random = new Random(seed);
  const free = Array.from({ length: clients }, () => 0);
  const planned = Array.from({ length: count }, (_, n) => {
    const client = random.between(0, clients - 1);
    const began = (free[client] ?? 0) + random.next();
    const effect = began + random.next() * 3;
    const ended = effect + random.next() * 3;
    free[client] = ended;
    return { n, began, effect, ended, isWrite: random.next() < 0.4, isUnknown: random.next() < 0.1 };
  });
  let value: string | undefined;
  return planned
    .sort((a, b) => a.effect - b.effect)
    .flatMap(({ n, began, ended, isWrite, isUnknown }) => {
      if (!isWrite) return [read(value, began, ended)];
      const hasEffect = !isUnknown || random.next() < 0.5;
      if (hasEffect) value = `v${n}`;
      return [write(`v${n}`, began, isUnknown ? UNKNOWN : ended)];
    });
}

describe("a history of a register", () => {
  it.each<[string, RegisterOperation[]]>([
    ["without operations", []],
    ["of reads before any write", [read(undefined, 0, 1)]],
    ["of a write and a read after it", [write("a", 0, 1), read("a", 2, 3)]],
    [
      "of a read that began before the write ended, old or new",
      [write("a", 0, 5), read(undefined, 1, 2), read("a", 3, 4)],
    ],
    [
      "of two writes at a time, in either order",
      [write("a", 0, 5), write("b", 0, 5), read("b", 6, 7), read("b", 8, 9)],
    ],
    ["of an unknown write that took effect late", [write("a", 0, UNKNOWN), read(undefined, 5, 6), read("a", 7, 8)]],
    ["of an unknown write that never took effect", [write("a", 0, UNKNOWN), read(undefined, 5, 6)]],
    ["of an unknown write in the midst", [write("a", 0, 1), write("b", 2, UNKNOWN), read("a", 3, 4), read("b", 5, 6)]],
  ])("%s is in order", (_, history) => {
    expect(linearizationProblem(history)).toBeUndefined();
  });

  it.each<[string, RegisterOperation[]]>([
    ["misses a write that was answered", [write("a", 0, 1), read(undefined, 2, 3)]],
    ["shows an older write", [write("a", 0, 1), write("b", 2, 3), read("a", 4, 5)]],
    [
      "shows the new value and then the old one, while the write lasts",
      [write("a", 0, 9), read("a", 1, 2), read(undefined, 3, 4)],
    ],
    ["shows what was never written", [write("a", 0, 1), read("x", 2, 3)]],
    ["shows a write before it was asked for", [read("a", 0, 1), write("a", 2, 3)]],
    [
      "shows two orders of two writes",
      [write("a", 0, 5), write("b", 0, 5), read("a", 6, 7), read("b", 8, 9), read("a", 10, 11)],
    ],
    ["loses an unknown write that was seen", [write("a", 0, UNKNOWN), read("a", 5, 6), read(undefined, 7, 8)]],
  ])("is found that %s", (_, history) => {
    expect(linearizationProblem(history)).toContain("none of these can come next");
  });

  it("of several clients that took effect at instants is in order, and with one stale read it is not", () => {
    for (let seed = 1; seed <= 20; seed++) {
      const history = realHistory(seed, 120, 5);
      expect(linearizationProblem(history), `seed ${seed}`).toBeUndefined();
      const last = Math.max(...history.map(({ began }) => began)) + 100;
      const stale = [
        ...history,
        write("new", last, last + 1),
        write("newer", last + 2, last + 3),
        read("new", last + 4, last + 5),
      ];
      expect(linearizationProblem(stale), `seed ${seed}`).toContain("read new");
    }
  });
});
