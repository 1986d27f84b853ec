import { afterAll, beforeAll, expect, it } from "vitest";
import type { ModelChange } from "../../fabric/change-port.ts";
import { interposed, type TestStore, testStore } from "../../store/testing/test-store.ts";
import type { ModelContext } from "../context.ts";
import { ApiSessions } from "../session/api-sessions.ts";
import { testContext } from "../testing/test-context.ts";
import { FabricChanges } from "./fabric-changes.ts";

let test: TestStore;
let ctx: ModelContext;
beforeAll(async () => {
  test = await testStore();
  ctx = testContext(test.store);
  await test.store.pool.query(`
    INSERT INTO auth_policy (id, name, cert_allowed, cert_allow_expired, updb_allowed, ext_jwt_allowed) VALUES ('default', 'd', true, true, true, true);
    INSERT INTO identity (id, name, type_id) VALUES ('i', 'i', 'Default')`);
});
afterAll(() => test.drop());

const login = (as?: { kind: "oidc"; expiresAt: Date }) =>
  test.store.transaction((trx) =>
    new ApiSessions(ctx).insert(trx, {
      ...{ identityId: "i", authenticatorId: "a", ipAddress: "::1", configTypes: [], certFingerprints: [] },
      ...{ improperClientCertChain: false, as },
    }),
  );

it("a session of an OIDC login is not read, and routers are told only of its end", async () => {
  const reads: string[] = [];
  const db = interposed(test.store, (text, run) => {
    reads.push(text);
    return run();
  });
  const told: ModelChange[] = [];
  const { changes } = test.store;
  const store = { changes, db } as unknown as ModelContext["store"];
  const follower = new FabricChanges({ ...ctx, store });
  follower.add((change) => told.push(change));
  const { id } = await login({ kind: "oidc", expiresAt: new Date(Date.now() + 60_000) });
  await changes.caughtUp();
  expect([told, reads]).toEqual([[], []]);
  const legacy = await login();
  await changes.caughtUp();
  expect(told).toMatchObject([{ kind: "api-session-added", session: { id: legacy.id, token: legacy.token } }]);
  expect(reads).toHaveLength(1);
  await new ApiSessions(ctx).delete(id);
  await changes.caughtUp();
  expect(told.slice(1)).toEqual([{ kind: "api-session-removed", id, token: "" }]);
  expect(reads).toHaveLength(1);
  follower.close();
});
