import type { ApiSessionRecord } from "@sallyport/wire";
import { describe, expect, it } from "vitest";
import { KnownApiSessions } from "./api-sessions.ts";
import { SessionSync, SYNC_DEADLINE_MS } from "./session-sync.ts";

const session = (id: string, certFingerprints: string[] = []): ApiSessionRecord => ({
  id,
  token: `token-${id}`,
  identityId: "i",
  certFingerprints,
});
const sessions = (...ids: string[]) => ids.map((id) => session(id));

function setUp(...known: string[]) {
  const table = new KnownApiSessions();
  table.add(sessions(...known));
  const removed: string[] = [];
  table.onRemoved((gone) => removed.push(gone.id));
  return { table, removed, sync: new SessionSync(table) };
}

describe("a full synchronisation", () => {
  it("makes sessions usable before it ends, and removes only at its end", () => {
    const { table, removed, sync } = setUp("a", "b");
    expect(sync.chunk({ id: "s1", sequence: 0, isLast: false }, sessions("c"), 0)).toBe(false);
    expect(table.get("token-c")?.id).toBe("c");
    expect(removed).toEqual([]);
    expect(sync.chunk({ id: "s1", sequence: 1, isLast: true }, sessions("b"), 0)).toBe(true);
    expect(removed).toEqual(["a"]);
  });

  it("ends when sequences 0 to last are there, in any order", () => {
    const { removed, sync } = setUp("a");
    expect(sync.chunk({ id: "s1", sequence: 2, isLast: true }, sessions("e"), 0)).toBe(false);
    expect(sync.chunk({ id: "s1", sequence: 0, isLast: false }, sessions("c"), 0)).toBe(false);
    expect(sync.chunk({ id: "s1", sequence: 0, isLast: false }, sessions("c"), 0)).toBe(false);
    expect(sync.chunk({ id: "s1", sequence: 1, isLast: false }, sessions("d"), 0)).toBe(true);
    expect(removed).toEqual(["a"]);
  });

  it("keeps sessions with greater ids than the greatest listed one, and those added meanwhile", () => {
    const { removed, sync } = setUp("b", "z");
    sync.chunk({ id: "s1", sequence: 0, isLast: false }, sessions("m"), 0);
    sync.added(sessions("a"));
    sync.chunk({ id: "s1", sequence: 1, isLast: true }, [], 0);
    expect(removed).toEqual(["b"]);
  });

  it("removes all when the list is empty", () => {
    const { removed, sync } = setUp("a", "z");
    sync.chunk({ id: "s1", sequence: 0, isLast: true }, [], 0);
    expect(removed).toEqual(["a", "z"]);
  });

  it("is replaced by one with a greater id; a smaller one only adds", () => {
    const { table, removed, sync } = setUp("a");
    sync.chunk({ id: "s2", sequence: 0, isLast: false }, sessions("m"), 0);
    expect(sync.chunk({ id: "s1", sequence: 0, isLast: true }, sessions("n"), 0)).toBe(false);
    expect([removed, table.get("token-n")?.id]).toEqual([[], "n"]);
    expect(sync.chunk({ id: "s3", sequence: 0, isLast: true }, sessions("p"), 0)).toBe(true);
    expect(removed).toEqual(["a", "m", "n"]);
  });

  it("expires 20 s after its first chunk", () => {
    const { removed, sync } = setUp("a");
    sync.chunk({ id: "s1", sequence: 0, isLast: false }, [], 1000);
    expect(sync.expire(1000 + SYNC_DEADLINE_MS - 1)).toBe(false);
    expect(sync.expire(1000 + SYNC_DEADLINE_MS)).toBe(true);
    expect([sync.isRunning, removed]).toEqual([false, []]);
  });
});

describe("waiting for a session", () => {
  it("ends with the session, with nothing after the time, or with the signal's reason", async () => {
    const { table } = setUp();
    const found = table.wait("token-a", { timeoutMs: 5000 });
    const never = table.wait("token-b", { timeoutMs: 5 });
    const controller = new AbortController();
    const aborted = table.wait("token-c", { timeoutMs: 5000, signal: controller.signal });
    controller.abort(new Error("enough"));
    await expect(aborted).rejects.toThrow("enough");
    table.add(sessions("a"));
    expect((await found)?.id).toBe("a");
    expect(await never).toBeUndefined();
  });

  it("tells of other fingerprints only when they changed", () => {
    const { table } = setUp("a");
    const updated: string[] = [];
    table.onUpdated((changed) => updated.push(changed.certFingerprints.join()));
    table.add([session("a")]);
    table.add([session("a", ["f1"])]);
    expect(updated).toEqual(["f1"]);
  });
});
