import { once } from "node:events";
import { setTimeout as delay } from "node:timers/promises";
import { silentLogger } from "@sallyport/wire";
import { type Kysely, sql } from "kysely";
import pg from "pg";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { openStore, type Store } from "../database.ts";
import type { EngineTables } from "../schema.ts";
import { settled, type TestStore, testDatabase, testStore } from "../testing/test-store.ts";
import { ChangeHints } from "./change-hints.ts";
import { appendChange, ChangeLog } from "./change-log.ts";
import { currentSnapshot, pruneChanges, readChanges } from "./change-log-reads.ts";

describe("the change log", () => {
  let test: TestStore;
  let store: Store;
  let engine: Kysely<EngineTables>;

  beforeAll(async () => {
    test = await testStore();
    store = test.store;
    engine = store.db as unknown as Kysely<EngineTables>;
  });
  beforeEach(() => store.changes.caughtUp());
  afterAll(() => test.drop());

  it("gives a tailing reader every change of eight concurrent writers once, in spite of late commits", async () => {
    const seen = new Map<string, number>();
    const stop = store.changes.subscribe({
      name: "tail",
      onChanges: (rows) => {
        for (const { kind, key } of rows) if (kind === "tail") seen.set(key, (seen.get(key) ?? 0) + 1);
      },
      onReset: () => expect.unreachable("nothing was pruned"),
    });
    let reading = true;
    const reader = (async () => {
      while (reading) await store.changes.caughtUp();
    })();
    const perWriter = 100;
    const writers = Array.from({ length: 8 }, async (_, writer) => {
      for (let i = 0; i < perWriter; i++) {
        await store.db.transaction().execute(async (trx) => {
          await appendChange(trx, { kind: "tail", key: `${writer}.${i}.a`, op: "create" });
          if (i % 3 === 0) await delay(3);
          await appendChange(trx, { kind: "tail", key: `${writer}.${i}.b`, op: "update" });
        });
      }
    });
    await Promise.all(writers);
    reading = false;
    await reader;
    await store.changes.caughtUp();
    stop();
    expect(seen.size).toBe(8 * perWriter * 2);
    expect([...seen.values()].every((times) => times === 1)).toBe(true);
  });

  it("counts nothing as noticed until a prompt reader has loaded again what was lost", async () => {
    const { promise: loaded, resolve: load } = Promise.withResolvers<void>();
    const { promise: began, resolve: begin } = Promise.withResolvers<void>();
    let tries = 0;
    const stop = store.changes.subscribe({
      name: "prompt",
      isPrompt: true,
      onChanges: () => undefined,
      onReset: async () => {
        tries += 1;
        begin();
        await loaded;
        if (tries === 1) throw new Error("the first try fails");
      },
    });
    const restarted = store.changes.restart();
    await began;
    let isNoticed = false;
    const noticed = store.changes.noticed().then(() => {
      isNoticed = true;
    });
    await currentSnapshot(engine);
    expect(isNoticed).toBe(false);
    load();
    await restarted;
    await noticed;
    expect(tries).toBe(2);
    stop();
  });

  it("shows a transaction that began before and committed after another read", async () => {
    let release: () => void = () => undefined;
    const gate = new Promise<void>((open) => {
      release = open;
    });
    let written: () => void = () => undefined;
    const wrote = new Promise<void>((open) => {
      written = open;
    });
    const before = await currentSnapshot(engine);
    const slow = store.db.transaction().execute(async (trx) => {
      await appendChange(trx, { kind: "late", key: "slow", op: "create", before: { attrs: ["a"] } });
      written();
      await gate;
    });
    await wrote;
    await appendChange(engine, { kind: "late", key: "fast", op: "create" });
    const first = await readChanges(engine, before);
    expect(first.rows.map((row) => row.key)).toEqual(["fast"]);
    release();
    await slow;
    const second = await readChanges(engine, first.snapshot);
    expect(second.rows).toMatchObject([{ key: "slow", op: "create", before: { attrs: ["a"] } }]);
    expect(second.rows[0]?.at).toBeInstanceOf(Date);
    expect((await readChanges(engine, second.snapshot)).rows).toEqual([]);
  });

  it("hands each change to every subscriber, and lets one that failed reload", async () => {
    const good: string[] = [];
    let resets = 0;
    const stops = [
      store.changes.subscribe({
        name: "failing",
        onChanges: () => {
          throw new Error("no");
        },
        onReset: () => {
          resets++;
        },
      }),
      store.changes.subscribe({
        name: "good",
        onChanges: (rows) => void good.push(...rows.map((r) => r.key)),
        onReset: () => undefined,
      }),
    ];
    await store.transaction((trx) => appendChange(trx, { kind: "many", key: "one", op: "create" }));
    await store.changes.caughtUp();
    for (const stop of stops) stop();
    expect(good).toEqual(["one"]);
    expect(resets).toBe(1);
  });

  it("gives a reader that reloads, after it could not at first, what is written meanwhile", async () => {
    const known = { loads: 0, hasFailed: false, later: [] as string[] };
    let loaded: () => void = () => undefined;
    const gate = new Promise<void>((open) => {
      loaded = open;
    });
    let began: () => void = () => undefined;
    const isLoading = new Promise<void>((open) => {
      began = open;
    });
    const stop = store.changes.subscribe({
      name: "loading",
      onChanges: (rows) => {
        if (!known.hasFailed) throw new Error("no");
        known.later.push(...rows.map((row) => row.key));
      },
      onReset: async () => {
        if (!known.hasFailed) {
          known.hasFailed = true;
          throw new Error("not now");
        }
        // What was written before is in what it loads now, what comes from here on is not.
        known.loads++;
        began();
        await gate;
      },
    });
    await store.transaction((trx) => appendChange(trx, { kind: "loading", key: "before", op: "create" }));
    await isLoading;
    await store.transaction((trx) => appendChange(trx, { kind: "loading", key: "meanwhile", op: "create" }));
    await store.changes.noticed();
    loaded();
    await store.changes.caughtUp();
    stop();
    expect(known).toEqual({ loads: 1, hasFailed: true, later: ["meanwhile"] });
  });

  it("is pruned by age in batches, and says so to a reader who is behind", async () => {
    const before = await currentSnapshot(engine);
    await appendChange(
      engine,
      ...Array.from({ length: 25 }, (_, i) => ({ kind: "old", key: `${i}`, op: "create" as const })),
    );
    await sql`UPDATE change_log SET at = at - interval '2 hours'`.execute(engine);
    await settled(store);
    await appendChange(engine, { kind: "new", key: "stays", op: "create" });
    const now = await currentSnapshot(engine);
    expect(await pruneChanges(engine, 3_600, 10)).toBeGreaterThanOrEqual(25);
    const { rows } = await sql<{ key: string }>`SELECT key FROM change_log`.execute(engine);
    expect(rows).toEqual([{ key: "stays" }]);
    expect(await readChanges(engine, before)).toMatchObject({ reset: true, rows: [] });
    expect(await readChanges(engine, now)).toMatchObject({ reset: false, rows: [] });
  });

  it("asks a reader that is too far behind to reload", async () => {
    await settled(store);
    const before = await currentSnapshot(engine);
    await appendChange(engine, ...[1, 2, 3].map((i) => ({ kind: "far", key: `${i}`, op: "create" as const })));
    expect((await readChanges(engine, before, 3)).rows).toHaveLength(3);
    expect((await readChanges(engine, before, 2)).reset).toBe(true);
  });

  it("reaches another process's readers by a hint, long before they look by themselves", async () => {
    const follower = new ChangeLog({ db: engine, pollMs: 3_600_000, log: silentLogger });
    await settled(store);
    await follower.start();
    const heard = new Promise<string[]>((answer) => {
      follower.subscribe({
        name: "hinted",
        onChanges: (rows) => answer(rows.map((row) => row.key)),
        onReset: () => answer([]),
      });
    });
    const hints = new ChangeHints({
      connection: test.connection,
      answerMs: 5_000,
      onHint: () => void follower.wake(),
      log: silentLogger,
    });
    await hints.start();
    await store.transaction((trx) => appendChange(trx, { kind: "hint", key: "hinted", op: "create" }));
    expect(await heard).toEqual(["hinted"]);
    await hints.close();
    await follower.close();
  });

  it("is hinted at by a command, which ends as soon as it has written", async () => {
    const database = await testDatabase();
    const listener = new pg.Client(database.connection);
    await listener.connect();
    await listener.query("LISTEN sallyport_change");
    const hinted = once(listener, "notification");
    const command = await openStore({ connection: database.connection, hold: false, log: silentLogger });
    await command.transaction((trx) => appendChange(trx, { kind: "hint", key: "told", op: "create" }));
    await command.close();
    await hinted;
    await listener.end();
    await database.drop();
  });
});
