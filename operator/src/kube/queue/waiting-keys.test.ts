import { expect, test } from "vitest";
import { FairShare } from "./waiting-keys.ts";

/** As many as each of the parties gets that take turns until none gets any more. */
function shares(places: number, parties: number): number[] {
  const share = new FairShare(places);
  const held = Array.from({ length: parties }, () => 0);
  for (let hasTaken = true; hasTaken; ) {
    hasTaken = false;
    for (const [index, count] of held.entries()) {
      if (!share.mayTake(String(index))) continue;
      share.take(String(index));
      held[index] = count + 1;
      hasTaken = true;
    }
  }
  return held;
}

test.each([
  [16, 1, [8]],
  [16, 2, [6, 5]],
  [16, 3, [4, 4, 4]],
  [16, 5, [3, 3, 3, 3, 2]],
  [8, 1, [4]],
  [1, 1, [1]],
  [3, 5, [1, 1, 1, 0, 0]],
])("of %i places, %i parties that want all get %j", (places, parties, expected) => {
  expect(shares(places, parties)).toEqual(expected);
});

test("however many parties want all, one that holds nothing gets a place as long as there are more places than parties", () => {
  for (let places = 2; places <= 40; places++) {
    for (let parties = 1; parties < places; parties++) {
      const taken = shares(places, parties).reduce((sum, each) => sum + each, 0);
      expect({ places, parties, isFull: taken === places }).toEqual({ places, parties, isFull: false });
    }
  }
});

test("what is given back is shared again: who holds more than its share gets nothing before the others have theirs", () => {
  const share = new FairShare(8);
  for (let i = 0; i < 4; i++) share.take("old");
  for (const party of ["new", "new"]) share.take(party);
  expect([share.taken, share.mayTake("old"), share.mayTake("new"), share.mayTake("third")]).toEqual([
    6,
    false,
    false,
    true,
  ]);
  share.giveBack("old");
  expect([share.mayTake("old"), share.mayTake("new")]).toEqual([false, true]);
  share.take("new");
  for (const party of ["old", "old", "old", "new", "new", "new"]) share.giveBack(party);
  expect([share.taken, share.mayTake("old")]).toEqual([0, true]);
});

test("places without number are there for all", () => {
  const share = new FairShare(Number.POSITIVE_INFINITY);
  for (let i = 0; i < 1_000; i++) share.take("one");
  expect(share.mayTake("one")).toBe(true);
});
