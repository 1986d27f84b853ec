import { silentLogger } from "@sallyport/wire";
import { afterEach, expect, it, vi } from "vitest";
import type { ChangeSubscriber } from "../store/changes/change-log.ts";
import type { ChangeRow } from "../store/changes/change-log-reads.ts";
import { MAX_ROWS, SessionRows } from "./session-rows.ts";

/** A change log that is told by the test what was written. */
class ScriptedLog {
  readonly position = "";
  readonly #subscribers: ChangeSubscriber[] = [];
  subscribe(subscriber: ChangeSubscriber): () => void {
    this.#subscribers.push(subscriber);
    return () => undefined;
  }
  async noticed(): Promise<void> {}
  async caughtUp(): Promise<void> {}
  async wake(): Promise<void> {}
  tell(kind: string, key: string, op: ChangeRow["op"] = "update", before: ChangeRow["before"] = null): void {
    const row: ChangeRow = { seq: "1", xid: "1", at: new Date(), kind, key, op, before };
    for (const subscriber of this.#subscribers) void subscriber.onChanges([row], "");
  }
}

function harness() {
  const log = new ScriptedLog();
  const reads: string[] = [];
  let whileReading = (): void => undefined;
  let isComparable = true;
  let compared = 0;
  const errors: object[] = [];
  /** What the database has of a row; the test changes it. */
  const stored = new Map<string, { config_types: string[] } | undefined>();
  const rowOf = (token: string) => {
    const { config_types = [] } = stored.get(token) ?? {};
    const [id, identity_id] = [`session of ${token}`, `identity of ${token}`];
    return { id, token, identity_id, config_types, last_activity_at: new Date() };
  };
  const rows = new SessionRows({
    changes: log,
    load: async (token) => {
      reads.push(token);
      await Promise.resolve();
      whileReading();
      return token.startsWith("none") ? undefined : rowOf(token);
    },
    loadAll: async (tokens) => {
      if (!isComparable) throw new Error("no answer");
      compared += tokens.length;
      const found = tokens.filter((token) => !stored.has(token) || stored.get(token) !== undefined).map(rowOf);
      whileReading();
      return found;
    },
    log: { ...silentLogger, error: (fields: object) => void errors.push(fields) },
  });
  return {
    log,
    rows,
    reads,
    errors,
    stored,
    compared: () => compared,
    neverCompared: () => {
      isComparable = false;
    },
    duringTheNextRead: (work: () => void) => {
      whileReading = () => {
        whileReading = () => undefined;
        work();
      };
    },
  };
}

it("a row is read once, until its session or its identity changes", async () => {
  const { log, rows, reads } = harness();
  await rows.find("t");
  await rows.find("t");
  expect(reads).toHaveLength(1);
  log.tell("identity", "identity of another");
  log.tell("service", "session of t");
  log.tell("api_session", "session of t", "create");
  await rows.find("t");
  expect(reads).toHaveLength(1);
  log.tell("api_session", "session of t", "delete");
  await rows.find("t");
  expect(reads).toHaveLength(2);
  log.tell("identity", "identity of t");
  await rows.find("t");
  expect(reads).toHaveLength(3);
});

it.each(["auth_policy", "ext_jwt_signer"])("a change of an %s concerns every row", async (kind) => {
  const { log, rows, reads } = harness();
  await rows.find("t");
  await rows.find("u");
  log.tell(kind, "any");
  await rows.find("t");
  await rows.find("u");
  expect(reads).toEqual(["t", "u", "t", "u"]);
});

it("what changes while it is being read is not kept", async () => {
  const { log, rows, reads, duringTheNextRead } = harness();
  await rows.find("other");
  duringTheNextRead(() => log.tell("api_session", "session of t", "delete"));
  await rows.find("t");
  await rows.find("t");
  expect(reads).toEqual(["other", "t", "t"]);
});

it("unknown tokens take no room", async () => {
  const { rows, reads } = harness();
  await rows.find("none");
  await rows.find("none");
  expect(reads).toHaveLength(2);
});

it("an enrollment of one-time codes that goes concerns the rows of its identity", async () => {
  const { log, rows, reads } = harness();
  await rows.find("t");
  log.tell("mfa", "m", "delete", { identityId: "identity of another" });
  log.tell("mfa", "m", "update");
  await rows.find("t");
  log.tell("mfa", "m", "delete", { identityId: "identity of t" });
  await rows.find("t");
  expect(reads).toEqual(["t", "t"]);
});

afterEach(() => {
  vi.useRealTimers();
});

it("10,000 rows that are in use are read once, and compared with the database from then on", async () => {
  vi.useFakeTimers({ toFake: ["performance"] });
  const { rows, reads, compared } = harness();
  const tokens = Array.from({ length: 10_000 }, (_, i) => `t${i}`);
  for (const token of tokens) await rows.find(token);
  const before = compared();
  for (let quarter = 0; quarter < 4 * 30; quarter++) {
    vi.advanceTimersByTime(15_001);
    for (let at = quarter % 10; at < tokens.length; at += 10) await rows.find(`t${at}`);
  }
  expect(reads).toHaveLength(10_000);
  // Each at least every five minutes, and a thousand at once.
  expect(compared() - before).toBeGreaterThan(6 * 10_000);
  expect(compared() - before).toBeLessThanOrEqual(4 * 30 * 1_000);
});

it("a row that is not compared is read again after ten minutes at the latest, not all at the same time", async () => {
  vi.useFakeTimers({ toFake: ["performance"] });
  const { rows, reads, neverCompared } = harness();
  neverCompared();
  const tokens = Array.from({ length: 100 }, (_, i) => `t${i}`);
  const readAll = async () => {
    for (const token of tokens) await rows.find(token);
    return reads.splice(0).length;
  };
  expect(await readAll()).toBe(100);
  vi.advanceTimersByTime(8.9 * 60_000);
  expect(await readAll()).toBe(0);
  vi.advanceTimersByTime(1.1 * 60_000);
  const some = await readAll();
  expect(some).toBeGreaterThan(10);
  expect(some).toBeLessThan(90);
  vi.advanceTimersByTime(11 * 60_000);
  expect(await readAll()).toBe(100);
});

it("so many rows are kept, the oldest give way", async () => {
  const { rows, reads } = harness();
  for (let i = 0; i <= MAX_ROWS; i++) await rows.find(`t${i}`);
  reads.length = 0;
  await rows.find("t1");
  await rows.find("t0");
  expect(reads).toEqual(["t0"]);
});

it("a row that differs from the database, with no change in the log, is reported and read again", async () => {
  vi.useFakeTimers({ toFake: ["performance"] });
  const { log, rows, reads, errors, stored, duringTheNextRead } = harness();
  for (const token of ["same", "changed", "gone", "late"]) await rows.find(token);
  stored.set("changed", { config_types: ["all"] });
  stored.set("gone", undefined);
  await rows.find("same");
  expect(errors).toEqual([]);
  vi.advanceTimersByTime(61_000);
  stored.set("late", { config_types: ["all"] });
  // This one has only just been committed.
  duringTheNextRead(() => log.tell("api_session", "session of late"));
  await rows.find("same");
  await vi.waitFor(() => expect(errors).toHaveLength(2));
  const ofIds = (...tokens: string[]) =>
    tokens.map((token) => ({ apiSessionId: `session of ${token}`, identityId: `identity of ${token}` }));
  expect(errors).toEqual(ofIds("changed", "gone"));
  reads.length = 0;
  for (const token of ["same", "changed", "gone", "late"]) await rows.find(token);
  expect(reads).toEqual(["changed", "gone", "late"]);
});
