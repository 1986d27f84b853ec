import { expect, test } from "vitest";
import type { Underlay } from "../channel/channel.ts";
import { FairOutput, type Waiter } from "./fair-output.ts";

/** A connection whose room the test decides. */
function connection() {
  let drained: (() => void)[] = [];
  const state = { room: 0, isClosed: false };
  const output = {
    get isFull() {
      return state.room <= 0;
    },
    onDrain: (cb: () => void) => drained.push(cb),
  };
  const underlay = {
    output,
    get isClosed() {
      return state.isClosed;
    },
  } as unknown as Underlay;
  const drain = (room: number): void => {
    state.room = room;
    const callbacks = drained;
    drained = [];
    for (const cb of callbacks) cb();
  };
  return { fair: new FairOutput(underlay), state, drain };
}

function waiter(takeTurn: () => boolean): Waiter & { readonly turns: number[] } {
  const turns: number[] = [];
  return {
    turns,
    takeTurn() {
      turns.push(turns.length);
      return takeTurn();
    },
    outputGone() {},
  };
}

test("a waiter that asks again during its turn has another one, whatever it answers", () => {
  const { fair, state, drain } = connection();
  const one = waiter(() => {
    state.room--;
    if (one.turns.length === 1) fair.wait(one);
    return false;
  });
  fair.wait(one);
  drain(1);
  expect([one.turns.length, fair.waiting]).toEqual([1, 1]);
  drain(5);
  expect([one.turns.length, fair.waiting, fair.isFull]).toEqual([2, 0, false]);
});

test("a turn that fails costs the others nothing", () => {
  const { fair, state, drain } = connection();
  const bad = waiter(() => {
    throw new Error("cannot write");
  });
  const good = waiter(() => {
    state.room--;
    return false;
  });
  fair.wait(bad);
  fair.wait(good);
  expect(() => drain(5)).toThrow("cannot write");
  drain(5);
  expect([bad.turns.length, good.turns.length, fair.waiting]).toEqual([1, 1, 0]);
});
