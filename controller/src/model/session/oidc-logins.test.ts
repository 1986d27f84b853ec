import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type TestStore, testStore } from "../../store/testing/test-store.ts";
import type { ModelContext } from "../context.ts";
import { testContext } from "../testing/test-context.ts";
import { ApiSessions } from "./api-sessions.ts";
import { MAX_DESTINATIONS, type NewLogin, OidcLogins } from "./oidc-logins.ts";
import { OidcSessions } from "./oidc-sessions.ts";

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const LIFE_MS = 600_000;

let test: TestStore;
let ctx: ModelContext;
let logins: OidcLogins;
let offsetMs = 0;
const inMs = (ms: number) => new Date(Date.now() + offsetMs + ms);
beforeAll(async () => {
  test = await testStore();
  ctx = { ...testContext(test.store), now: () => inMs(0) };
  logins = new OidcLogins(ctx);
});
afterAll(() => test.drop());
beforeEach(async () => {
  offsetMs = 0;
  await test.store.pool.query(`
    DELETE FROM identity; DELETE FROM oidc_login; DELETE FROM auth_policy;
    INSERT INTO auth_policy (id, name, cert_allowed, cert_allow_expired, updb_allowed, ext_jwt_allowed) VALUES ('default', 'd', true, true, true, true);
    INSERT INTO identity (id, name, type_id) VALUES ('i', 'i', 'Default')`);
});

const request = (): NewLogin => ({
  clientId: "openziti",
  redirectUri: "http://localhost:20314/auth/callback",
  state: "s t=a&te",
  nonce: "n",
  codeChallenge: "c".repeat(43),
  scopes: ["openid"],
  configTypes: ["all"],
  remoteAddress: "192.0.2.7:53330",
  expiresAt: inMs(LIFE_MS),
});

/** An API session for the login, in one transaction. */
async function prove(id: string, more: { pageSecret?: string; csrPem?: string } = {}): Promise<string> {
  return (await proved(id, { isFinished: false, ...more })).apiSessionId;
}

async function proved(
  id: string,
  more: { isFinished: boolean; pageSecret?: string; csrPem?: string },
): Promise<{ apiSessionId: string; secret: string | undefined }> {
  return test.store.transaction(async (trx) => {
    const made = await new ApiSessions(ctx).insert(trx, {
      ...{ identityId: "i", authenticatorId: "a", ipAddress: "::1", configTypes: [], certFingerprints: [] },
      improperClientCertChain: false,
      as: { kind: "oidc", expiresAt: inMs(3 * LIFE_MS) },
    });
    await new OidcSessions(ctx).insert(trx, made, {
      ...{ clientId: "openziti", scopes: ["openid"], amr: ["password"], loginFingerprint: null, isBound: false },
      shown: { sdkInfo: null, envInfo: null, remoteAddress: "192.0.2.7:53330" },
    });
    const secret = await logins.prove(trx, id, { apiSessionId: made.id, expiresAt: inMs(3 * LIFE_MS), ...more });
    return { apiSessionId: made.id, secret };
  });
}

async function finished(): Promise<{ id: string; apiSessionId: string; code: string; secret: string }> {
  const id = await logins.begin(request());
  const apiSessionId = await prove(id);
  const secret = await logins.finish(id);
  const found = await logins.byCallback(secret);
  return { id, apiSessionId, secret, code: found?.code ?? "" };
}

const sessions = async () => (await test.store.pool.query("SELECT id FROM api_session")).rows.length;
const codes = async () => (await test.store.pool.query("SELECT FROM oidc_login WHERE code_hash IS NOT NULL")).rowCount;

describe("a login by OIDC", () => {
  it("makes room for others while nothing is proved, and not later", async () => {
    const [open, other] = [await logins.begin(request()), await logins.begin(request())];
    await prove(other);
    await logins.abandon(open);
    await logins.abandon(other);
    expect([await logins.find(open), (await logins.find(other))?.id]).toEqual([undefined, other]);
  });

  it("is found by its id as it was asked for, until its time is over", async () => {
    const asked = request();
    const id = await logins.begin(asked);
    expect(id).toMatch(UUID);
    const none = { csrPem: null, apiSessionId: null, isOfPage: false };
    expect(await logins.find(id)).toEqual({ ...asked, ...none, id });
    expect(await logins.find("another")).toBeUndefined();
    offsetMs = LIFE_MS + 1;
    expect(await logins.find(id)).toBeUndefined();
    for (const isFinished of [false, true]) {
      await expect(proved(id, { isFinished })).rejects.toMatchObject({ status: 401 });
    }
    expect([await sessions(), await codes()]).toEqual([0, 0]);
  });

  it("belongs to the first client that proves a factor, and the other one's session is never made", async () => {
    const id = await logins.begin(request());
    const outcomes = await Promise.allSettled([prove(id), prove(id), prove(id)]);
    expect(outcomes.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected", "rejected"]);
    expect(await sessions()).toBe(1);
    expect(await logins.find(id)).toMatchObject({ apiSessionId: expect.stringMatching(UUID) });
  });

  it("has the one code of the client that finished it, however many finish it at once", async () => {
    const id = await logins.begin(request());
    const outcomes = await Promise.allSettled([1, 2, 3].map(() => proved(id, { isFinished: true })));
    const [made, ...more] = outcomes.flatMap((each) => (each.status === "fulfilled" ? [each.value] : []));
    expect([more, await sessions(), await codes()]).toEqual([[], 1, 1]);
    const found = await logins.byCallback(made?.secret ?? "");
    expect(await logins.takeCode(found?.code ?? "")).toMatchObject({ apiSessionId: made?.apiSessionId });
  });

  it("has no code while a factor is open", async () => {
    const id = await logins.begin(request());
    const { secret } = await proved(id, { isFinished: false });
    expect([secret, await codes()]).toEqual([undefined, 0]);
    await logins.finish(id);
    expect(await codes()).toBe(1);
  });

  it("shows whoever takes its code that its identity was disabled, or that its session is over", async () => {
    const [disabled, over] = [await finished(), await finished()];
    await test.store.pool.query("UPDATE identity SET disabled_at = now() WHERE id = 'i'");
    expect(await logins.takeCode(disabled.code)).toMatchObject({ session: { isDisabled: true } });
    await test.store.pool.query("UPDATE api_session SET expires_at = now() - interval '1 second' WHERE id = $1", [
      over.apiSessionId,
    ]);
    expect(await logins.takeCode(over.code)).toMatchObject({ session: undefined });
    expect(await logins.takeCode(over.code)).toEqual({ usedBy: over.apiSessionId });
  });

  it("that went on on a page needs the page's secret from then on", async () => {
    const id = await logins.begin(request());
    await prove(id, { pageSecret: "of the page", csrPem: "csr" });
    expect(await logins.find(id)).toBeUndefined();
    expect(await logins.find(id, "of another")).toBeUndefined();
    expect(await logins.find(id, "of the page")).toMatchObject({ isOfPage: true, csrPem: "csr" });
  });

  it("is finished once, after the first factor", async () => {
    const id = await logins.begin(request());
    await expect(logins.finish(id)).rejects.toMatchObject({ status: 401 });
    await prove(id);
    const outcomes = await Promise.allSettled([logins.finish(id), logins.finish(id)]);
    expect(outcomes.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"]);
    expect(await logins.find(id)).toBeUndefined();
  });

  it("is finished with its first factor when no other one is open", async () => {
    const id = await logins.begin(request());
    const { apiSessionId, secret } = await proved(id, { isFinished: true });
    expect(await logins.find(id)).toBeUndefined();
    await expect(logins.finish(id)).rejects.toMatchObject({ status: 401 });
    const found = await logins.byCallback(secret ?? "");
    expect(await logins.takeCode(found?.code ?? "")).toMatchObject({ apiSessionId });
  });

  it("leads to the same code whether its callback is expected, comes twice, or comes to another controller", async () => {
    const { secret, code } = await finished();
    logins.expectCallback(secret, request());
    const expected = { code, redirectUri: request().redirectUri, state: request().state };
    for (const at of [logins, logins, new OidcLogins(ctx)]) expect(await at.byCallback(secret)).toEqual(expected);
  });

  it("keeps no place for a callback that comes too late, and only the newest of many", async () => {
    const { code, secret } = await finished();
    logins.expectCallback(secret, { ...request(), state: "in memory" });
    offsetMs = 3 * LIFE_MS + 1;
    expect(await logins.byCallback(secret)).toBeUndefined();
    offsetMs = 0;
    logins.expectCallback(secret, { ...request(), state: "in memory" });
    for (let index = 0; index < MAX_DESTINATIONS; index++) logins.expectCallback(`other ${index}`, request());
    expect(await logins.byCallback(secret)).toMatchObject({ code, state: request().state });
  });

  it("leads to a code by the secret of who finished it, as often as asked, and never by its id", async () => {
    const { id, secret, code } = await finished();
    expect(code).toMatch(/^[\w-]{43}$/);
    expect(await logins.byCallback(secret)).toEqual({
      code,
      redirectUri: request().redirectUri,
      state: request().state,
    });
    for (const other of [id, code, "", "x".repeat(43)]) expect(await logins.byCallback(other)).toBeUndefined();
    for (const other of [id, secret, ""]) expect(await logins.takeCode(other)).toBeUndefined();
  });

  it("RFC 6749 4.1.2: gives its code to one of twenty at once, and names the session to the others", async () => {
    const { apiSessionId, code, secret } = await finished();
    const taken = await Promise.all(Array.from({ length: 20 }, () => logins.takeCode(code)));
    const first = taken.filter((each) => each !== undefined && "apiSessionId" in each);
    expect(first).toEqual([expect.objectContaining({ apiSessionId, nonce: "n", codeChallenge: "c".repeat(43) })]);
    expect(taken.filter((each) => each !== undefined && "usedBy" in each)).toEqual(
      Array.from({ length: 19 }, () => ({ usedBy: apiSessionId })),
    );
    expect(await logins.byCallback(secret)).toBeUndefined();
  });

  it("gives no code after its time", async () => {
    const { code, secret } = await finished();
    offsetMs = 3 * LIFE_MS + 1;
    expect(await logins.takeCode(code)).toBeUndefined();
    expect(await logins.byCallback(secret)).toBeUndefined();
  });

  it("ends with its API session", async () => {
    const { id, apiSessionId, code } = await finished();
    await new ApiSessions(ctx).delete(apiSessionId);
    expect(await logins.takeCode(code)).toBeUndefined();
    expect(await logins.find(id)).toBeUndefined();
  });

  it("stores neither its secret nor its code", async () => {
    const { code, secret } = await finished();
    const { rows } = await test.store.pool.query("SELECT to_jsonb(l)::text AS text FROM oidc_login l");
    for (const text of [code, secret]) {
      const forms = [text, Buffer.from(text, "base64url").toString("hex")];
      for (const form of forms) expect(rows[0].text).not.toContain(form);
    }
  });
});
