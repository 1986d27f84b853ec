/** A credential that is withdrawn while a client logs in with it makes no session that outlives it. */
import { type RawBuilder, sql } from "kysely";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startTestController, type TestController } from "../api/testing/test-controller.ts";
import { lockWaits } from "../store/testing/test-store.ts";
import { resetAdministrator } from "./admin-reset.ts";
import { hashPassword } from "./password.ts";

let c: TestController;
beforeAll(async () => {
  c = await startTestController();
});
afterAll(() => c.close());

let n = 0;
let other: string;
beforeAll(async () => {
  other = await hashPassword("another password");
});

async function person() {
  const name = `person-${++n}`;
  const id = await c.make("identities", { name, type: "Default", isAdmin: false });
  const authenticator = await c.make("authenticators", {
    ...{ identityId: id, method: "updb", username: name, password: "correct horse" },
  });
  return { name, id, authenticator };
}

const loginOf = (username: string) =>
  c.call("POST", "/edge/client/v1/authenticate?method=password", { body: { username, password: "correct horse" } });

async function sessionsOf(identityId: string): Promise<number> {
  const { rows } = await sql`SELECT 1 FROM api_session WHERE identity_id = ${identityId}`.execute(c.ctx.store.db);
  return rows.length;
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
    login = loginOf(name).then(({ status }) => {
      isDone = true;
      return status;
    });
    await lockWaits(c.ctx.store.db, 1, () => isDone);
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
    [
      "its password is changed",
      (_id, authenticator) => [sql`UPDATE authenticator SET password_hash = ${other} WHERE id = ${authenticator}`],
    ],
  ])("is refused when %s", async (_what, withdrawal) => {
    const who = await person();
    expect(await loginDuring(who.name, withdrawal, who)).toBe(401);
    expect(await sessionsOf(who.id)).toBe(0);
  });

  it("goes on when something else of the identity changes", async () => {
    const who = await person();
    const rename = (id: string) => [sql`UPDATE identity SET tags = '{"a": 1}' WHERE id = ${id}`];
    expect(await loginDuring(who.name, rename, who)).toBe(200);
  });

  it("goes on when its password is hashed again meanwhile", async () => {
    const who = await person();
    const hash = await hashPassword("correct horse");
    const renewed = (_id: string, authenticator: string) => [
      sql`UPDATE authenticator SET password_hash = ${hash} WHERE id = ${authenticator}`,
    ];
    expect(await loginDuring(who.name, renewed, who)).toBe(200);
  });

  it("has a session that ends with its password, when it was faster than the change", async () => {
    const who = await person();
    const { login, change } = await c.ctx.store.transaction(async (trx) => {
      // No login makes a session before this ends: the login waits when it has seen that its password still counts.
      await sql`LOCK TABLE api_session IN SHARE MODE`.execute(trx);
      const login = loginOf(who.name);
      await lockWaits(c.ctx.store.db, 1);
      const change = c.admin("PATCH", `/authenticators/${who.authenticator}`, { password: "another password" });
      await lockWaits(c.ctx.store.db, 2);
      return { login, change };
    });
    expect([(await login).status, (await change).status]).toEqual([200, 200]);
    expect(await sessionsOf(who.id)).toBe(0);
  });
});

describe("API sessions of a password", () => {
  const isLive = async (token: string) =>
    (await c.call("GET", "/edge/client/v1/current-identity", { token })).status === 200;
  const change = (token: string, { authenticator }: { authenticator: string }, body: object) =>
    c.call("PATCH", `/edge/client/v1/current-identity/authenticators/${authenticator}`, { token, body });

  it("end when an administrator sets another one, not with another user name", async () => {
    const who = await person();
    const token = await c.login(who.name, "correct horse");
    await c.admin("PATCH", `/authenticators/${who.authenticator}`, { username: `${who.name}-2`, tags: { a: "b" } });
    expect(await isLive(token)).toBe(true);
    await c.admin("PATCH", `/authenticators/${who.authenticator}`, { password: "another password" });
    expect(await isLive(token)).toBe(false);
  });

  it("end when its holder changes it, except the one of the change", async () => {
    const who = await person();
    const [own, others] = [await c.login(who.name, "correct horse"), await c.login(who.name, "correct horse")];
    const passwords = { currentPassword: "correct horse", password: "another password" };
    expect((await change(own, who, { ...passwords, currentPassword: "wrong" })).status).toBe(401);
    expect(await isLive(others)).toBe(true);
    expect((await change(own, who, passwords)).status).toBe(200);
    expect([await isLive(own), await isLive(others)]).toEqual([true, false]);
  });

  it("are the caller's own still, when an administrator changes the own password over the Management API", async () => {
    const who = await person();
    await c.admin("PATCH", `/identities/${who.id}`, { isAdmin: true });
    const [own, others] = [await c.login(who.name, "correct horse"), await c.login(who.name, "correct horse")];
    const body = { password: "another password" };
    const answer = await c.call("PATCH", `/edge/management/v1/authenticators/${who.authenticator}`, {
      token: own,
      body,
    });
    expect(answer.status).toBe(200);
    expect([await isLive(own), await isLive(others)]).toEqual([true, false]);
  });

  it("are none after a reset of the administrator that a login with the old password tried to outrun", async () => {
    const who = await person();
    await c.admin("PATCH", `/identities/${who.id}`, { isAdmin: true });
    let login: ReturnType<typeof loginOf> | undefined;
    const reset = resetAdministrator(
      {
        transaction: (work) =>
          c.ctx.store.transaction(async (trx) => {
            const result = await work(trx);
            login = loginOf(who.name);
            await lockWaits(c.ctx.store.db, 1);
            return result;
          }),
      },
      { identity: who.id, password: "another password", hasOwnPolicy: false },
    );
    await reset;
    expect((await login)?.status).toBe(401);
    expect(await sessionsOf(who.id)).toBe(0);
    expect(await isLive(await c.login(who.name, "another password"))).toBe(true);
  });
});
