import { createHmac, generateKeyPairSync, sign } from "node:crypto";
import { decodeJwt, decodeProtectedHeader } from "jose";
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { type TestStore, testStore } from "../../store/testing/test-store.ts";
import { MAX_KNOWN, MAX_TOKEN_LENGTH, OwnTokens } from "./own-tokens.ts";
import { testTokens } from "./testing/test-tokens.ts";
import type { TokenSubject } from "./token-issuer.ts";

const SECOND = 1_000;

let test: TestStore;
let tokens: Awaited<ReturnType<typeof testTokens>>;
let at: number;
beforeAll(async () => {
  test = await testStore();
  at = Math.floor(Date.now() / SECOND) * SECOND;
  tokens = await testTokens(test.store, { now: () => new Date(at) });
});
afterAll(async () => {
  tokens.close();
  await test.drop();
});
beforeEach(() => {
  at = Math.floor(Date.now() / SECOND) * SECOND;
});

const subject = (session: Partial<TokenSubject["session"]> = {}, more: Partial<TokenSubject> = {}): TokenSubject => ({
  identity: { id: "i", name: "ann", isAdmin: false, externalId: null },
  session: {
    id: "s",
    authenticatorId: "a",
    clientId: "openziti",
    scopes: ["openid", "offline_access"],
    amr: ["cert", "totp"],
    authTime: new Date(at - 60 * SECOND),
    configTypes: [],
    certFingerprints: [],
    loginFingerprint: null,
    allowExpired: false,
    isExtendable: false,
    isExtendRequested: false,
    isKeyRollRequested: false,
    improperClientCertChain: false,
    shown: { sdkInfo: { type: "c" }, envInfo: null, remoteAddress: "192.0.2.7:53330" },
    ...session,
  },
  issuer: "https://ctrl.example:1280/oidc",
  at: new Date(at),
  ...more,
});
const now = () => at / SECOND;

describe("what tokens say", () => {
  it("access and refresh tokens name the session, and share no id", () => {
    const { issuer, keys } = tokens;
    const [access, refresh] = [issuer.access(subject()), issuer.refresh(subject())];
    expect(decodeProtectedHeader(access.token)).toEqual({ alg: "ES256", kid: keys.signer().kid, typ: "JWT" });
    const common = {
      iss: "https://ctrl.example:1280/oidc",
      sub: "i",
      aud: ["openziti"],
      iat: now(),
      nbf: now(),
      auth_time: now() - 60,
      client_id: "openziti",
      scopes: ["openid", "offline_access"],
      amr: ["cert", "totp"],
      z_asid: "s",
      z_aid: "openziti",
      z_authid: "a",
      z_cfs: null,
      z_sdk: { type: "c" },
      z_env: null,
      z_ra: "192.0.2.7:53330",
      z_ice: false,
      z_cer: false,
      z_ckrr: false,
      z_iccc: false,
    };
    expect(decodeJwt(access.token)).toEqual({ ...common, z_t: "a", jti: access.jti, exp: now() + 1_800 });
    expect(decodeJwt(refresh.token)).toEqual({ ...common, z_t: "r", jti: refresh.jti, exp: now() + 86_400 });
    expect(access.jti).not.toBe(refresh.jti);
    expect(access.expiresAt).toEqual(new Date(at + 1_800 * SECOND));
  });

  it("what is there is said: rights, external id, config types, certificates", () => {
    const whole = subject(
      {
        configTypes: ["t"],
        certFingerprints: ["f", "g"],
        loginFingerprint: "f",
        allowExpired: true,
        isExtendable: true,
      },
      { identity: { id: "i", name: "ann", isAdmin: true, externalId: "ann@example.org" } },
    );
    expect(decodeJwt(tokens.issuer.access(whole).token)).toMatchObject({
      ...{ z_ia: true, z_eid: "ann@example.org", z_ct: ["t"], z_cfs: ["f", "g"], z_acf: "f", z_cae: true, z_ice: true },
    });
  });

  it("after a revocation of the identity they are from behind its last second, and good at once", async () => {
    const { token } = tokens.issuer.access(subject({}, { notBeforeSecond: now() + 1 }));
    expect(decodeJwt(token)).toMatchObject({ iat: now() + 2, nbf: now(), exp: now() + 1_800 });
    expect(await tokens.own.access(token)).toHaveProperty("claims");
    expect(decodeJwt(tokens.issuer.access(subject({}, { notBeforeSecond: now() - 9 })).token).iat).toBe(now());
  });

  it("id tokens are for the client, and their hashes name what came with them", () => {
    // The example of OpenID Connect Core 1.0, A.3 and A.4, whose hashes are of SHA-256.
    const beside = {
      nonce: "n",
      accessToken: "jHkWEdUXMU1BwAsC4vtUsZwnNvTIxEl0z9K3vx5KF0Y",
      code: "Qcb0Orv1zh30vL1MPRsbm-diHiMwcLyZvn1arpZv-Jxf_11jnpEX3Tgfvk",
    };
    const made = tokens.issuer.id(subject(), beside);
    expect(decodeJwt(made.token)).toEqual({
      ...{ iss: "https://ctrl.example:1280/oidc", sub: "i", aud: ["openziti"], azp: "openziti", client_id: "openziti" },
      ...{ exp: now() + 1_800, iat: now(), auth_time: now() - 60, amr: ["cert", "totp"], jti: made.jti, nonce: "n" },
      ...{ at_hash: "77QmUPtjPfzWtF2AnpK9RQ", c_hash: "LDktKdoQak3Pk0cnXxCltA", name: "ann", z_asid: "s" },
    });
    expect(decodeJwt(tokens.issuer.id(subject({ scopes: [] }), {}).token)).not.toHaveProperty("name");
  });

  it("service tokens name the stored session, TOTP tokens when a code was accepted", () => {
    const session = { id: "cs", apiSessionId: "s", identityId: "i", serviceId: "v", type: "Dial" } as const;
    const service = tokens.issuer.service(session, { isLegacy: true });
    expect(decodeJwt(service.token)).toEqual({
      ...{
        iss: "https://ctrl.example:1280",
        sub: "v",
        aud: ["openziti"],
        jti: "cs",
        iat: now(),
        exp: now() + 365 * 86_400,
      },
      ...{ z_asid: "s", z_iid: "i", z_t: "s", z_st: "Dial", z_leg: true },
    });
    const totp = tokens.issuer.totp(subject({ clientId: "native" }), new Date(at - 5 * SECOND));
    expect(decodeJwt(totp.token)).toEqual({
      ...{
        iss: "https://ctrl.example:1280",
        sub: "i",
        aud: ["native"],
        iat: now() - 5,
        jti: totp.jti,
        z_asid: "s",
        z_t: "t",
      },
    });
  });
});

describe("checking", () => {
  const kinds = ["access", "refresh", "service", "totp", "idHint"] as const;
  const made = () => ({
    access: tokens.issuer.access(subject()).token,
    refresh: tokens.issuer.refresh(subject()).token,
    service: tokens.issuer.service(
      { id: "cs", apiSessionId: "s", identityId: "i", serviceId: "v", type: "Bind" },
      { isLegacy: false },
    ).token,
    totp: tokens.issuer.totp(subject(), new Date(at)).token,
    idHint: tokens.issuer.id(subject(), {}).token,
  });

  it("each kind of token counts as its kind only", async () => {
    const all = made();
    for (const wanted of kinds) {
      for (const given of kinds) {
        const checked = await tokens.own[wanted](all[given]);
        if (wanted === given) expect(checked, wanted).toHaveProperty("claims");
        else expect(checked, `${given} as ${wanted}`).toMatchObject({ refused: "invalid" });
      }
    }
  });

  it("a token ends to the second, but for one that only says who logs out", async () => {
    const { access, idHint } = made();
    at += 1_800 * SECOND - 1;
    expect(await tokens.own.access(access)).toHaveProperty("claims");
    at += 1;
    expect(await tokens.own.access(access)).toMatchObject({ refused: "expired" });
    at += 3_600 * SECOND;
    // Long after: known by its digest, and at its first check.
    for (const own of [tokens.own, ownTokens(1)]) {
      expect(await own.access(access)).toMatchObject({ refused: "expired" });
      expect(await own.idHint(idHint)).toHaveProperty("claims");
      expect(await own.idHint(access)).toMatchObject({ refused: "invalid" });
    }
  });

  it("the clock of another controller may be ahead by a minute", async () => {
    const ahead = (seconds: number) => tokens.issuer.access(subject({}, { at: new Date(at + seconds * SECOND) })).token;
    expect(await tokens.own.access(ahead(60))).toHaveProperty("claims");
    expect(await tokens.own.access(ahead(61))).toMatchObject({ refused: "invalid" });
  });

  it("what is not signed by one of our keys is another issuer's", async () => {
    const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
    expect(publicKey.type).toBe("public");
    for (const kid of ["0".repeat(40), "", "../../etc/passwd", "__proto__", "constructor", 5, null, undefined]) {
      const text = forged({ kid }, (input) => sign("sha256", input, { key: privateKey, dsaEncoding: "ieee-p1363" }));
      expect([kid, tokens.own.isOwn(text), await tokens.own.access(text)]).toEqual([kid, false, undefined]);
    }
    for (const text of [
      "",
      "a",
      "a.b.c",
      "ey",
      "6f0d8b2e-0000-4000-8000-000000000000",
      "é.é.é",
      made().access.padEnd(MAX_TOKEN_LENGTH + 1, "A"),
    ]) {
      expect([text.slice(0, 20), await tokens.own.access(text)]).toEqual([text.slice(0, 20), undefined]);
    }
  });

  it("a token cannot choose how it is checked", async () => {
    const { kid } = tokens.keys.signer();
    const pem = tokens.keys.published()[0]!.certificate.publicKey.export({ type: "spki", format: "pem" });
    const none = () => Buffer.alloc(0);
    const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-384" });
    const tries: [object, (input: Buffer) => Buffer][] = [
      [{ kid, alg: "none" }, none],
      [{ kid, alg: "None" }, none],
      [{ kid, alg: "HS256" }, (input) => createHmac("sha256", pem).update(input).digest()],
      [{ kid, alg: "ES384" }, (input) => sign("sha384", input, { key: privateKey, dsaEncoding: "ieee-p1363" })],
      [{ kid, alg: "ES256" }, () => Buffer.alloc(64)],
      [{ kid, alg: "ES256", crit: ["b64"], b64: false }, none],
      [{ kid, alg: "ES256", crit: ["x"], x: 1 }, none],
      [{ kid, typ: "at+jwt" }, none],
    ];
    for (const [header, signature] of tries) {
      const text = forged(header, signature);
      expect([header, await tokens.own.access(text)]).toEqual([
        header,
        expect.objectContaining({ refused: "invalid" }),
      ]);
    }
  });

  it("a changed token is refused, also when the whole one is known", async () => {
    const { access } = made();
    expect(await tokens.own.access(access)).toHaveProperty("claims");
    const [header, , signature] = access.split(".");
    const more = Buffer.from(JSON.stringify({ ...decodeJwt(access), sub: "admin" })).toString("base64url");
    expect(await tokens.own.access([header, more, signature].join("."))).toMatchObject({ refused: "invalid" });
  });

  it("claims of another shape are refused, and the detail holds none of their values", async () => {
    const good = decodeJwt(made().access);
    const changes = [
      ...["sub", "jti", "z_asid", "exp", "iat", "nbf", "aud", "client_id", "scopes", "amr", "z_t"].map((name) => ({
        [name]: undefined,
      })),
      ...[
        { sub: "" },
        { sub: 5 },
        { sub: "secret".repeat(100) },
        { aud: ["other"] },
        { aud: ["openziti", "other"] },
        { exp: "9999999999" },
      ],
      ...[{ z_cfs: "f" }, { scopes: "openid" }, { z_t: "x" }],
    ];
    for (const change of changes) {
      const checked = await tokens.own.access(tokens.keys.signer().sign({ ...good, ...change }));
      expect([change, checked]).toEqual([change, expect.objectContaining({ refused: "invalid" })]);
      expect(JSON.stringify(checked)).not.toContain("secretsecret");
    }
  });

  it("a text of the greatest length is looked at", async () => {
    const text = made().access.padEnd(MAX_TOKEN_LENGTH, "A");
    expect([tokens.own.isOwn(text), tokens.own.isOwn(`${text}A`)]).toEqual([true, false]);
    expect(await tokens.own.access(text)).toMatchObject({ refused: "invalid" });
  });

  it("so many tokens are known, also after their end, and the oldest gives way", async () => {
    expect(MAX_KNOWN).toBe(25_000);
    const own = ownTokens(2);
    const [first, second, third] = [made().access, made().access, made().access];
    const verify = vi.spyOn(crypto.subtle, "verify");
    for (const token of [first, second, first, second]) expect(await own.access(token)).toHaveProperty("claims");
    at += 1_800 * SECOND;
    expect(await own.access(first)).toMatchObject({ refused: "expired" });
    expect(verify).toHaveBeenCalledTimes(2);
    for (const token of [third, first]) expect(await own.access(token)).toMatchObject({ refused: "expired" });
    expect(verify).toHaveBeenCalledTimes(4);
    verify.mockRestore();
  });

  it("a limit is asked before each check of a signature, and told of wrong signatures only", async () => {
    const calls: string[] = [];
    const limit = { before: async () => calls.push("before"), wrong: async () => calls.push("wrong") };
    const { access, refresh, service, idHint } = made();
    const spoilt = `${access.slice(0, access.lastIndexOf("."))}.${"A".repeat(86)}`;
    const told = async (check: Promise<unknown>) => {
      await check;
      return calls.splice(0).join(" ");
    };
    const { own } = tokens;
    for (const wanted of ["access", "refresh", "accessOrRefresh", "idHint"] as const) {
      expect(await told(own[wanted](spoilt, limit)), wanted).toBe("before wrong");
      expect(await told(own[wanted]("a.b.c", limit)), wanted).toBe("");
      // Of another kind, or of the kind that is wanted: this network has signed it.
      for (const token of [refresh, service, idHint]) expect(await told(own[wanted](token, limit))).toBe("before");
    }
    expect([await told(own.access(access, limit)), await told(own.access(access, limit))]).toEqual(["before", ""]);
    expect(await own.accessOrRefresh(refresh)).toMatchObject({ claims: { z_t: "r" } });
    const refusal = new Error("429");
    const refusing = { before: () => Promise.reject(refusal), wrong: async () => undefined };
    await expect(own.refresh(refresh, refusing)).rejects.toBe(refusal);
  });

  it("a known token counts no more when its key is gone", async () => {
    const { access } = made();
    expect(await tokens.own.access(access)).toHaveProperty("claims");
    await tokens.keys.rotate({ atOnce: true });
    await test.store.changes.noticed();
    expect(await tokens.own.access(access)).toBeUndefined();
    await test.store.changes.caughtUp();
    await expect.poll(() => tokens.keys.published().length).toBe(1);
    expect(await tokens.own.access(made().access)).toHaveProperty("claims");
  });
});

/** One that has checked no token yet. */
function ownTokens(maxKnown: number): OwnTokens {
  return new OwnTokens({ keys: tokens.keys, now: () => new Date(at), maxKnown });
}

/** An access token with another header, signed in another way. */
function forged(header: object, signature: (input: Buffer) => Buffer): string {
  const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const claims = decodeJwt(tokens.issuer.access(subject()).token);
  const input = `${encode({ alg: "ES256", typ: "JWT", ...header })}.${encode(claims)}`;
  return `${input}.${signature(Buffer.from(input)).toString("base64url")}`;
}
