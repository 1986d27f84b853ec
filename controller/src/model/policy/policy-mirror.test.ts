import { silentLogger } from "@sallyport/wire";
import { sql } from "kysely";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { appendChange, type Change } from "../../store/changes/change-log.ts";
import { pruneChanges } from "../../store/changes/change-log-reads.ts";
import { openStore, type Store } from "../../store/database.ts";
import { settled, type TestStore, testStore } from "../../store/testing/test-store.ts";
import { seed } from "../seeds.ts";
import { testContext } from "../testing/test-context.ts";
import { PolicyMirror } from "./policy-mirror.ts";

const ann = { id: "ann", attrs: ["sales"] };
const bob = { id: "bob", attrs: ["it"] };

describe("the policy mirror", () => {
  let test: TestStore;
  let mirror: PolicyMirror;
  const began = new Date();

  beforeAll(async () => {
    test = await testStore();
    await seed(test.store);
    await write(
      "service",
      "web",
      "create",
      sql`INSERT INTO service (id, name, encryption_required, attrs) VALUES ('web', 'web', true, '{web}')`,
    );
    mirror = new PolicyMirror(testContext(test.store));
    await mirror.current();
  });
  afterAll(async () => {
    mirror.close();
    await test.drop();
  });

  async function write(
    kind: string,
    key: string,
    op: Change["op"],
    statement: ReturnType<typeof sql>,
    before?: Change["before"],
  ): Promise<void> {
    await test.store.transaction(async (trx) => {
      await statement.execute(trx);
      await appendChange(trx, { kind, key, op, before: before ?? null });
    });
  }

  const times = async () => {
    await settled(test.store);
    return [await mirror.lastChange(ann, began), await mirror.lastChange(bob, began)].map(Number);
  };

  it("answers with everything that was committed before the question", async () => {
    expect((await mirror.current()).accessTo(ann, "web")?.permissions).toBeUndefined();
    const [annBefore, bobBefore] = await times();
    await write(
      "service_policy",
      "p",
      "create",
      sql`INSERT INTO service_policy (id, name, type, semantic, identity_attrs, service_attrs) VALUES ('p', 'p', 'Dial', 'AnyOf', '{sales}', '{web}')`,
    );
    expect((await mirror.current()).accessTo(ann, "web")?.permissions).toContain("Dial");
    expect((await mirror.current()).accessTo(bob, "web")?.permissions).toBeUndefined();
    const [annAfter, bobAfter] = await times();
    expect(annAfter).not.toBe(annBefore);
    expect(bobAfter).toBe(bobBefore);
  });

  it("follows services, and tells whom it concerns, before and after", async () => {
    const [annBefore, bobBefore] = await times();
    await write("service", "web", "update", sql`UPDATE service SET attrs = '{other}' WHERE id = 'web'`, {
      attrs: ["web"],
    });
    expect((await mirror.current()).servicesOf(ann)).toEqual([]);
    const [annAfter, bobAfter] = await times();
    expect(annAfter).not.toBe(annBefore);
    expect(bobAfter).toBe(bobBefore);
    await write("service", "web", "update", sql`UPDATE service SET attrs = '{web}' WHERE id = 'web'`, {
      attrs: ["other"],
    });
    expect((await mirror.current()).servicesOf(ann)).toEqual(["web"]);
  });

  it("follows routers and their policies", async () => {
    await write("router", "r1", "create", sql`INSERT INTO router (id, name, attrs) VALUES ('r1', 'r1', '{public}')`);
    await write(
      "edge_router_policy",
      "e",
      "create",
      sql`INSERT INTO edge_router_policy (id, name, semantic, identity_all, router_attrs) VALUES ('e', 'e', 'AnyOf', true, '{public}')`,
    );
    await write(
      "service_edge_router_policy",
      "x",
      "create",
      sql`INSERT INTO service_edge_router_policy (id, name, semantic, service_all, router_all) VALUES ('x', 'x', 'AnyOf', true, true)`,
    );
    expect((await mirror.current()).routersFor(ann, "web")).toEqual(["r1"]);
    await write("router", "r1", "update", sql`UPDATE router SET attrs = '{}' WHERE id = 'r1'`);
    expect((await mirror.current()).routersFor(ann, "web")).toEqual([]);
  });

  it("tells those who lose a policy", async () => {
    const [annBefore, bobBefore] = await times();
    await write("service_policy", "p", "delete", sql`DELETE FROM service_policy WHERE id = 'p'`);
    expect((await mirror.current()).accessTo(ann, "web")?.permissions).toBeUndefined();
    const [annAfter, bobAfter] = await times();
    expect(annAfter).not.toBe(annBefore);
    expect(bobAfter).toBe(bobBefore);
  });

  it("reloads when changes were pruned before it read them", async () => {
    const late = new PolicyMirror(testContext(test.store));
    await late.current();
    // Written behind the log's back, so that only a new load can show it.
    await sql`INSERT INTO service_policy (id, name, type, semantic, identity_all, service_all) VALUES ('q', 'q', 'Bind', 'AnyOf', true, true)`.execute(
      test.store.db,
    );
    expect((await late.current()).accessTo(bob, "web")?.permissions).toBeUndefined();
    await test.store.pool.query(`
      WITH w AS (INSERT INTO change_log (kind, key, op) VALUES ('x', 'x', 'create') RETURNING xid)
      INSERT INTO setting (name, value) SELECT 'change-log-pruned', to_jsonb(xid::text) FROM w ON CONFLICT (name) DO UPDATE SET value = excluded.value`);
    await pruneChanges(test.store.db as never, 0);
    expect((await late.current()).accessTo(bob, "web")?.permissions).toContain("Bind");
    late.close();
  });
});

describe("the time at which services changed", () => {
  let test: TestStore;
  let other: Store;
  beforeAll(async () => {
    test = await testStore();
    await seed(test.store);
    other = await openStore({ connection: test.store.connection, hold: false, poolSize: 4, log: silentLogger });
  });
  afterAll(async () => {
    await other.close();
    await test.drop();
  });

  it("is the same from two controllers, whichever started later and whatever it missed, and never goes back", async () => {
    const began = new Date();
    const times: number[][] = [];
    const ask = async (...mirrors: PolicyMirror[]) => {
      await settled(test.store);
      times.push(await Promise.all(mirrors.map(async (mirror) => Number(await mirror.lastChange(ann, began)))));
    };
    const stored = () =>
      test.store.transaction(async (trx) => {
        await sql`UPDATE service SET attrs = '{}'`.execute(trx);
        await appendChange(trx, { kind: "identity", key: "ann", op: "update" });
      });
    const first = new PolicyMirror(testContext(test.store));
    await first.current();
    await ask(first);
    await stored();
    await ask(first);
    // It does not know of that change: the log may have been pruned meanwhile.
    const second = new PolicyMirror(testContext(other));
    await second.current();
    await ask(first, second);
    await stored();
    await ask(second, first);
    await first.renew();
    await ask(first, second);
    first.close();
    second.close();
    const seen = times.map(([one, two = one]) => {
      expect(two).toBe(one);
      return one ?? 0;
    });
    // Within a second, the order of two times says nothing.
    const seconds = seen.map((each) => Math.floor(each / 1_000));
    expect(seconds.toSorted((a, b) => a - b)).toEqual(seconds);
    expect(new Set(seen).size).toBe(seen.length);
  });
});
