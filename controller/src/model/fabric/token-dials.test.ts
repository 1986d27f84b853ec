/** Dials and binds with signed tokens: whatever a token says, the rows and policy decide, for every circuit. */
import { createHmac, createPrivateKey, createPublicKey, sign } from "node:crypto";
import { EventEmitter, once } from "node:events";
import { isDeepStrictEqual } from "node:util";
import { createKeyPair } from "@sallyport/wire";
import { decodeJwt, decodeProtectedHeader } from "jose";
import { sql } from "kysely";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { startTestController, type TestController } from "../../api/testing/test-controller.ts";
import type { TokenSubject } from "../../auth/tokens/token-issuer.ts";
import type { ModelChange } from "../../fabric/change-port.ts";
import { DenialCode, type NewTerminator } from "../../fabric/ports.ts";
import { appendChange } from "../../store/changes/change-log.ts";
import type { SessionRow } from "../session/sessions.ts";
import { TUNNELER } from "../testing/client-info.ts";

let c: TestController;
let n = 0;
let router = "";
let outside = "";
let identity = "";
let service = "";
let policy = "";
const changes: ModelChange[] = [];
const emitter = new EventEmitter();

beforeAll(async () => {
  c = await startTestController();
  c.fabricModel.onChange((change) => {
    changes.push(change);
    emitter.emit("change");
  });
  router = await c.make("edge-routers", { name: "r", isTunnelerEnabled: true });
  outside = await c.make("edge-routers", { name: "outside" });
  const reached = { semantic: "AnyOf", edgeRouterRoles: [`@${router}`] };
  await c.make("edge-router-policies", { name: "all", ...reached, identityRoles: ["#all"] });
  await c.make("service-edge-router-policies", { name: "all", ...reached, serviceRoles: ["#all"] });
});
afterAll(() => c.close());

beforeEach(async () => {
  n += 1;
  changes.length = 0;
  identity = await c.make("identities", { name: `i${n}`, type: "User", isAdmin: false });
  await c.make("authenticators", { identityId: identity, method: "updb", username: `user-${n}`, password: "password" });
  service = await c.make("services", { name: `s${n}`, encryptionRequired: false });
  policy = await grant("Dial");
});
afterEach(() => {
  c.clock.offsetMs = 0;
});

const grant = (type: "Dial" | "Bind", more: object = {}) =>
  c.make("service-policies", {
    ...{ name: `${type} ${n}`, type, semantic: "AnyOf" },
    ...{ identityRoles: [`@${identity}`], serviceRoles: [`@${service}`], ...more },
  });

interface Login {
  readonly id: string;
  readonly kind: "legacy" | "oidc";
  /** The opaque token, or an access token. */
  readonly token: string;
}

async function legacy(): Promise<Login> {
  const token = await c.login(`user-${n}`, "password");
  const row = await c.model.apiSessions.findByToken(c.ctx.store.db, token);
  return { id: row!.id, kind: "legacy", token };
}

/** A login by OIDC, as its rows and its token stand. */
async function oidc({ isComplete = true } = {}): Promise<Login> {
  const id = `oidc-${n}-${Math.random()}`;
  const until = new Date(Date.now() + 86_400_000);
  await sql`INSERT INTO api_session (id, token, identity_id, authenticator_id, ip_address, config_types, cert_fingerprints, kind, expires_at, access_until)
    VALUES (${id}, ${`oidc:${id}`}, ${identity}, '', '', '{}', '{}', 'oidc', ${until}, ${isComplete ? until : null})`.execute(
    c.ctx.store.db,
  );
  return { id, kind: "oidc", token: c.ctx.tokens.issuer.access(subjectOf(id)).token };
}

function subjectOf(apiSessionId: string, identityId = identity): TokenSubject {
  return {
    identity: { id: identityId, name: "n", isAdmin: false, externalId: null },
    session: {
      ...{ id: apiSessionId, authenticatorId: "a", clientId: "openziti", scopes: ["openid"], amr: ["password"] },
      ...{ authTime: c.ctx.now(), configTypes: [], certFingerprints: [], loginFingerprint: null },
      ...{ allowExpired: false, isExtendable: false, isExtendRequested: false, isKeyRollRequested: false },
      ...{ improperClientCertChain: false, shown: { sdkInfo: null, envInfo: null, remoteAddress: "" } },
    },
    issuer: "https://localhost/oidc",
    at: c.ctx.now(),
  };
}

const LOGINS = { legacy, oidc } as const;
const KINDS = Object.keys(LOGINS) as (keyof typeof LOGINS)[];

async function session(login: Login, type: "Dial" | "Bind" = "Dial"): Promise<SessionRow> {
  const row = await c.model.identities.get(c.ctx.store.db, identity);
  return c.model.sessions.create(login, row, { serviceId: service, type });
}

const claim = (sessionToken: string, apiSessionToken: string, more: object = {}) => ({
  ...{ sessionToken, apiSessionToken, routerId: router, checksPosture: false },
  ...more,
});
const dial = (...args: Parameters<typeof claim>) => c.fabricModel.authorizeDial(claim(...args));
const dialService = (login: Login, more: object = {}) =>
  c.fabricModel.authorizeService({
    ...{
      serviceId: service,
      identityId: identity,
      apiSessionToken: login.token,
      routerId: router,
      checksPosture: false,
    },
    ...more,
  });
/** A token with these claims that the present key has signed. */
const forged = (claims: object) => c.ctx.tokens.keys.signer().sign({ ...claims });
const stored = async (id: string) =>
  (await c.ctx.store.db.selectFrom("session").selectAll().where("id", "=", id).executeTakeFirst())!;

/** A new key is published, after `atOnce` no other one is. */
async function rotated({ atOnce }: { atOnce: boolean }): Promise<void> {
  const { keys } = c.ctx.tokens;
  const { kid } = await keys.rotate({ atOnce });
  const isLoaded = () => {
    const kids = keys.published().map((key) => key.kid);
    return kids.includes(kid) && (!atOnce || kids.length === 1);
  };
  while (!isLoaded()) {
    await new Promise<void>((resolve) => {
      const stop = keys.onChange(() => {
        stop();
        resolve();
      });
    });
  }
}

/** Waits until the fabric was told of a change like this one. */
async function told(change: object): Promise<void> {
  for (;;) {
    if (changes.some((each) => isDeepStrictEqual(each, change))) return;
    await once(emitter, "change");
  }
}

describe("the token of a session", () => {
  it.each(KINDS)("is signed and names the stored row, for %s API sessions", async (kind) => {
    const login = await LOGINS[kind]();
    const { id, token } = await session(login);
    const { kid, alg } = c.ctx.tokens.keys.published()[0]!.jwk as { kid: string; alg: string };
    expect(decodeProtectedHeader(token)).toEqual({ alg, kid, typ: "JWT" });
    const { iat, exp, ...claims } = decodeJwt(token);
    expect(claims).toEqual({
      ...{ iss: `https://${c.ctx.settings.apiAddress}`, sub: service, aud: ["openziti"], jti: id },
      ...{ z_asid: login.id, z_iid: identity, z_t: "s", z_st: "Dial", z_leg: kind === "legacy" },
    });
    expect(exp! - iat!).toBe(365 * 86_400);
    expect((await stored(id)).token).toBe(token);
    expect(await dial(token, login.token)).toMatchObject({ kind: "session", identityId: identity, sessionId: id });
  });

  it("is the same for everyone who asks for the session, also at the same time", async () => {
    const login = await legacy();
    const rows = await Promise.all(Array.from({ length: 50 }, () => session(login)));
    expect(new Set(rows.map(({ token }) => token)).size).toBe(1);
    expect((await session(login)).token).toBe(rows[0]?.token);
  });

  it("is signed again by the next key, and the former one counts as long as its key", async () => {
    const login = await legacy();
    const first = await session(login);
    expect(await dial(first.token, login.token)).toMatchObject({ sessionId: first.id });
    await rotated({ atOnce: false });
    expect((await session(login)).token).toBe(first.token);
    c.clock.offsetMs = 20 * 60_000;
    const shown = await c.model.sessions.renewed(first);
    expect((await stored(first.id)).token).toBe(first.token);
    const [second, other] = await Promise.all([session(login), session(login)]);
    expect(new Set([first, shown, second].map(({ token }) => token)).size).toBe(3);
    expect([second.id, other]).toEqual([first.id, second]);
    for (const { token } of [first, shown, second]) {
      expect(await dial(token, login.token)).toMatchObject({ sessionId: first.id });
      expect(await c.fabricModel.unknownSessions([token])).toEqual([]);
    }
    await rotated({ atOnce: true });
    expect(await dial(first.token, login.token)).toEqual({ denied: DenialCode.InvalidSession });
    // Routers that verify refuse both: the client learns that it has to ask again.
    for (const { token } of [first, second]) expect(await c.model.sessions.hasToken(login.id, token)).toBe(false);
    const third = await session(login);
    expect(await c.model.sessions.hasToken(login.id, third.token)).toBe(true);
    expect(await c.model.sessions.hasToken((await legacy()).id, third.token)).toBe(false);
  });

  it("that is stored counts until it ends, whatever becomes of its key", async () => {
    const login = await legacy();
    const second = await session(login);
    await rotated({ atOnce: true });
    // What is stored proves itself, until the client gets the next one.
    expect(await dial(second.token, login.token)).toMatchObject({ sessionId: second.id });
  });

  it("of an earlier version goes on until its client asks for the session", async () => {
    const login = await legacy();
    const { id } = await session(login);
    await sql`UPDATE session SET token = 'opaque' WHERE id = ${id}`.execute(c.ctx.store.db);
    expect(await dial("opaque", login.token)).toMatchObject({ sessionId: id });
    expect(await c.fabricModel.unknownSessions(["opaque"])).toEqual([]);
    // A client that only reads its session may go on with the token that it has.
    const shown = await c.call("GET", `/edge/client/v1/sessions/${id}`, { token: login.token });
    expect(shown.json.data.token).toMatch(/^ey/);
    for (const known of ["opaque", shown.json.data.token]) {
      expect(await dial(known, login.token)).toMatchObject({ sessionId: id });
    }
    const { token } = await session(login);
    expect(token).toMatch(/^ey/);
    expect(await dial("opaque", login.token)).toEqual({ denied: DenialCode.InvalidSession });
    expect(await dial(token, login.token)).toMatchObject({ sessionId: id });
  });

  it("is signed again before it ends, and refused when it has ended", async () => {
    const login = await oidc();
    await sql`UPDATE api_session SET expires_at = now() + interval '3 years' WHERE id = ${login.id}`.execute(
      c.ctx.store.db,
    );
    const { id, token } = await session(login);
    c.clock.offsetMs = 366 * 86_400_000;
    const access = c.ctx.tokens.issuer.access(subjectOf(login.id)).token;
    expect(await dial(token, access)).toEqual({ denied: DenialCode.InvalidSession });
    const renewed = await session(login);
    expect(renewed.id).toBe(id);
    expect(await dial(renewed.token, access)).toMatchObject({ sessionId: id });
  });

  it("to host is opaque while no router needs a signed one, and those that reach such a router end when it comes", async () => {
    await grant("Bind");
    const login = await legacy();
    const host = await session(login, "Bind");
    expect(host.token).not.toMatch(/^ey/);
    expect((await c.model.sessions.renewed(host)).token).toBe(host.token);
    expect((await session(await oidc(), "Bind")).token).toMatch(/^ey/);
    const dialing = await session(login);
    const old = await session(await legacy());
    await sql`UPDATE session SET token = 'of an earlier version' WHERE id = ${old.id}`.execute(c.ctx.store.db);
    const versions = { "of 1.6": "v1.6.20", "out of reach": "v2.0.3", "in reach": "v2.0.3" };
    const still = async () =>
      (await Promise.all([host, dialing, old].map(({ id }) => stored(id)))).map((row) => row?.id);
    const report = (routerId: string, version: keyof typeof versions) =>
      c.fabricModel.saveRouterReport({
        ...{ routerId, hostname: "h", ctrlChanListeners: undefined },
        version: { version: versions[version], revision: "", buildDate: "", os: "", arch: "" },
      });
    await report(router, "of 1.6");
    await report(outside, "out of reach");
    expect(await still()).toEqual([host.id, dialing.id, old.id]);
    vi.spyOn(c.model.sessions, "end").mockRejectedValueOnce(new Error("the database is away"));
    await expect(report(router, "in reach")).rejects.toThrow("the database is away");
    await report(router, "in reach");
    expect(await still()).toEqual([undefined, dialing.id, undefined]);
    expect((await session(login, "Bind")).token).toMatch(/^ey/);
    await report(router, "of 1.6");
  });

  it("of a router's own tunneler stays opaque", async () => {
    await c.make("service-policies", {
      ...{ name: `tunnel ${n}`, type: "Dial", semantic: "AnyOf" },
      ...{ identityRoles: [`@${router}`], serviceRoles: [`@${service}`] },
    });
    await c.fabricModel.openTunnelApiSession(router, TUNNELER);
    const request = {
      routerId: router,
      apiSessionId: "",
      serviceName: `s${n}`,
      type: "Dial",
      remoteAddress: "",
    } as const;
    const made = await c.fabricModel.openTunnelSession(request);
    expect(made).toMatchObject({ sessionToken: expect.not.stringMatching(/^ey/) });
    expect(await c.fabricModel.openTunnelSession(request)).toEqual({ ...made, newApiSession: expect.anything() });
  });
});

describe("a service token is refused when", () => {
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const text = (header: object, claims: object, signature: (signed: string) => string) => {
    const signed = `${part(header)}.${part(claims)}`;
    return `${signed}.${signature(signed)}`;
  };
  const kidNow = () => c.ctx.tokens.keys.signer().kid;
  const tricks: Record<string, (claims: object) => string | Promise<string>> = {
    "it is not signed": (claims) => text({ alg: "none", kid: kidNow(), typ: "JWT" }, claims, () => ""),
    "its signature is left out": (claims) => text({ alg: "ES256", kid: kidNow(), typ: "JWT" }, claims, () => ""),
    "the public key is its secret": (claims) => {
      const pem = c.ctx.tokens.keys.published()[0]!.certificate.publicKey.export({ type: "spki", format: "pem" });
      return text({ alg: "HS256", kid: kidNow(), typ: "JWT" }, claims, (signed) =>
        createHmac("sha256", pem).update(signed).digest("base64url"),
      );
    },
    "another key has signed it under our key's name": async (claims) => {
      const key = createPrivateKey((await createKeyPair()).keyPem);
      return text({ alg: "ES256", kid: kidNow(), typ: "JWT" }, claims, (signed) =>
        sign("sha256", Buffer.from(signed), { key, dsaEncoding: "ieee-p1363" }).toString("base64url"),
      );
    },
    "it brings its own key": async (claims) => {
      const { keyPem } = await createKeyPair();
      const jwk = createPublicKey(keyPem).export({ format: "jwk" });
      return text({ alg: "ES256", kid: "theirs", jwk, typ: "JWT" }, claims, (signed) =>
        sign("sha256", Buffer.from(signed), { key: createPrivateKey(keyPem), dsaEncoding: "ieee-p1363" }).toString(
          "base64url",
        ),
      );
    },
    "it is an access token": (claims) => forged({ ...claims, z_t: "a" }),
    "it says another type of session": (claims) => forged({ ...claims, z_st: "Bind" }),
    "it says another API session": (claims) => forged({ ...claims, z_asid: "other" }),
    "it says another identity": (claims) => forged({ ...claims, z_iid: "other" }),
    "it says another service": (claims) => forged({ ...claims, sub: "other" }),
    "it says no session": ({ jti: _, ...claims }: { jti?: string }) => forged(claims),
    "it says another audience": (claims) => forged({ ...claims, aud: ["other"] }),
    "it has ended": (claims) => forged({ ...claims, exp: Math.floor(Date.now() / 1_000) - 1 }),
    "it has no end": ({ exp: _, ...claims }: { exp?: number }) => forged(claims),
  };
  it.each(Object.keys(tricks))("%s", async (trick) => {
    const login = await legacy();
    const { token } = await session(login);
    const claims = decodeJwt(token);
    // The same claims in another text count: only the trick makes the difference.
    const again = forged({ ...claims, iat: claims.iat! - 1 });
    expect(await dial(again, login.token)).toMatchObject({ identityId: identity });
    const tricked = await tricks[trick]!(claims);
    expect(await dial(tricked, login.token)).toEqual({ denied: DenialCode.InvalidSession });
  });
});

describe("an access token beside the token of a session is refused when", () => {
  const cases: Record<string, [(login: Login) => string | Promise<string>, DenialCode]> = {
    "it is missing": [() => "", DenialCode.InvalidApiSession],
    "it is an opaque one": [async () => (await legacy()).token, DenialCode.InvalidSession],
    "it cannot be read": [() => "eyJhbGciOiJFUzI1NiJ9", DenialCode.InvalidApiSession],
    "it is of another API session": [async () => (await oidc()).token, DenialCode.InvalidApiSession],
    "it says another identity": [
      ({ id }) => c.ctx.tokens.issuer.access(subjectOf(id, "other")).token,
      DenialCode.InvalidApiSession,
    ],
    "it is a refresh token": [
      ({ id }) => c.ctx.tokens.issuer.refresh(subjectOf(id)).token,
      DenialCode.InvalidApiSession,
    ],
    "it is a service token": [async (login) => (await session(login)).token, DenialCode.InvalidApiSession],
    "it has ended": [
      ({ token }) => forged({ ...decodeJwt(token), exp: Math.floor(Date.now() / 1_000) - 1 }),
      DenialCode.InvalidApiSession,
    ],
  };

  it.each(Object.keys(cases))("%s", async (name) => {
    const login = await oidc();
    const { token } = await session(login);
    expect(await dial(token, login.token)).toMatchObject({ identityId: identity, tokenIssuedAt: expect.any(Date) });
    const [make, code] = cases[name]!;
    expect(await dial(token, await make(login))).toEqual({ denied: code });
  });

  it("it is revoked alone", async () => {
    const login = await oidc();
    const { token } = await session(login);
    expect(await dial(token, login.token)).toMatchObject({ identityId: identity });
    await c.model.revocations.create({ id: decodeJwt(login.token).jti!, type: "JTI" });
    expect(await dial(token, login.token)).toEqual({ denied: DenialCode.InvalidApiSession });
    expect(await dialService(login)).toEqual({ denied: DenialCode.InvalidApiSession });
    const next = c.ctx.tokens.issuer.access(subjectOf(login.id)).token;
    expect(await dial(token, next)).toMatchObject({ identityId: identity });
  });

  it("the login is not complete, or its session has expired", async () => {
    const pending = await oidc({ isComplete: false });
    const { token } = await session(pending);
    expect(await dial(token, pending.token)).toEqual({ denied: DenialCode.InvalidApiSession });
    const login = await oidc();
    const made = await session(login);
    expect(await dial(made.token, login.token)).toMatchObject({ identityId: identity });
    await c.ctx.store.transaction(async (trx) => {
      const expires_at = new Date(Date.now() - 1_000);
      await trx.updateTable("api_session").set({ expires_at }).where("id", "=", login.id).execute();
      await appendChange(trx, { kind: "api_session", key: login.id, op: "update" });
    });
    expect(await dial(made.token, login.token)).toEqual({ denied: DenialCode.InvalidApiSession });
    expect(await dialService(login)).toEqual({ denied: DenialCode.InvalidApiSession });
  });

  it("the session is one of an opaque token", async () => {
    const { token } = await session(await legacy());
    expect(await dial(token, (await oidc()).token)).toEqual({ denied: DenialCode.InvalidApiSession });
  });
});

describe("a token never outranks the row: right after", () => {
  const losses: Record<string, [(login: Login, row: SessionRow) => Promise<unknown>, DenialCode]> = {
    "its policy is gone": [() => c.admin("DELETE", `/service-policies/${policy}`), DenialCode.InvalidSession],
    "its identity is disabled": [
      () => c.admin("POST", `/identities/${identity}/disable`, { durationMinutes: 1 }),
      DenialCode.InvalidSession,
    ],
    "its identity is gone": [() => c.admin("DELETE", `/identities/${identity}`), DenialCode.InvalidSession],
    "its service is gone": [() => c.admin("DELETE", `/services/${service}`), DenialCode.InvalidSession],
    "the session is gone": [(_, row) => c.model.sessions.delete(row.id), DenialCode.InvalidSession],
    "its API session is gone": [(login) => c.model.apiSessions.delete(login.id), DenialCode.InvalidSession],
  };

  describe.each(KINDS)("for %s API sessions,", (kind) => {
    it.each(Object.keys(losses))("%s", async (name) => {
      const login = await LOGINS[kind]();
      const row = await session(login);
      for (let again = 0; again < 2; again++) {
        expect(await dial(row.token, login.token)).toMatchObject({ identityId: identity });
      }
      const [takeAway, code] = losses[name]!;
      await takeAway(login, row);
      expect(await dial(row.token, login.token)).toEqual({ denied: code });
    });

    it("no other kind of session, and no router that its identity may not use, is allowed by it", async () => {
      const login = await LOGINS[kind]();
      const { token } = await session(login);
      const other = claim(token, login.token, { routerId: outside });
      expect(await c.fabricModel.authorizeDial(other)).toEqual({ denied: DenialCode.InvalidEdgeRouterForSession });
      const bind = claim(token, login.token);
      expect(await c.fabricModel.authorizeBind(bind)).toEqual({ denied: DenialCode.WrongSessionType });
      await grant("Bind");
      const bound = claim((await session(login, "Bind")).token, login.token);
      expect(await c.fabricModel.authorizeBind(bound)).toMatchObject({ identityId: identity });
      expect(await c.fabricModel.authorizeDial(bound)).toEqual({ denied: DenialCode.WrongSessionType });
    });
  });
});

describe("posture", () => {
  let check = "";
  beforeEach(async () => {
    check = await c.make("posture-checks", {
      ...{ typeId: "DOMAIN", name: `domain ${n}`, domains: ["example.com"], roleAttributes: [`checked-${n}`] },
    });
  });
  const demand = () => c.admin("PATCH", `/service-policies/${policy}`, { postureCheckRoles: [`#checked-${n}`] });

  it("of an access token is looked at here unless the router does, and its sessions go on", async () => {
    const login = await oidc();
    await demand();
    const row = await session(login);
    const refusal = { denied: DenialCode.PostureCheckFailed, failingCheckIds: [check] };
    expect(await dial(row.token, login.token)).toEqual(refusal);
    expect(await dialService(login)).toEqual(refusal);
    expect(await dial(row.token, login.token, { checksPosture: true })).toMatchObject({ identityId: identity });
    expect(await dialService(login, { checksPosture: true })).toMatchObject({ identityId: identity });
    await c.model.posture.sweep();
    expect(await stored(row.id)).toMatchObject({ token: row.token });
    const report = (domain: string) =>
      c.model.posture.report({ id: identity, attrs: [] }, login.id, [{ typeId: "DOMAIN", id: "0", domain }]);
    await report("example.com");
    expect(await dial(row.token, login.token)).toMatchObject({ identityId: identity });
    // What is reported here counts here.
    await report("other.example");
    expect(await stored(row.id)).toBeUndefined();
  });

  it("of an opaque token is looked at here, whatever the router says", async () => {
    const login = await legacy();
    const { token } = await session(login);
    await demand();
    expect(await dial(token, login.token, { checksPosture: true })).toEqual({ denied: DenialCode.InvalidSession });
  });
});

describe("a service by an access token without a session", () => {
  it("is allowed by policy", async () => {
    const login = await oidc();
    expect(await dialService(login)).toEqual({
      ...{ kind: "token", identityId: identity, sessionId: "", apiSessionId: login.id },
      tokenIssuedAt: new Date(decodeJwt(login.token).iat! * 1_000),
      service: expect.objectContaining({ id: service, name: `s${n}` }),
    });
  });

  it.each<[string, object, DenialCode]>([
    ["for another identity than the token's", { identityId: "other" }, DenialCode.InvalidApiSession],
    ["for no identity", { identityId: "" }, DenialCode.InvalidApiSession],
    ["without a token", { apiSessionToken: "" }, DenialCode.InvalidApiSession],
    ["for an unknown service", { serviceId: "none" }, DenialCode.InvalidService],
    ["over a router that it may not use", { routerId: "none" }, DenialCode.InvalidEdgeRouterForSession],
  ])("is refused %s", async (_, more, code) => {
    expect(await dialService(await oidc(), more)).toEqual({ denied: code });
  });

  it("is refused with other tokens", async () => {
    const login = await oidc();
    const opaque = await legacy();
    const { token } = await session(login);
    for (const apiSessionToken of [opaque.token, token, c.ctx.tokens.issuer.refresh(subjectOf(login.id)).token]) {
      expect(await dialService(login, { apiSessionToken })).toEqual({ denied: DenialCode.InvalidApiSession });
    }
    // Signed, and of a session with an opaque token.
    const { token: mixed } = c.ctx.tokens.issuer.access(subjectOf(opaque.id));
    expect(await dialService(login, { apiSessionToken: mixed })).toEqual({ denied: DenialCode.InvalidApiSession });
  });

  it("is refused without the right to dial, to administrators as well", async () => {
    const login = await oidc();
    expect(await dialService(login)).toMatchObject({ identityId: identity });
    await c.admin("DELETE", `/service-policies/${policy}`);
    await grant("Bind");
    expect(await dialService(login)).toEqual({ denied: DenialCode.AccessDenied });
    await c.admin("PATCH", `/identities/${identity}`, { isAdmin: true });
    // That has ended its sessions.
    expect(await dialService(await oidc())).toEqual({ denied: DenialCode.AccessDenied });
  });

  it.each<[string, (login: Login) => Promise<unknown>, DenialCode]>([
    ["its API session is gone", (login) => c.model.apiSessions.delete(login.id), DenialCode.InvalidApiSession],
    [
      "its identity is disabled",
      () => c.admin("POST", `/identities/${identity}/disable`, { durationMinutes: 1 }),
      DenialCode.InvalidApiSession,
    ],
    ["the service is gone", () => c.admin("DELETE", `/services/${service}`), DenialCode.InvalidService],
  ])("is refused right after %s", async (_, takeAway, code) => {
    const login = await oidc();
    for (let again = 0; again < 2; again++) expect(await dialService(login)).toMatchObject({ identityId: identity });
    await takeAway(login);
    expect(await dialService(login)).toEqual({ denied: code });
  });
});

describe("routers", () => {
  it("are not told of API sessions with access tokens, and may ask after them", async () => {
    const login = await oidc();
    const opaque = await legacy();
    const ids: string[] = [];
    for (let after = ""; ; ) {
      const page = await c.fabricModel.apiSessionsAfter(after, 100);
      if (page.length === 0) break;
      ids.push(...page.map(({ id }) => id));
      after = page.at(-1)!.id;
    }
    expect(ids).toContain(opaque.id);
    expect(ids).not.toContain(login.id);
    expect(await c.fabricModel.touchApiSessions([login.token, opaque.token])).toEqual([]);
    await c.model.apiSessions.delete(login.id);
    expect(await c.fabricModel.touchApiSessions([login.token, opaque.token])).toEqual([login.token]);
    await told({ kind: "api-session-removed", id: login.id, token: "" });
    expect(await c.fabricModel.goneApiSessions([login.id, opaque.id])).toEqual([login.id]);
  });

  it("may ask after sessions by id, and by any token that they had", async () => {
    const login = await legacy();
    const { id, token } = await session(login);
    const former = forged({ ...decodeJwt(token), iat: 1 });
    expect(await c.fabricModel.unknownSessions([id, token, former, "x"])).toEqual([{ token: "x" }]);
    await c.model.sessions.delete(id);
    expect(await c.fabricModel.unknownSessions([id, token, former])).toEqual([
      { token: id },
      { id, token },
      { id, token: former },
    ]);
  });

  it("host nothing for an identity whose last session to host has ended", async () => {
    await grant("Bind");
    const login = await oidc();
    const hosted = async (id: string, more: Partial<NewTerminator> = {}) => {
      const place = { serviceId: service, routerId: router, binding: "edge", address: id, instanceId: "" };
      const rest = { cost: 0, precedence: "default", peerData: new Map(), hostId: identity } as const;
      const made = await c.fabricModel.createTerminator({ id: `${id}-${n}`, ...place, ...rest, ...more });
      expect(made).toMatchObject({ outcome: "created" });
    };
    await hosted("here");
    await hosted("there", { routerId: outside });
    await hosted("tunnel", { binding: "tunnel" });
    const question = { identityId: identity, serviceId: service, type: "Bind" } as const;
    const without = async () =>
      (await c.fabricModel.hostedWithoutSession([question, { ...question, serviceId: "other" }]))
        .map(({ id }) => id)
        .sort();
    const row = await session(login, "Bind");
    await session(login, "Dial");
    expect(await without()).toEqual([]);
    await c.model.sessions.delete(row.id);
    expect(await without()).toEqual([`here-${n}`, `there-${n}`]);
    await session(await legacy(), "Bind");
    expect(await without()).toEqual([]);
  });

  it("carry no circuit to a service that is gone, not even of an administrator", async () => {
    const administrator = await c.make("identities", { name: `admin ${n}`, type: "User", isAdmin: true });
    const question = { identityId: administrator, serviceId: service, type: "Dial" } as const;
    expect(await c.fabricModel.deniedAccess([question])).toEqual([]);
    await c.admin("DELETE", `/services/${service}`);
    expect(await c.fabricModel.deniedAccess([question])).toEqual([question]);
  });

  it("are told of what is revoked", async () => {
    const login = await oidc();
    const jti = decodeJwt(login.token).jti!;
    await c.model.revocations.create({ id: jti, type: "JTI" });
    await told({ kind: "revoked", type: "JTI", id: jti });
    await c.model.revocations.create({ id: identity, type: "IDENTITY" });
    const { issued_before: issuedBefore } = await c.model.revocations.get(identity);
    await told({ kind: "revoked", type: "IDENTITY", id: identity, issuedBefore });
    expect(await c.fabricModel.identitiesRevoked([identity, jti, "other"])).toEqual([{ id: identity, issuedBefore }]);
    await told({ kind: "api-session-removed", id: login.id, token: "" });
  });
});
