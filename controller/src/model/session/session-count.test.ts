import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { type TestStore, testStore } from "../../store/testing.ts";
import type { Posture } from "../posture/posture.ts";
import { testContext } from "../testing/test-context.ts";
import { SessionCount } from "./session-count.ts";
import { Sessions } from "./sessions.ts";

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
function sessions(now = () => 0) {
  const posture = { failures: async () => [] } as unknown as Posture;
  const made = new Sessions(testContext(test.store), posture, new SessionCount(MOST, now));
  return async (apiSession: string, service: number, identity = "i") =>
    (await made.create({ id: apiSession }, { id: identity, attrs: [] }, { serviceId: `v${service}`, type: "Dial" })).id;
}
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
