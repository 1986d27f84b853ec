import { sql } from "kysely";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { appendChange, type ChangeSubscriber } from "./changes/change-log.ts";
import { isVisibleIn, parseSnapshot, RowCounts } from "./row-counts.ts";
import { interposed, type TestStore, testStore } from "./testing/test-store.ts";

describe("a snapshot", () => {
  it("shows what ended before it, and neither what was open nor what came later", () => {
    const snapshot = parseSnapshot("100:105:102,104");
    const shown = [99n, 100n, 101n, 102n, 103n, 104n, 105n].filter((xid) => isVisibleIn(snapshot, xid));
    expect(shown).toEqual([99n, 100n, 101n, 103n]);
    expect(isVisibleIn(parseSnapshot("7:7:"), 6n)).toBe(true);
    expect(isVisibleIn(parseSnapshot("7:7:"), 7n)).toBe(false);
  });
});

describe("counts of rows", () => {
  let test: TestStore;
  beforeAll(async () => {
    test = await testStore();
  });
  afterAll(() => test.drop());

  const add = (id: string) =>
    test.store.transaction(async (trx) => {
      await trx.insertInto("service").values({ id, name: id, encryption_required: true }).execute();
      await appendChange(trx, { kind: "service", key: id, op: "create" });
    });
  const remove = (id: string) =>
    test.store.transaction(async (trx) => {
      await trx.deleteFrom("service").where("id", "=", id).execute();
      await appendChange(trx, { kind: "service", key: id, op: "delete" });
    });
  const counted = async () => {
    const { rows } = await sql<{ count: string }>`SELECT count(*) FROM service`.execute(test.store.db);
    return Number(rows[0]?.count);
  };

  it("include every write that was answered before the question, and stay exact under concurrent writers", async () => {
    // Several, begun at different moments: each counts the table in the middle of the writing.
    const all: RowCounts[] = [new RowCounts(test.store)];
    const writer = async (name: string) => {
      for (let n = 0; n < 25; n++) {
        await add(`${name}-${n}`);
        if (n % 3 === 0) await remove(`${name}-${n}`);
        if (n % 10 === 5) all.push(new RowCounts(test.store));
        for (const counts of all) expect(await counts.of("service")).toBeGreaterThan(0);
      }
    };
    await add("first");
    await Promise.all(["a", "b", "c", "d"].map(writer));
    const expected = await counted();
    expect(expected).toBe(1 + 4 * 16);
    for (const counts of all) expect(await counts.of("service")).toBe(expected);
    await add("last");
    expect(await all[0]?.of("service")).toBe(expected + 1);
    await remove("last");
    expect(await all[0]?.of("service")).toBe(expected);
  });

  it("are taken again when changes were lost while they were taken", async () => {
    const before = await counted();
    let reader: ChangeSubscriber | undefined;
    const changes = {
      subscribe: (subscriber: ChangeSubscriber) => {
        reader = subscriber;
        return () => undefined;
      },
      noticed: async () => undefined,
    };
    const counting = Promise.withResolvers<void>();
    const gate = Promise.withResolvers<void>();
    const db = interposed(test.store, async (_text, run) => {
      const answer = await run();
      counting.resolve();
      await gate.promise;
      return answer;
    });
    const counts = new RowCounts({ db, changes });
    const first = counts.of("service");
    await counting.promise;
    await add("lost");
    // Of which the log tells nothing.
    await reader?.onReset("");
    const second = counts.of("service");
    gate.resolve();
    expect(await first).toBe(before);
    expect(await second).toBe(before + 1);
    expect(await counts.of("service")).toBe(before + 1);
  });
});
