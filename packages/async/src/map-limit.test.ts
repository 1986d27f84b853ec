import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, test } from "vitest";
import { mapLimit } from "./map-limit.ts";

test.each([1, 2, 7, 100])("with a limit of %i the results are in the order of the items", async (limit) => {
  let running = 0;
  let most = 0;
  const results = await mapLimit([5, 4, 3, 2, 1, 0], limit, async (item, index) => {
    most = Math.max(most, ++running);
    for (let turn = 0; turn < item; turn++) await nextTurn();
    running--;
    return `${index}:${item}`;
  });
  expect(results).toEqual(["0:5", "1:4", "2:3", "3:2", "4:1", "5:0"]);
  expect(most).toBe(Math.min(limit, 6));
});

test("after an error no further item is begun", async () => {
  const begun: number[] = [];
  const work = mapLimit([1, 2, 3, 4], 2, async (item) => {
    begun.push(item);
    await nextTurn();
    if (item === 1) throw new Error("broken");
  });
  await expect(work).rejects.toThrow("broken");
  await nextTurn();
  expect(begun).toEqual([1, 2]);
});

test("no items, no work", async () => {
  expect(await mapLimit([], 3, async () => 1)).toEqual([]);
});
