import { expect, test } from "vitest";
import { turn } from "./event-loop.ts";

test("of those who wait for a turn of their own, each gets another one, in order", async () => {
  const got: string[] = [];
  let loop = 0;
  let running = true;
  const count = (): void => {
    loop += 1;
    if (running) setImmediate(count);
  };
  setImmediate(count);
  const waiters = ["a", "b", "c"].map(async (name) => {
    await turn();
    got.push(`${name}${loop}`);
  });
  await Promise.all(waiters);
  running = false;
  expect(got.map((each) => each[0])).toEqual(["a", "b", "c"]);
  expect(new Set(got.map((each) => each.slice(1))).size).toBe(3);
});
