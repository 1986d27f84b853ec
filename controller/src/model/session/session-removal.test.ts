import { sql } from "kysely";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { ChangeRow } from "../../store/changes/change-log-reads.ts";
import { lockWaits, type TestStore, testStore } from "../../store/testing/test-store.ts";
import type { ModelContext } from "../context.ts";
import { createModel, type Model } from "../model.ts";
import type { Posture } from "../posture/posture.ts";
import { testContext } from "../testing/test-context.ts";
import { ApiSessions } from "./api-sessions.ts";
import { removeUnhosted } from "./lost-access.ts";
import { Sessions } from "./sessions.ts";

let test: TestStore;
let ctx: ModelContext;
beforeAll(async () => {
  test = await testStore();
  ctx = testContext(test.store);
});
afterAll(() => test.drop());
beforeEach(async () => {
  await test.store.pool.query(`
    DELETE FROM identity; DELETE FROM service; DELETE FROM service_policy; DELETE FROM change_log; DELETE FROM router; DELETE FROM auth_policy;
    INSERT INTO auth_policy (id, name, cert_allowed, cert_allow_expired, updb_allowed, ext_jwt_allowed) VALUES ('default', 'd', true, true, true, true);
    INSERT INTO identity (id, name, type_id, attrs) VALUES ('i', 'i', 'Default', '{a}');
    INSERT INTO service (id, name, encryption_required) VALUES ('v', 'v', false);
    INSERT INTO api_session (id, token, identity_id, authenticator_id, ip_address) VALUES ('a', 'a', 'i', 'x', '::1')`);
});

const session = sql`INSERT INTO session (id, token, api_session_id, identity_id, service_id, type) VALUES ('s', 'st', 'a', 'i', 'v', 'Bind')`;
const allow = () =>
  test.store.pool.query(
    `INSERT INTO service_policy (id, name, type, semantic, identity_attrs, service_all) VALUES ('p', 'p', 'Bind', 'AnyOf', '{a}', true)`,
  );
/** The store, with something that happens between a question and the transaction that follows. */
const interrupted = (what: () => Promise<unknown>): ModelContext => {
  const transaction: ModelContext["store"]["transaction"] = async (work) => {
    await what();
    return test.store.transaction(work);
  };
  return { ...ctx, store: { ...test.store, transaction } };
};
const logged = async () => {
  const { rows } = await test.store.pool.query("SELECT kind, key, op, before FROM change_log ORDER BY kind DESC");
  return rows;
};

it("a session that is being made while its API session ends is in the change log with its token", async () => {
  const ended = await test.store.transaction(async (trx) => {
    await session.execute(trx);
    const ended = new ApiSessions(ctx).delete("a");
    await lockWaits(test.store.db, 1);
    return { ended };
  });
  await ended.ended;
  expect(await logged()).toMatchObject([
    { kind: "session", key: "s", op: "delete", before: { token: "st", apiSessionId: "a" } },
    { kind: "api_session", key: "a", op: "delete", before: { token: "a", identityId: "i" } },
  ]);
});

it("so is one of a router's tunneler that is being made while the router is deleted", async () => {
  await test.store.pool.query(
    `INSERT INTO router (id, name, kind, is_tunneler_enabled) VALUES ('i', 'i', 'edge', true)`,
  );
  const { deleted } = await test.store.transaction(async (trx) => {
    await sql`SELECT 1 FROM identity WHERE id = 'i' FOR KEY SHARE`.execute(trx);
    await session.execute(trx);
    const deleted = createModel(ctx).routers.delete("i");
    await lockWaits(test.store.db, 1);
    return { deleted };
  });
  await deleted;
  expect(await logged()).toContainEqual(expect.objectContaining({ kind: "session", key: "s", op: "delete" }));
});

describe("what no policy allows ends, unless one allows it again meanwhile:", () => {
  it("a session", async () => {
    await session.execute(test.store.db);
    const sessions = new Sessions(interrupted(allow), {} as Posture);
    expect(await sessions.endUnauthorized()).toBe(0);
    await test.store.pool.query("DELETE FROM service_policy");
    expect(await new Sessions(ctx, {} as Posture).endUnauthorized()).toBe(1);
  });

  it("a terminator", async () => {
    await test.store.pool.query(`INSERT INTO router (id, name, kind) VALUES ('r', 'r', 'edge');
      INSERT INTO terminator (id, service_id, router_id, host_id, binding, address) VALUES ('t', 'v', 'r', 'i', 'edge', 't')`);
    expect(await removeUnhosted(interrupted(allow).store, sql`true`)).toBe(0);
    await test.store.pool.query("DELETE FROM service_policy");
    expect(await removeUnhosted(ctx.store, sql`true`)).toBe(1);
  });
});

describe("a removal of more terminators than the log hands out rows is told of each of them:", () => {
  const COUNT = 20_500;
  const removed = (changes: readonly ChangeRow[], of: string) =>
    changes.filter(({ kind, op }) => kind === of && op === "delete").map(({ key }) => key);
  const follow = () => {
    const changes: ChangeRow[] = [];
    let resets = 0;
    const onChanges = (rows: readonly ChangeRow[]) => void changes.push(...rows);
    const stop = test.store.changes.subscribe({ name: "test", onChanges, onReset: () => void resets++ });
    return async () => {
      await test.store.changes.caughtUp();
      stop();
      return { changes, resets };
    };
  };
  beforeEach(async () => {
    await test.store.pool.query(`DELETE FROM replica_lease; INSERT INTO router (id, name, kind) VALUES ('r', 'r', 'edge');
      INSERT INTO terminator (id, service_id, router_id, host_id, binding, address)
        SELECT 't' || n, 'v', 'r', 'i', 'edge', 't' FROM generate_series(1, ${COUNT}) AS n`);
    await test.store.changes.caughtUp();
  });

  it.each([
    ["router", "r", (model: Model) => model.routers.delete("r", "edge")],
    ["service", "v", (model: Model) => model.services.delete("v")],
  ] as const)("with their %s", async (kind, id, remove) => {
    const followed = follow();
    await remove(createModel(ctx));
    const { changes, resets } = await followed();
    expect(resets).toBe(0);
    const gone = removed(changes, "terminator");
    expect([gone.length, new Set(gone).size]).toEqual([COUNT, COUNT]);
    expect(changes[0]?.before).toEqual({ routerId: "r", serviceId: "v" });
    expect(changes.at(-1)).toMatchObject({ kind, key: id, op: "delete" });
    expect(new Set(changes.map(({ xid }) => xid)).size).toBe(1);
  });

  it("because their host may not host any more", async () => {
    const followed = follow();
    expect(await removeUnhosted(ctx.store, sql`true`)).toBe(COUNT);
    const { changes, resets } = await followed();
    expect([resets, removed(changes, "terminator").length]).toEqual([0, COUNT]);
  });

  it.each([
    [43, "1 second", 3],
    [43, "-29 seconds", 3],
    [43, "-31 seconds", 1],
    [44, "1 second", 1],
  ])("while a replica of schema level %d has a lease for %s: %d rows for three", async (level, until, expected) => {
    await test.store.pool.query(`DELETE FROM terminator WHERE id NOT IN ('t1', 't2', 't3');
      INSERT INTO replica_lease (instance, replica_id, name, pid, leads, until, level)
      VALUES ('x', 'x', 'x', 1, false, clock_timestamp() + interval '${until}', ${level})`);
    const followed = follow();
    await createModel(ctx).routers.delete("r");
    const { changes } = await followed();
    expect(removed(changes, "terminator")).toEqual(["t1", "t2", "t3"]);
    expect((await logged()).filter(({ kind }) => kind === "terminator")).toHaveLength(expected);
  });
});
