import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { RevokedTokens } from "../../auth/tokens/revoked-tokens.ts";
import { lockWaits, type TestStore, testStore } from "../../store/testing/test-store.ts";
import type { ModelContext } from "../context.ts";
import { createModel } from "../model.ts";
import { testContext } from "../testing/test-context.ts";
import { MAX_REVOCATIONS } from "./revocations.ts";

const MINUTE = 60_000;
const SIGNAL = new AbortController().signal;

let test: TestStore;
let ctx: ModelContext;
let model: ReturnType<typeof createModel>;
let offsetMs = 0;
beforeAll(async () => {
  test = await testStore();
  ctx = { ...testContext(test.store), now: () => new Date(Date.now() + offsetMs) };
  model = createModel(ctx);
});
afterAll(() => test.drop());
beforeEach(async () => {
  offsetMs = 0;
  await test.store.pool.query(`
    DELETE FROM identity; DELETE FROM auth_policy; DELETE FROM revocation; DELETE FROM change_log;
    INSERT INTO auth_policy (id, name, cert_allowed, cert_allow_expired, updb_allowed, ext_jwt_allowed) VALUES ('default', 'd', true, true, true, true);
    INSERT INTO identity (id, name, type_id) VALUES ('i', 'i', 'Default'), ('j', 'j', 'Default')`);
});

/** An API session whose access token is good for so long; null: its login is not complete. */
const session = (id: string, identity: string, kind: "legacy" | "oidc", accessMs: number | null) =>
  test.store.pool.query(
    `INSERT INTO api_session (id, token, identity_id, authenticator_id, ip_address, kind, expires_at, access_until)
     VALUES ($1, $2, $3, 'x', '::1', $4, $5, $6)`,
    [
      ...[id, `oidc:${id}`, identity, kind],
      kind === "oidc" ? new Date(Date.now() + 60 * MINUTE) : null,
      accessMs === null ? null : new Date(Date.now() + accessMs),
    ],
  );
const revoked = async () =>
  (await test.store.pool.query("SELECT id, type, identity_id FROM revocation ORDER BY id")).rows;
const sessions = async () =>
  (await test.store.pool.query("SELECT id FROM api_session ORDER BY id")).rows.map(({ id }) => id);

describe("a session that ends", () => {
  const four = async () => {
    await session("active", "i", "oidc", 30 * MINUTE);
    await session("idle", "i", "oidc", -MINUTE);
    await session("legacy", "i", "legacy", null);
    await session("pending", "i", "oidc", null);
  };
  const REVOKED = [{ id: "active", type: "API_SESSION", identity_id: "i" }];

  it.each<[string, () => Promise<unknown>]>([
    ["alone", async () => Promise.all((await sessions()).map((id) => model.apiSessions.delete(id)))],
    ["because its identity is disabled", () => model.identities.disable("i", 0)],
    ["with its identity", () => model.identities.delete("i")],
  ])("%s revokes the access tokens that are left of it", async (_how, end) => {
    await four();
    await end();
    expect([await sessions(), await revoked()]).toEqual([[], REVOKED]);
    const { rows } = await test.store.pool.query("SELECT key, op, before FROM change_log WHERE kind = 'revocation'");
    expect(rows).toMatchObject([{ key: "active", op: "create", before: { type: "API_SESSION" } }]);
    const left = Date.parse(rows[0].before.expiresAt) - Date.now();
    expect(left).toBeGreaterThan(30 * MINUTE);
    expect(left).toBeLessThanOrEqual(31 * MINUTE);
  });
});

describe("revoking", () => {
  it("an API session ends it", async () => {
    await session("a", "i", "oidc", MINUTE);
    await session("b", "i", "oidc", MINUTE);
    await model.revocations.create({ id: "a", type: "API_SESSION" });
    expect([await sessions(), await revoked()]).toMatchObject([["b"], [{ id: "a", type: "API_SESSION" }]]);
  });

  it("an identity ends its logins by OIDC, with one entry that names the next second", async () => {
    await session("a", "i", "oidc", MINUTE);
    await session("b", "i", "legacy", null);
    await session("c", "j", "oidc", MINUTE);
    const before = Date.now();
    await model.revocations.create({ id: "i", type: "IDENTITY" });
    expect([await sessions(), await revoked()]).toMatchObject([["b", "c"], [{ id: "i", type: "IDENTITY" }]]);
    const { issued_before: issuedBefore } = await model.revocations.get("i");
    expect(issuedBefore!.getTime() % 1_000).toBe(0);
    expect(issuedBefore!.getTime()).toBeGreaterThan(before);
    expect(issuedBefore!.getTime()).toBeLessThanOrEqual(Date.now() + 1_000);
    await expect(model.revocations.create({ id: "nobody", type: "IDENTITY" })).rejects.toMatchObject({ status: 404 });
    await expect(model.revocations.get("nobody")).rejects.toMatchObject({ status: 404 });
  });

  it.each([
    ["JTI", "API_SESSION", "API_SESSION"],
    ["API_SESSION", "JTI", "API_SESSION"],
    ["JTI", "IDENTITY", "IDENTITY"],
    ["IDENTITY", "JTI", "IDENTITY"],
    ["API_SESSION", "IDENTITY", "IDENTITY"],
    ["IDENTITY", "API_SESSION", "IDENTITY"],
  ] as const)("an id as %s and then as %s keeps what holds for more tokens: %s", async (first, second, kept) => {
    for (const type of [first, second]) await model.revocations.create({ id: "i", type });
    const { type, issued_before: issuedBefore } = await model.revocations.get("i");
    expect([type, issuedBefore !== null]).toEqual([kept, kept === "IDENTITY"]);
    const { rows } = await test.store.pool.query(
      "SELECT before->>'type' AS type FROM change_log WHERE kind = 'revocation' ORDER BY seq",
    );
    expect(rows).toEqual([{ type: first }, { type: kept }]);
  });

  it("a session as if it were a token does not hide its end", async () => {
    await session("a", "i", "oidc", MINUTE);
    const tokens = new RevokedTokens({ store: test.store, now: ctx.now });
    await tokens.start();
    await model.revocations.create({ id: "a", type: "JTI" });
    await model.apiSessions.delete("a");
    expect(await revoked()).toEqual([{ id: "a", type: "API_SESSION", identity_id: "i" }]);
    expect(await tokens.isRevoked("a")).toBe(true);
    await test.store.pool.query("UPDATE revocation SET expires_at = now() - interval '1 second'");
    await model.revocations.sweep(SIGNAL);
    expect(await tokens.isRevoked("a")).toBe(false);
    tokens.close();
  });

  it.each([
    ["API_SESSION", "a"],
    ["IDENTITY", "i"],
  ] as const)("as %s waits for a session that is ending, and does not stop its end", async (type, id) => {
    await session("a", "i", "oidc", MINUTE);
    const ending = await test.store.pool.connect();
    // A deadlock would be found after a second, and the transaction repeated.
    await ending.query("BEGIN; SET LOCAL lock_timeout = '200ms'; SELECT FROM api_session WHERE id = 'a' FOR UPDATE");
    const created = model.revocations.create({ id, type });
    await lockWaits(test.store.db, 1);
    for (const key of ["a", "i"]) {
      await ending.query(
        "INSERT INTO revocation (id, type, expires_at) VALUES ($1, 'JTI', now() + interval '1 minute')",
        [key],
      );
    }
    await ending.query("DELETE FROM api_session WHERE id = 'a'; COMMIT");
    ending.release();
    await created;
    expect(await revoked()).toContainEqual(expect.objectContaining({ id, type }));
  });

  it("the same again takes nothing back", async () => {
    const until = new Date(Date.now() + 60 * MINUTE);
    await model.revocations.create({ id: "t", type: "JTI", until });
    await model.revocations.create({ id: "t", type: "JTI", until: new Date(Date.now() + MINUTE) });
    expect((await model.revocations.get("t")).expires_at).toEqual(until);
  });

  it("a token counts as soon as it is noticed, and until the token has ended", async () => {
    const tokens = new RevokedTokens({ store: test.store, now: ctx.now });
    const other = new RevokedTokens({ store: test.store, now: ctx.now });
    await model.revocations.create({ id: "early", type: "JTI" });
    await tokens.start();
    await other.start();
    const until = new Date(Date.now() + MINUTE);
    await model.revocations.create({ id: "late", type: "JTI", until });
    await model.revocations.create({ id: "a", type: "API_SESSION" });
    expect(await tokens.isRevoked("late")).toBe(true);
    for (const each of [tokens, other]) {
      expect(["early", "late", "a", "x"].map((jti) => each.has(jti))).toEqual([true, true, false, false]);
    }
    offsetMs = MINUTE;
    expect(tokens.has("late")).toBe(false);
    tokens.close();
    other.close();
  });
});

describe("the sweep", () => {
  it("removes what has ended, and says so", async () => {
    await test.store.pool.query(`INSERT INTO revocation (id, type, expires_at)
      SELECT 'r' || n, 'JTI', now() + (CASE WHEN n <= 1200 THEN -1 ELSE 60 END) * interval '1 minute' FROM generate_series(1, 1201) n`);
    expect(await model.revocations.sweep(SIGNAL)).toBe(1_200);
    expect(await revoked()).toMatchObject([{ id: "r1201" }]);
    const { rows } = await test.store.pool.query(
      "SELECT count(*)::int AS n FROM change_log WHERE kind = 'revocation' AND op = 'delete'",
    );
    expect(rows).toEqual([{ n: 1_200 }]);
  });

  it("after a storm of logouts, many entries of an identity become one of the identity", async () => {
    const made = new Date(Math.floor(Date.now() / 1_000) * 1_000 - 5_000);
    await test.store.pool.query(
      `INSERT INTO revocation (id, type, identity_id, created_at, expires_at)
       SELECT 's' || n, 'API_SESSION', CASE WHEN n <= 15000 THEN 'many' WHEN n <= 29000 THEN 'some' ELSE 'one' || n END, $1, now() + interval '5 minutes'
       FROM generate_series(1, 30000) n`,
      [made],
    );
    expect(MAX_REVOCATIONS).toBe(20_000);
    expect(await model.revocations.sweep(SIGNAL)).toBe(14_999);
    const { rows } = await test.store.pool.query(
      `SELECT count(*)::int AS n, count(*) FILTER (WHERE identity_id = 'some')::int AS some FROM revocation`,
    );
    expect(rows).toEqual([{ n: 15_001, some: 14_000 }]);
    expect(await model.revocations.get("many")).toMatchObject({
      type: "IDENTITY",
      issued_before: new Date(made.getTime() + 1_000),
    });
    expect(await model.revocations.sweep(SIGNAL)).toBe(0);
  });
});
