/** A credential that is withdrawn while somebody logs in with it makes no session that outlives it. */
import { setTimeout as pause } from "node:timers/promises";
import { type RawBuilder, sql } from "kysely";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startTestController, type TestController } from "../api/testing/test-controller.ts";

let c: TestController;
beforeAll(async () => {
  c = await startTestController();
});
afterAll(() => c.close());

let n = 0;

async function person() {
  const name = `person-${++n}`;
  const id = await c.make("identities", { name, type: "Default", isAdmin: false });
  const authenticator = await c.make("authenticators", {
    ...{ identityId: id, method: "updb", username: name, password: "correct horse" },
  });
  return { name, id, authenticator };
}

/** Logs in while `withdrawal` is under way: after its statements, before its commit. */
async function loginDuring(
  name: string,
  withdrawal: (id: string, authenticator: string) => RawBuilder<unknown>[],
  who: { id: string; authenticator: string },
) {
  let login = Promise.resolve(0);
  await c.ctx.store.transaction(async (trx) => {
    for (const statement of withdrawal(who.id, who.authenticator)) await statement.execute(trx);
    let isDone = false;
    login = c
      .call("POST", "/edge/client/v1/authenticate?method=password", {
        body: { username: name, password: "correct horse" },
      })
      .then(({ status }) => {
        isDone = true;
        return status;
      });
    const isWaiting = async () => {
      const { rows } = await sql`SELECT 1 FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'`.execute(c.ctx.store.db);
      return rows.length > 0;
    };
    while (!isDone && !(await isWaiting())) await pause(5);
  });
  return login;
}

describe("a login that is under way", () => {
  it.each<[string, (id: string, authenticator: string) => RawBuilder<unknown>[]]>([
    [
      "its password is taken away",
      (_id, authenticator) => [sql`DELETE FROM authenticator WHERE id = ${authenticator}`],
    ],
    [
      "its identity is disabled",
      (id) => [
        sql`SELECT 1 FROM identity WHERE id = ${id} FOR UPDATE`,
        sql`UPDATE identity SET disabled_at = now() WHERE id = ${id}`,
      ],
    ],
    ["its identity is deleted", (id) => [sql`DELETE FROM identity WHERE id = ${id}`]],
  ])("is refused when %s", async (_what, withdrawal) => {
    const who = await person();
    expect(await loginDuring(who.name, withdrawal, who)).toBe(401);
    const { rows } = await sql`SELECT 1 FROM api_session WHERE identity_id = ${who.id}`.execute(c.ctx.store.db);
    expect(rows).toEqual([]);
  });

  it("goes on when something else of the identity changes", async () => {
    const who = await person();
    const rename = (id: string) => [sql`UPDATE identity SET tags = '{"a": 1}' WHERE id = ${id}`];
    expect(await loginDuring(who.name, rename, who)).toBe(200);
  });
});
