import { sql } from "kysely";
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { type TestStore, testStore } from "../../store/testing/test-store.ts";
import type { Posture } from "../posture/posture.ts";
import { testContext } from "../testing/test-context.ts";
import { SessionCount } from "./session-count.ts";
import { oldestOfKind, Sessions } from "./sessions.ts";

let test: TestStore;
beforeAll(async () => {
  test = await testStore();
  await test.store.pool.query(`
    INSERT INTO auth_policy (id, name, cert_allowed, cert_allow_expired, updb_allowed, ext_jwt_allowed) VALUES ('default', 'd', true, true, true, true);
    INSERT INTO identity (id, name, type_id) VALUES ('i', 'i', 'Default'), ('j', 'j', 'Default');
    INSERT INTO service (id, name, encryption_required) SELECT 'v' || n, 'v' || n, false FROM generate_series(1, 9) n;
    INSERT INTO router (id, name, kind) VALUES ('r', 'r', 'edge');
    INSERT INTO api_session (id, token, identity_id, authenticator_id, ip_address)
      VALUES ('a', 'a', 'i', 'x', '::1'), ('b', 'b', 'i', 'x', '::1'), ('c', 'c', 'j', 'x', '::1');
    INSERT INTO service_policy (id, name, type, semantic, identity_all, service_all) VALUES ('p', 'p', 'Dial', 'AnyOf', true, true);
    INSERT INTO edge_router_policy (id, name, semantic, identity_all, router_all) VALUES ('q', 'q', 'AnyOf', true, true);
    INSERT INTO service_edge_router_policy (id, name, semantic, service_all, router_all) VALUES ('u', 'u', 'AnyOf', true, true)`);
});
afterAll(() => test.drop());
beforeEach(() => test.store.pool.query("DELETE FROM session"));

const MOST = 4;
function counted(now = () => 0) {
  const posture = { failures: async () => [] } as unknown as Posture;
  const made = new Sessions(testContext(test.store), posture, new SessionCount(MOST, now));
  const dial = async (apiSession: string, service: number, identity = "i") =>
    (
      await made.create(
        { id: apiSession, kind: "legacy" },
        { id: identity, attrs: [] },
        { serviceId: `v${service}`, type: "Dial", isOpaque: true },
      )
    ).id;
  return { made, dial };
}
const sessions = (now = () => 0) => counted(now).dial;
const ids = async () => (await test.store.pool.query("SELECT id FROM session ORDER BY id")).rows.map(({ id }) => id);

it("an identity with too many sessions gets one only where its oldest for the same service makes room", async () => {
  const dial = sessions();
  const first = await dial("a", 1);
  const others = [await dial("a", 2), await dial("a", 3), await dial("b", 2)];
  // The same again is no further one.
  expect(await dial("a", 1)).toBe(first);
  await expect(dial("a", 5)).rejects.toMatchObject({ status: 429, code: "SERVER_TOO_MANY_REQUESTS" });
  const second = await dial("b", 1);
  expect(await ids()).toEqual([...others, second].sort());
  // Another identity has room of its own.
  await dial("c", 5, "j");
});

it("has room again when some have ended, also when they were made before the start", async () => {
  await sessions()("a", 1);
  let now = 0;
  const dial = sessions(() => now);
  for (const service of [2, 3, 4]) await dial("a", service);
  await expect(dial("a", 5)).rejects.toMatchObject({ status: 429 });
  await test.store.pool.query("DELETE FROM session WHERE service_id = 'v1'");
  now = 60_000;
  await dial("a", 5);
});

it("a client that obeys the refusal has room at once", async () => {
  const { made, dial } = counted();
  const first = await dial("a", 1);
  for (const service of [2, 3, 4]) await dial("a", service);
  await expect(dial("a", 5)).rejects.toMatchObject({ status: 429 });
  await made.delete(first);
  await dial("a", 5);
  await expect(dial("a", 6)).rejects.toMatchObject({ status: 429 });
  // Ended with its API session: the change log tells.
  const { rows } = await test.store.pool.query("DELETE FROM session WHERE service_id = 'v2' RETURNING id");
  const change = { kind: "session", key: rows[0].id, op: "delete", before: { identityId: "i" } } as const;
  made.onChanges([{ ...change, seq: "1", xid: "1", at: new Date(0) }]);
  await dial("a", 6);
  await expect(dial("a", 7)).rejects.toMatchObject({ status: 429 });
  await test.store.pool.query("UPDATE service_policy SET type = 'Bind'");
  try {
    expect(await made.endUnauthorized(sql`s.service_id = 'v3'`)).toBe(1);
  } finally {
    await test.store.pool.query("UPDATE service_policy SET type = 'Dial'");
  }
  await dial("a", 7);
});

it("no session ends for another while there is room, whichever client made it", async () => {
  const dial = sessions();
  for (const service of [1, 2, 3, 4]) await dial("a", service);
  await expect(dial("a", 5)).rejects.toMatchObject({ status: 429 });
  await test.store.pool.query("DELETE FROM session WHERE service_id IN ('v2', 'v3')");
  await dial("b", 1);
  expect(await ids()).toHaveLength(3);
});

it("the oldest of a kind is found in the index, however many sessions others have", async () => {
  await test.store.pool.query(`
    INSERT INTO api_session (id, token, identity_id, authenticator_id, ip_address)
      SELECT 'x' || n, 'x' || n, CASE WHEN n <= 500 THEN 'i' ELSE 'j' END, 'x', '::1' FROM generate_series(1, 1000) n;
    INSERT INTO session (id, token, api_session_id, identity_id, service_id, type)
      SELECT a.id || v.id, a.id || v.id, a.id, a.identity_id, v.id, 'Dial' FROM api_session a, service v WHERE a.id LIKE 'x%' AND (v.id <> 'v9' OR a.identity_id = 'j')`);
  await test.store.pool.query("VACUUM ANALYZE session");
  try {
    for (const service of ["v1", "v9"]) {
      const oldest = oldestOfKind("i", service, "Dial");
      const { rows } = await sql<{ "QUERY PLAN": string }>`EXPLAIN ${oldest}`.execute(test.store.db);
      const plan = rows.map((row) => row["QUERY PLAN"]).join("\n");
      expect(plan).toMatch(/Index Cond: .*identity_id.*service_id.*type/);
      expect(plan).not.toMatch(/Seq Scan|Filter|Sort/);
    }
  } finally {
    await test.store.pool.query("DELETE FROM api_session WHERE id LIKE 'x%'");
  }
});
