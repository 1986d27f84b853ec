import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type TestStore, testStore } from "../../store/testing/test-store.ts";
import type { ModelContext } from "../context.ts";
import { testContext } from "../testing/test-context.ts";
import { ApiSessions } from "./api-sessions.ts";
import { OidcSessions, type OidcStart } from "./oidc-sessions.ts";

const HOUR_MS = 3_600_000;

let test: TestStore;
let ctx: ModelContext;
let sessions: OidcSessions;
let offsetMs = 0;
const inMs = (ms: number) => new Date(Date.now() + offsetMs + ms);
beforeAll(async () => {
  test = await testStore();
  ctx = { ...testContext(test.store), now: () => inMs(0) };
  sessions = new OidcSessions(ctx);
});
afterAll(() => test.drop());
beforeEach(async () => {
  offsetMs = 0;
  await test.store.pool.query(`
    DELETE FROM identity; DELETE FROM auth_policy; DELETE FROM change_log; DELETE FROM revocation;
    INSERT INTO auth_policy (id, name, cert_allowed, cert_allow_expired, updb_allowed, ext_jwt_allowed) VALUES ('default', 'd', true, true, true, true);
    INSERT INTO identity (id, name, type_id, external_id) VALUES ('i', 'ann', 'Default', 'ann@example.org')`);
});

const shown = { sdkInfo: { type: "c" }, envInfo: null, remoteAddress: "192.0.2.7:1" };
const tokens = (refreshJti: string, more: object = {}) => ({
  refreshJti,
  accessUntil: inMs(HOUR_MS / 2),
  expiresAt: inMs(24 * HOUR_MS),
  ...more,
});

/** A pending session. */
async function begun(start: Partial<OidcStart> = {}, authenticatorId = "a", prints: string[] = []): Promise<string> {
  return test.store.transaction(async (trx) => {
    const made = await new ApiSessions(ctx).insert(trx, {
      ...{ identityId: "i", authenticatorId, ipAddress: "::1", configTypes: ["t"], certFingerprints: prints },
      improperClientCertChain: false,
      as: { kind: "oidc", expiresAt: inMs(HOUR_MS) },
    });
    const whole: OidcStart = {
      ...{ clientId: "openziti", scopes: ["openid", "offline_access"], amr: ["password"], shown },
      ...{ loginFingerprint: null, isBound: false, ...start },
    };
    await sessions.insert(trx, made, whole);
    return made.id;
  });
}

async function active(start: Partial<OidcStart> = {}): Promise<string> {
  const id = await begun(start);
  await sessions.activate(id, tokens("r0"));
  return id;
}

const logged = async () =>
  (
    await test.store.pool.query(
      "SELECT op, before->>'tokens' AS tokens FROM change_log WHERE kind = 'api_session' ORDER BY seq",
    )
  ).rows;

describe("a session of an OIDC login", () => {
  it("is pending until it has tokens, once", async () => {
    const id = await begun();
    expect(await sessions.subjectOf(id)).toMatchObject({ accessUntil: null, refreshJti: null });
    expect(await sessions.extend(id, inMs(1_000))).toBe(false);
    const { accessUntil, expiresAt } = tokens("r0");
    expect(await sessions.activate(id, { refreshJti: "r0", accessUntil, expiresAt })).toBe(true);
    expect(await sessions.subjectOf(id)).toMatchObject({ accessUntil, expiresAt, refreshJti: "r0", previousJti: null });
    expect(await sessions.activate(id, tokens("r1"))).toBe(false);
    expect(await logged()).toEqual([
      { op: "create", tokens: null },
      { op: "update", tokens: "created" },
    ]);
  });

  it("says what its tokens are made of, as it is now", async () => {
    const id = await begun({ amr: ["ext-jwt"], loginFingerprint: "p" }, "extJwtId:signer", ["p"]);
    await test.store.pool.query("UPDATE api_session SET is_mfa_complete = true");
    const second = Math.floor(Date.now() / 1_000);
    await test.store.pool.query(
      "INSERT INTO revocation (id, type, issued_before, expires_at) VALUES ('i', 'IDENTITY', to_timestamp($1), now() + interval '1 hour')",
      [second],
    );
    expect(await sessions.subjectOf(id)).toMatchObject({
      identity: { id: "i", name: "ann", isAdmin: false, externalId: "ann@example.org" },
      session: {
        ...{ id, authenticatorId: "extJwtId:signer", clientId: "openziti", scopes: ["openid", "offline_access"] },
        ...{
          amr: ["ext-jwt", "ejs:signer", "totp"],
          configTypes: ["t"],
          certFingerprints: ["p"],
          loginFingerprint: "p",
        },
        ...{ allowExpired: true, isExtendable: false, improperClientCertChain: false, shown },
      },
      notBeforeSecond: second,
      isDisabled: false,
    });
    await test.store.pool.query("UPDATE identity SET disabled_at = now()");
    expect(await sessions.subjectOf(id)).toMatchObject({ isDisabled: true });
    offsetMs = 2 * HOUR_MS;
    expect(await sessions.subjectOf(id)).toBeUndefined();
  });

  it("is bound to the certificate that comes with its tokens, and to a later one in its place", async () => {
    const id = await begun({ loginFingerprint: "login" }, "a", ["login"]);
    await sessions.activate(id, tokens("r0", { sessionFingerprint: "one" }));
    const first = await sessions.subjectOf(id);
    expect(first).toMatchObject({ isBound: true, sessionFingerprint: "one" });
    expect(first?.session.certFingerprints).toEqual(["login", "one"]);
    await sessions.rotate(id, "r0", tokens("r1", { sessionFingerprint: "two" }));
    await sessions.rotate(id, "r1", tokens("r2"));
    expect((await sessions.subjectOf(id))?.session.certFingerprints).toEqual(["login", "two"]);
  });

  it("lasts as long as its newest tokens, and never less long than an older access token", async () => {
    const id = await active();
    await sessions.rotate(id, "r0", tokens("r1", { accessUntil: inMs(1_000), expiresAt: inMs(48 * HOUR_MS) }));
    const until = (await sessions.subjectOf(id))?.accessUntil?.getTime() ?? 0;
    expect(until).toBeGreaterThan(Date.now() + HOUR_MS / 3);
    expect(await sessions.extend(id, inMs(HOUR_MS))).toBe(true);
    expect((await sessions.subjectOf(id))?.accessUntil?.getTime()).toBeGreaterThan(until);
    expect((await logged()).map(({ tokens }) => tokens)).toEqual([null, "created", "refreshed", "exchanged"]);
  });

  it("ends once, and then has no tokens any more", async () => {
    const id = await active();
    expect(await sessions.end(id, "logout")).toBe(true);
    expect(await sessions.end(id, "logout")).toBe(false);
    expect(await sessions.subjectOf(id)).toBeUndefined();
    expect(await sessions.rotate(id, "r0", tokens("r1"))).toBe("lost");
    expect(await sessions.extend(id, inMs(1_000))).toBe(false);
  });

  it("is known to routers that report it by its access token, and nothing is written for that", async () => {
    const apiSessions = new ApiSessions(ctx);
    const id = await active();
    const ended = await active();
    await sessions.end(ended, "logout");
    const tokenOf = (z_asid: unknown) =>
      `eyJhbGciOiJFUzI1NiJ9.${Buffer.from(JSON.stringify({ z_asid })).toString("base64url")}.x`;
    const unknown = [tokenOf(ended), tokenOf(7), "eyJ.no", "opaque", `oidc:${ended}`];
    offsetMs = HOUR_MS;
    expect(await apiSessions.touchTokens([tokenOf(id), ...unknown])).toEqual(unknown);
    const row = await apiSessions.find(test.store.db, id);
    expect(apiSessions.lastActivity(row!).getTime()).toBeGreaterThan(Date.now() + HOUR_MS - 1_000);
    await apiSessions.flush();
    expect(await apiSessions.find(test.store.db, id)).toEqual(row);
  });

  it("is ended by the sweep when its time is over, and not because it is idle", async () => {
    const apiSessions = new ApiSessions(ctx);
    const id = await active();
    offsetMs = 2 * HOUR_MS;
    expect(await apiSessions.sweep()).toBe(0);
    offsetMs = 25 * HOUR_MS;
    expect(await apiSessions.sweep()).toBe(1);
    expect(await sessions.subjectOf(id)).toBeUndefined();
  });
});

describe("a refresh token", () => {
  it("RFC 9700 4.14.2: of two uses at once one rotates, and a used one never does again", async () => {
    const id = await active();
    const outcomes = await Promise.all(["r1", "r2"].map((next) => sessions.rotate(id, "r0", tokens(next))));
    expect(outcomes.sort()).toEqual(["lost", "rotated"]);
    const { refreshJti, previousJti } = (await sessions.subjectOf(id)) ?? {};
    expect(previousJti).toBe("r0");
    expect(await sessions.rotate(id, "r0", tokens("r3"))).toBe("lost");
    expect(await sessions.rotate(id, refreshJti ?? "", tokens("r4"))).toBe("rotated");
  });

  it("of a bound session may be repeated for a minute while its successor is unused", async () => {
    const id = await active({ isBound: true });
    await sessions.rotate(id, "r0", tokens("r1"));
    offsetMs = 40_000;
    expect(await sessions.rotate(id, "r0", tokens("r2"))).toBe("rotated");
    expect(await sessions.rotate(id, "r1", tokens("x"))).toBe("lost");
    // The minute does not begin anew.
    offsetMs = 61_000;
    expect(await sessions.rotate(id, "r0", tokens("x"))).toBe("lost");
    expect(await sessions.rotate(id, "r2", tokens("r3"))).toBe("rotated");
    expect(await sessions.rotate(id, "r0", tokens("x"))).toBe("lost");
    expect(await sessions.subjectOf(id)).toMatchObject({ refreshJti: "r3", previousJti: "r2" });
  });

  it("that is used while its session ends leaves no session, and no deadlock", async () => {
    for (let round = 0; round < 10; round++) {
      const id = await active();
      await Promise.all([sessions.rotate(id, "r0", tokens("r1")), sessions.end(id, "revoked")]);
      expect(await sessions.subjectOf(id)).toBeUndefined();
    }
  });
});
