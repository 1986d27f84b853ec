import { expect, test } from "vitest";
import { appendChange } from "../../store/changes/change-log.ts";
import { testStore } from "../../store/testing/test-store.ts";
import { ProxyingRouters } from "./attempt-limits.ts";

test("a certificate is asked for once in five seconds, however many attempts come with it, router or not", async () => {
  const asked: string[] = [];
  let now = 0;
  const routers = new ProxyingRouters(
    { subscribe: () => () => undefined },
    async (fingerprint) => {
      asked.push(fingerprint);
      return fingerprint === "router";
    },
    () => now,
  );
  const answers = await Promise.all(["router", "router", "other", "other"].map((each) => routers.has(each)));
  expect(answers).toEqual([true, true, false, false]);
  now = 4_999;
  expect(await routers.has("other")).toBe(false);
  expect(asked).toEqual(["router", "other"]);
  now = 5_000;
  expect(await routers.has("other")).toBe(false);
  expect(asked).toEqual(["router", "other", "other"]);
});

test("a failed answer is not kept, and the oldest of ten thousand goes", async () => {
  const asked: string[] = [];
  let isDown = true;
  const routers = new ProxyingRouters(
    { subscribe: () => () => undefined },
    async (fingerprint) => {
      if (isDown) throw new Error("down");
      asked.push(fingerprint);
      return true;
    },
    () => 0,
  );
  await expect(routers.has("a")).rejects.toThrow("down");
  isDown = false;
  expect(await routers.has("a")).toBe(true);
  for (let i = 1; i < 10_000; i++) await routers.has(`${i}`);
  await routers.has("a");
  expect(asked).toHaveLength(10_000);
  await routers.has("one more");
  await routers.has("a");
  expect(asked).toHaveLength(10_002);
});

test("a router that changes is asked for again at once, whichever controller has changed it", async () => {
  const { store, drop } = await testStore();
  let isEnabled = true;
  const routers = new ProxyingRouters(
    store.changes,
    async () => isEnabled,
    () => 0,
  );
  expect(await routers.has("router")).toBe(true);
  await store.changes.caughtUp();
  isEnabled = false;
  expect(await routers.has("router")).toBe(true);
  await appendChange(store.db, { kind: "router", key: "r1", op: "update" });
  await store.changes.wake();
  expect(await routers.has("router")).toBe(false);
  await drop();
});
