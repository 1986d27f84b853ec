import { afterEach, beforeEach, expect, it } from "vitest";
import { type TestStore, testStore } from "../testing/test-store.ts";
import { appendChange, ChangeLog } from "./change-log.ts";
import type { ChangeRow } from "./change-log-reads.ts";

const NEVER_MS = 1e9;
const log = { debug() {}, info() {}, warn() {}, error() {} };

let test: TestStore;
let changes: ChangeLog;

beforeEach(async () => {
  test = await testStore();
  changes = new ChangeLog({
    db: test.store.db as never,
    isTold: () => true,
    pollMs: NEVER_MS,
    pruneEveryMs: NEVER_MS,
    log,
  });
  await changes.start();
  await changes.caughtUp();
});
afterEach(async () => {
  await changes.close();
  await test.drop();
});

it("a sole writer's log is read only after a write was announced, and then before any caller goes on", async () => {
  const seen: string[] = [];
  changes.subscribe({
    name: "test",
    onChanges: (rows: readonly ChangeRow[]) => void seen.push(...rows.map((row) => row.key)),
    onReset: () => undefined,
  });
  await appendChange(test.store.db as never, { kind: "service", key: "untold", op: "create" });
  await changes.caughtUp();
  expect(seen).toEqual([]);
  changes.poke();
  await changes.caughtUp();
  expect(seen).toEqual(["untold"]);
  await appendChange(test.store.db as never, { kind: "service", key: "hinted", op: "create" });
  await changes.wake();
  await changes.caughtUp();
  expect(seen).toEqual(["untold", "hinted"]);
});

it("prompt readers have a change before slow ones are done with an earlier one", async () => {
  let release = (): void => undefined;
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  const prompt: string[] = [];
  const slow: string[] = [];
  changes.subscribe({
    name: "slow",
    onChanges: async (rows: readonly ChangeRow[]) => {
      await held;
      slow.push(...rows.map((row) => row.key));
    },
    onReset: () => undefined,
  });
  changes.subscribe({
    name: "prompt",
    isPrompt: true,
    onChanges: (rows: readonly ChangeRow[]) => void prompt.push(...rows.map((row) => row.key)),
    onReset: () => undefined,
  });
  for (const key of ["one", "two"]) {
    await appendChange(test.store.db as never, { kind: "service", key, op: "create" });
    changes.poke();
    await changes.noticed();
  }
  expect(prompt).toEqual(["one", "two"]);
  expect(slow).toEqual([]);
  const before = changes.position;
  release();
  await changes.caughtUp();
  expect(slow).toEqual(["one", "two"]);
  expect(changes.position).not.toBe(before);
});
