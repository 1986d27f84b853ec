import { createHmac } from "node:crypto";
import { create } from "@bufbuild/protobuf";
import { edgeClientPb, silentLogger } from "@sallyport/wire";
import type { JWTPayload } from "jose";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { RouterAccess } from "./access.ts";
import type { AccessChange, AccessClaims } from "./ports.ts";
import { MAX_LEFT, PostureStore } from "./posture-store.ts";
import { check, identity, member, policy, revocation, service, TestKey, TestModel } from "./testing/test-model.ts";
import { MAX_TOKEN_LENGTH } from "./token-verifier.ts";

const NOW = 1_700_000_000_000;
const SECONDS = NOW / 1000;
const ACCESS = {
  aud: ["openziti"],
  sub: "i1",
  jti: "j1",
  z_asid: "a1",
  z_t: "a",
  iat: SECONDS,
  nbf: SECONDS,
  exp: SECONDS + 1_800,
  z_cfs: null,
};
const SERVICE = { ...ACCESS, sub: "s1", jti: "x1", z_iid: "i1", z_t: "s", z_st: "Dial" };
const TOTP = { aud: ["openziti"], sub: "i1", z_asid: "a1", jti: "t1", z_t: "t", iat: SECONDS };

const key = new TestKey("k1");
let source: TestModel;
let access: RouterAccess;
let now: number;

beforeEach(async () => {
  source = new TestModel();
  now = NOW;
  access = new RouterAccess({ source, log: silentLogger, now: () => now });
  await source.put(key.event, identity("i1"), service("s1"), service("s2"));
  await source.put(policy("dial", "Dial"), member("dial", "identity", ["i1"]), member("dial", "service", ["s1"]));
});

afterEach(() => access.close());

const admit = (token: string, timeoutMs = 0) => access.accessToken(token, { timeoutMs });
const admitted = async (claims: JWTPayload = {}): Promise<AccessClaims> =>
  admit(await key.sign({ ...ACCESS, ...claims }));
const refusal = async (promise: Promise<unknown>): Promise<string> =>
  promise.then(
    () => "taken",
    (error: { code?: string }) => error.code ?? String(error),
  );

describe("an access token", () => {
  it("says who its bearer is", async () => {
    const claims = await admitted({ z_cfs: ["ab"], z_cae: true, amr: ["password", "totp"], auth_time: SECONDS - 9 });
    expect(claims).toEqual({
      token: expect.stringMatching(/^ey/),
      tokenId: "j1",
      identityId: "i1",
      apiSessionId: "a1",
      issuedAt: NOW,
      endsAt: NOW + 1_800_000 + 30_000,
      fingerprints: ["ab"],
      allowsExpiredCertificates: true,
      totpAt: NOW - 9_000,
    });
    expect((await admitted({ aud: "native", jti: "j2", auth_time: SECONDS })).totpAt).toBeUndefined();
  });

  it.each(["RS256", "RS384", "RS512", "ES256", "ES384", "ES512"] as const)("may be signed by %s", async (algorithm) => {
    const other = new TestKey(algorithm, algorithm);
    await source.put(other.event);
    expect((await admit(await other.sign(ACCESS))).identityId).toBe("i1");
  });

  it.each<[string, JWTPayload]>([
    ["TYPE", { z_t: "r" }],
    ["TYPE", { z_t: "s" }],
    ["TYPE", { z_t: undefined }],
    ["AUDIENCE", { aud: ["other"] }],
    ["AUDIENCE", { aud: undefined as never }],
    ["MALFORMED", { aud: [7] as never }],
    ["MALFORMED", { sub: "" }],
    ["MALFORMED", { sub: undefined as never }],
    ["MALFORMED", { jti: undefined as never }],
    ["MALFORMED", { z_asid: undefined }],
    ["MALFORMED", { z_asid: 7 }],
    ["MALFORMED", { iat: undefined as never }],
    ["MALFORMED", { exp: undefined as never }],
    ["MALFORMED", { exp: "soon" as never }],
    ["MALFORMED", { exp: 1e300 }],
    ["MALFORMED", { z_cfs: "ab" }],
    ["MALFORMED", { z_cfs: [7] }],
    ["MALFORMED", { amr: "totp" }],
    ["EXPIRED", { exp: SECONDS - 31 }],
    ["taken", { exp: SECONDS - 29 }],
    ["EXPIRED", { nbf: SECONDS + 31 }],
    ["taken", { nbf: SECONDS + 29 }],
    ["EXPIRED", { iat: SECONDS + 31 }],
    ["taken", { iat: SECONDS + 29 }],
    ["IDENTITY", { sub: "nobody" }],
  ])("is %s with %j", async (code, claims) => {
    expect(await refusal(admitted(claims))).toBe(code);
  });

  it("is refused when it ends, although it was verified before", async () => {
    const token = await key.sign(ACCESS);
    await admit(token);
    now += 1_800_000 + 30_000;
    expect(await refusal(admit(token))).toBe("EXPIRED");
  });

  it("is refused with a signature that the key did not make, by any trick", async () => {
    const token = await key.sign(ACCESS);
    const [header = "", body = "", signature = ""] = token.split(".");
    const encoded = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
    const named = { kid: "k1", typ: "JWT" };
    const hs = `${encoded({ ...named, alg: "HS256" })}.${body}`;
    const secret = key.publicKey.export({ format: "pem", type: "spki" });
    const hmac = createHmac("sha256", secret).update(hs).digest("base64url");
    const foreign = await new TestKey("k1").sign(ACCESS);
    const otherCurve = await new TestKey("k1", "ES384").sign(ACCESS);
    for (const [code, text] of [
      ["SIGNATURE", `${encoded({ ...named, alg: "none" })}.${body}.`],
      ["SIGNATURE", `${hs}.${hmac}`],
      ["SIGNATURE", foreign],
      ["SIGNATURE", otherCurve],
      ["SIGNATURE", `${header}.${encoded({ ...ACCESS, sub: "i2" })}.${signature}`],
      ["MALFORMED", await key.sign(ACCESS, { crit: ["b64"], b64: false }).catch(() => "x.y.z")],
      ["MALFORMED", `${header}.${body}`],
      ["MALFORMED", "ey"],
      ["MALFORMED", ""],
      ["MALFORMED", `${encoded({ alg: "ES256" })}.${body}.${signature}`],
      ["MALFORMED", `${token}${"A".repeat(MAX_TOKEN_LENGTH)}`],
      ["UNKNOWN_KEY", `${encoded({ ...named, kid: "__proto__", alg: "ES256" })}.${body}.${signature}`],
    ] as const) {
      expect([text.slice(0, 60), await refusal(admit(text))]).toEqual([text.slice(0, 60), code]);
    }
  });

  it("needs a key that signs tokens, and one that can be read", async () => {
    const clients = new TestKey("clients");
    const { value } = clients.event as { value: object };
    await source.put({ case: "publicKey", value: { ...value, usages: [1] } } as never);
    expect(await refusal(admit(await clients.sign(ACCESS)))).toBe("UNKNOWN_KEY");
    await source.put({ case: "publicKey", value: { ...value, data: Buffer.from("no key") } } as never);
    expect(await refusal(admit(await clients.sign(ACCESS)))).toBe("UNKNOWN_KEY");
  });

  it("waits for its key and its identity, and for no longer than it may", async () => {
    const late = new TestKey("late");
    const token = await late.sign({ ...ACCESS, sub: "i9" });
    const waiting = admit(token, 10_000);
    await source.put(late.event);
    await source.put(identity("i9"));
    expect((await waiting).identityId).toBe("i9");
    const unknown = await new TestKey("never").sign(ACCESS);
    expect(await refusal(admit(unknown, 5))).toBe("UNKNOWN_KEY");
    const stop = new AbortController();
    const stopped = access.accessToken(unknown, { timeoutMs: 10_000, signal: stop.signal });
    stop.abort(new Error("stopped"));
    await expect(stopped).rejects.toThrow("stopped");
  });

  it("is refused once its key is gone, although it was verified before", async () => {
    const token = await key.sign(ACCESS);
    await admit(token);
    await source.remove(key.event);
    expect(await refusal(admit(token))).toBe("UNKNOWN_KEY");
  });

  it("is refused for a disabled identity", async () => {
    await source.put(identity("i1", true));
    expect(await refusal(admitted())).toBe("IDENTITY");
    expect([access.isEnabled("i1"), access.isEnabled("nobody")]).toEqual([false, false]);
  });
});

describe("a revocation", () => {
  it.each<[string, Parameters<typeof revocation>, boolean]>([
    ["of the token", ["j1", "JTI", NOW + 1000], true],
    ["of another token", ["j2", "JTI", NOW + 1000], false],
    ["of the API session", ["a1", "API_SESSION", NOW + 1000], true],
    ["of the identity", ["i1", "IDENTITY", NOW + 1000], true],
    ["of the identity, of this second", ["i1", "IDENTITY", NOW + 1000, NOW + 500], true],
    ["of the identity, of before", ["i1", "IDENTITY", NOW + 1000, NOW - 1000], false],
    ["of another type with the same id", ["a1", "JTI", NOW + 1000], false],
    ["without type, of the token", ["j1", "", NOW + 1000], true],
    ["without type, of the identity", ["i1", "", NOW + 1000], false],
    ["that has ended, within the leeway", ["j1", "JTI", NOW - 29_000], true],
    ["that has ended", ["j1", "JTI", NOW - 30_000], false],
  ])("%s", async (_what, [id, type, until, before], isRevoked) => {
    const claims = await admitted();
    await source.put(revocation(id, type, until, before));
    expect(access.isRevoked(claims)).toBe(isRevoked);
    expect(await refusal(admit(claims.token))).toBe(isRevoked ? "REVOKED" : "taken");
  });
});

describe("a service token", () => {
  it("says what it is for", async () => {
    const claims = await access.serviceToken(await key.sign({ ...SERVICE, z_leg: true }), await admitted());
    const wanted = {
      sessionId: "x1",
      serviceId: "s1",
      apiSessionId: "a1",
      identityId: "i1",
      type: "Dial",
      isLegacy: true,
    };
    expect(claims).toEqual(wanted);
  });

  it.each<[string, JWTPayload]>([
    ["OTHER_SESSION", { z_asid: "a2" }],
    ["OTHER_SESSION", { z_iid: "i2" }],
    ["TYPE", { z_t: "a" }],
    ["AUDIENCE", { aud: ["x"] }],
    ["MALFORMED", { z_st: "Both" }],
    ["MALFORMED", { z_iid: undefined }],
    ["MALFORMED", { exp: undefined as never }],
    ["EXPIRED", { exp: SECONDS - 30 }],
  ])("is %s with %j", async (code, claims) => {
    const token = await key.sign({ ...SERVICE, ...claims });
    expect(await refusal(access.serviceToken(token, await admitted()))).toBe(code);
  });
});

describe("what an identity may do", () => {
  const ask = (question: object = {}) =>
    access.may({ identityId: "i1", apiSessionId: "a1", serviceId: "s1", type: "Dial", ...question });

  it("is decided by policies, with the reason of a refusal", async () => {
    expect(ask()).toEqual({ isAllowed: true });
    const reason = (question: object) => {
      const verdict = ask(question);
      return verdict.isAllowed ? "allowed" : verdict.reason;
    };
    expect(reason({ type: "Bind" })).toBe("no policy");
    expect(reason({ serviceId: "s2" })).toBe("no policy");
    expect(reason({ serviceId: "s9" })).toBe("unknown service");
    expect(reason({ identityId: "i9" })).toBe("no identity");
    await source.put(identity("i1", true));
    expect(reason({})).toBe("disabled");
  });

  it("depends on posture: of several policies one with all of its checks is enough", async () => {
    const domain = (name: string) => ({ case: "domains", value: { domains: [name] } });
    await source.put(check("c2", domain("two")), check("c1", domain("one")), member("dial", "check", ["c2", "c1"]));
    expect(ask()).toEqual({ isAllowed: false, reason: "posture", failingCheckIds: ["c1", "c2"] });
    const claims = await admitted();
    access.joined(claims);
    const report = (name: string) => {
      const type = { case: "domain" as const, value: { name } };
      access.reported(claims, create(edgeClientPb.PostureResponsesSchema, { responses: [{ type }] }));
    };
    report("one");
    expect(ask()).toEqual({ isAllowed: false, reason: "posture", failingCheckIds: ["c2"] });
    expect(ask({ apiSessionId: "a2" })).toMatchObject({ failingCheckIds: ["c1", "c2"] });
    await source.put(policy("other", "Dial"), member("other", "identity", ["i1"]), member("other", "service", ["s1"]));
    await source.put(member("other", "check", ["c1"]));
    expect(ask()).toEqual({ isAllowed: true });
    await source.put(member("other", "check", ["missing"]));
    expect(ask()).toMatchObject({ failingCheckIds: ["c2", "missing"] });
    access.reported(
      claims,
      create(edgeClientPb.PostureResponsesSchema, {
        responses: [{ type: { case: "domain", value: { name: "x".repeat(70_000) } } }],
      }),
    );
    expect(ask()).toMatchObject({ failingCheckIds: ["c2", "missing"] });
  });

  it("with TOTP: by a token of this session, or by the login, and never moved back", async () => {
    await source.put(check("mfa", { case: "mfa", value: { timeoutSeconds: 60n } }), member("dial", "check", ["mfa"]));
    const told: AccessChange[] = [];
    access.onChange((change) => told.push(change));
    const claims = await admitted();
    access.joined(claims);
    const pass = async (token: string) => {
      const type = { case: "totpToken" as const, value: { token } };
      access.reported(claims, create(edgeClientPb.PostureResponsesSchema, { responses: [{ type }] }));
      // Verified in the background.
      await admit(await key.sign({ ...ACCESS, jti: token.slice(-20) }));
    };
    await pass(await key.sign({ ...TOTP, z_asid: "a2" }));
    await pass(await key.sign({ ...TOTP, z_t: "a" }));
    expect(ask().isAllowed).toBe(false);
    await pass(await key.sign(TOTP));
    await expect.poll(() => ask()).toEqual({ isAllowed: true, until: NOW + 60_000 });
    expect(access.view("i1", "a1").checkStates.get("mfa")).toEqual({ isPassing: true, timeoutAt: NOW + 60_000 });
    access.joined({ ...claims, totpAt: NOW - 59_000 });
    now += 30_000;
    expect(ask().isAllowed).toBe(true);
    now += 31_000;
    expect(ask().isAllowed).toBe(false);
    const fresh = { ...claims, apiSessionId: "a3", totpAt: now - 10_000 };
    access.joined(fresh);
    expect(ask({ apiSessionId: "a3" }).isAllowed).toBe(true);
    await expect.poll(() => told.some(({ sessions }) => sessions.has("a1"))).toBe(true);
  });
});

describe("the view of an identity", () => {
  it("has its services with configs, policies, checks and how they stand", async () => {
    await source.put(
      { case: "configType", value: { id: "t", name: "host.v1" } } as never,
      { case: "config", value: { id: "c", typeId: "t", name: "c", dataJson: '{"port":1}' } } as never,
      { case: "config", value: { id: "own", typeId: "t", name: "own", dataJson: '{"port":2}' } } as never,
      service("s1", ["c"]),
      {
        case: "identity",
        value: { id: "i1", name: "one", serviceConfigs: { s1: { configs: { t: "own" } } } },
      } as never,
      policy("bind", "Bind"),
      member("bind", "identity", ["i1"]),
      member("bind", "service", ["s1", "s2"]),
      member("bind", "check", ["c1"]),
    );
    const view = access.view("i1", "a1");
    expect(view.index).toBe(source.model.index);
    expect([...view.services.keys()].sort()).toEqual(["s1", "s2"]);
    expect(view.services.get("s1")).toEqual({
      id: "s1",
      name: "name of s1",
      isEncrypted: true,
      configIds: ["c"],
      policyIds: ["bind", "dial"],
      configs: [{ typeId: "t", typeName: "host.v1", dataJson: '{"port":2}' }],
    });
    expect(view.policies.get("bind")).toEqual({ id: "bind", type: "Bind", checkIds: ["c1"] });
    expect(Object.fromEntries(view.policyStates)).toEqual({ bind: false, dial: true });
    expect(view.checkStates.get("c1")).toEqual({ isPassing: false });
    expect([access.serviceIdOf("name of s1"), access.identityName("i1")]).toEqual(["s1", "one"]);
    await source.put(identity("i1", true));
    expect(access.view("i1", "a1").services.size).toBe(0);
    expect(access.view("nobody", "a1").services.size).toBe(0);
  });
});

it("tells of changes together, each once", async () => {
  const told: AccessChange[] = [];
  access.onChange((change) => told.push(change));
  await expect.poll(() => told.length).toBe(1);
  told.splice(0);
  await source.put(identity("i2"));
  await source.put(revocation("a7", "API_SESSION", NOW));
  await source.put(identity("i3"));
  await expect.poll(() => told.length).toBe(1);
  expect(told).toEqual([{ identities: new Set(["i2", "i3"]), sessions: new Set(["a7"]), index: source.model.index }]);
});

describe("what is kept of posture", () => {
  const state = { device: { processes: [] }, session: { mfaPassedAt: 1 } };

  it("outlives the last channel of its session by five minutes, and nothing is kept without a channel", () => {
    const store = new PostureStore();
    expect(store.set("a", state)).toBe(false);
    store.join("a", 0);
    expect(store.set("a", state)).toBe(true);
    store.leave("a", 0);
    store.sweep(299_999);
    expect(store.get("a")).toBe(state);
    store.join("a", 299_999);
    expect(store.get("a")).toBe(state);
    store.leave("a", 300_000);
    store.join("a", 600_000);
    expect(store.get("a").session).toEqual({});
    store.set("a", state);
    store.leave("a", 0);
    store.sweep(300_000);
    expect(store.get("a").session).toEqual({});
  });

  it("is bounded in sessions without a channel: the oldest goes", () => {
    const store = new PostureStore();
    for (let i = 0; i <= MAX_LEFT; i++) {
      store.join(String(i), 0);
      store.set(String(i), state);
      store.leave(String(i), 0);
    }
    expect(store.sizes).toEqual({ joined: 0, left: MAX_LEFT });
    expect([store.get("0").session, store.get("1").session]).toEqual([{}, { mfaPassedAt: 1 }]);
  });
});
