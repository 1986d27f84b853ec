import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, test } from "vitest";
import { SerialQueue } from "./serial-queue.ts";

test("tasks run one after the other, in their order, whatever the one before came to", async () => {
  const seen: string[] = [];
  const queue = new SerialQueue();
  const task = (name: string) => async () => {
    seen.push(`${name} begins`);
    await nextTurn();
    seen.push(`${name} ends`);
    if (name === "a") throw new Error("broken");
    return name;
  };
  const outcomes = await Promise.allSettled([queue.run(task("a")), queue.run(task("b")), queue.run(() => "c")]);
  expect(seen).toEqual(["a begins", "a ends", "b begins", "b ends"]);
  expect(outcomes.map((o) => (o.status === "fulfilled" ? o.value : String(o.reason)))).toEqual([
    "Error: broken",
    "b",
    "c",
  ]);
});

test("is idle when the tasks so far have ended", async () => {
  const queue = new SerialQueue();
  await queue.idle();
  let hasEnded = false;
  const failing = queue.run(async () => {
    await nextTurn();
    hasEnded = true;
    throw new Error("broken");
  });
  failing.catch(() => {});
  await queue.idle();
  expect(hasEnded).toBe(true);
});

test("a rejection that its caller leaves alone is an unhandled one", async () => {
  const unhandled = Promise.withResolvers<unknown>();
  const others = process.listeners("unhandledRejection");
  process.removeAllListeners("unhandledRejection").once("unhandledRejection", unhandled.resolve);
  void new SerialQueue().run(() => Promise.reject(new Error("broken")));
  expect(String(await unhandled.promise)).toBe("Error: broken");
  for (const each of others) process.on("unhandledRejection", each);
});
