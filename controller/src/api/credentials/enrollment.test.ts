import { randomBytes, X509Certificate } from "node:crypto";
import { createCsr, createKeyPair, fingerprint } from "@sallyport/wire";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ThirdParty } from "../../auth/testing/third-party.ts";
import { registerCa } from "../testing/registered-ca.ts";
import { type Answer, startTestController, type TestController } from "../testing/test-controller.ts";

const DAY = 86_400_000;
const ENROLL = "/edge/client/v1/enroll";
const SERVER_AUTH = "1.3.6.1.5.5.7.3.1";

let c: TestController;
let key: string;
let csr: string;
beforeAll(async () => {
  c = await startTestController();
  key = (await createKeyPair()).keyPem;
  csr = await createCsr({ commonName: "client", keyPem: key });
});
afterAll(() => c.close());

async function invite(name: string, enrollment: object): Promise<{ id: string; token: string; enrollmentId: string }> {
  const id = await c.make("identities", { name, type: "Device", isAdmin: false, enrollment });
  const [{ id: enrollmentId, token }] = (await c.admin("GET", `/identities/${id}/enrollments`)).json.data;
  return { id, token, enrollmentId };
}

const code = ({ status, json }: Answer) => [status, json?.error?.code];
const authenticators = async (id: string) => (await c.admin("GET", `/identities/${id}/authenticators`)).json.data;
const login = (certificate: { certPem: string; keyPem: string }, chain = "") =>
  c.call("POST", "/edge/client/v1/authenticate?method=cert", {
    body: {},
    cert: certificate.certPem + chain,
    key: certificate.keyPem,
  });

describe("enrollment by one-time token", () => {
  const json = (body: object) => ({ body });
  const text = (type: string | undefined, accept?: string) => ({
    body: csr,
    headers: { ...(type && { "content-type": type }), ...(accept && { accept }) },
  });
  it.each<[string, (token: string) => string, (token: string) => object, string]>([
    ["PEM, as Go SDKs send it", (t) => `?method=ott&token=${t}`, () => text("application/x-pem-file"), "json"],
    ["PEM as text, as C SDKs send it", (t) => `?method=ott&token=${t}`, () => text("text/plain"), "json"],
    ["PEM without a content type", (t) => `?token=${t}`, () => text(undefined), "json"],
    ["PEM as PKCS#7", (t) => `?token=${t}`, () => text("application/pkcs7"), "json"],
    [
      "PEM, answered in PEM",
      (t) => `?token=${t}`,
      () => text("text/plain", "application/x-pem-file"),
      "application/x-pem-file",
    ],
    ["JSON", (t) => `?method=ott&token=${t}`, () => json({ clientCsr: csr }), "json"],
    ["JSON with the token", () => "", (token) => json({ token, clientCsr: csr }), "json"],
    ["/ott with PKCS#10", (t) => `/ott?token=${t}`, () => text("application/pkcs10"), "json"],
    [
      "/ott with PKCS#10, answered in PEM",
      (t) => `/ott?token=${t}`,
      () => text("application/pkcs10", "application/json, application/x-x509-user-cert"),
      "application/x-x509-user-cert",
    ],
    ["/ott with JSON", () => "/ott", (token) => json({ token, clientCsr: csr }), "json"],
  ])("takes %s", async (what, path, options, answered) => {
    const { id, token } = await invite(what, { ott: true });
    const answer = await c.call("POST", ENROLL + path(token), options(token));
    expect([answer.status, answer.text.slice(0, 200)]).toEqual([200, expect.anything()]);
    if (answered !== "json") expect(answer.headers["content-type"]).toBe(answered);
    else
      expect(answer.rawHeaders.filter((_, i, all) => /^content-type$/i.test(all[i - 1] ?? ""))).toEqual([
        "application/json",
      ]);
    const certPem: string = answered === "json" ? answer.json.data.cert : answer.text;
    expect(await authenticators(id)).toMatchObject([{ method: "cert", fingerprint: fingerprint(certPem) }]);
    expect((await login({ certPem, keyPem: key })).json.data.identityId).toBe(id);
  });

  it("works once, also when many come with it at the same moment", async () => {
    const { id, token } = await invite("once", { ott: true });
    const answers = await Promise.all(
      Array.from({ length: 12 }, () => c.call("POST", `${ENROLL}?token=${token}`, { body: { clientCsr: csr } })),
    );
    expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array.from({ length: 11 }, () => 400)]);
    for (const answer of answers) if (answer.status !== 200) expect(code(answer)[1]).toBe("INVALID_ENROLLMENT_TOKEN");
    const [{ fingerprint: stored }] = await authenticators(id);
    expect(fingerprint(answers.find(({ status }) => status === 200)!.json.data.cert)).toBe(stored);
  });

  it("stays usable after a failure, and tells what failed", async () => {
    const { token } = await invite("failing", { ott: true });
    const attempt = (query: string, body: object) => c.call("POST", `${ENROLL}?${query}`, { body });
    const other = "00000000-0000-4000-8000-000000000000";
    expect(code(await attempt(`token=${token}`, {}))).toEqual([400, "MISSING_OR_INVALID_CSR"]);
    expect(code(await attempt(`token=${token}`, { clientCsr: "x" }))).toEqual([400, "COULD_NOT_PROCESS_CSR"]);
    expect(code(await attempt(`token=${token}&method=updb`, { password: "secret" }))).toEqual([
      400,
      "INVALID_ENROLL_METHOD",
    ]);
    expect(code(await attempt(`token=${token}&method=telepathy`, {}))).toEqual([400, "INVALID_ENROLL_METHOD"]);
    expect(code(await attempt(`token=${other}`, { clientCsr: csr }))).toEqual([400, "INVALID_ENROLLMENT_TOKEN"]);
    expect(code(await attempt("token=short", { clientCsr: csr }))).toEqual([400, "COULD_NOT_VALIDATE"]);
    expect(code(await attempt("method=ott", { clientCsr: csr }))).toEqual([400, "INVALID_ENROLLMENT_TOKEN"]);
    const plain = { body: csr, headers: { "content-type": "text/plain", accept: "text/html" } };
    expect(code(await c.call("POST", `${ENROLL}?token=${token}`, plain))).toEqual([415, "UNSUPPORTED_MEDIA"]);
    c.clock.offsetMs = DAY;
    try {
      expect(code(await attempt(`token=${token}`, { clientCsr: csr }))).toEqual([400, "ENROLLMENT_EXPIRED"]);
    } finally {
      c.clock.offsetMs = 0;
    }
    expect((await attempt(`token=${token}`, { clientCsr: csr })).status).toBe(200);
  });

  it("is refreshed: the old token is dead, an expired one lives again", async () => {
    const { token, enrollmentId } = await invite("refreshed", { ott: true });
    const refresh = (expiresAt: Date) => c.admin("POST", `/enrollments/${enrollmentId}/refresh`, { expiresAt });
    expect((await refresh(new Date(Date.now() - 1000))).json.error.cause.field).toBe("expiresAt");
    expect((await refresh(new Date(Date.now() + DAY))).status).toBe(200);
    const { token: fresh, jwt } = (await c.admin("GET", `/enrollments/${enrollmentId}`)).json.data;
    expect(JSON.parse(Buffer.from(jwt.split(".")[1], "base64url").toString()).jti).toBe(fresh);
    const attempt = (t: string) => c.call("POST", `${ENROLL}?token=${t}`, { body: { clientCsr: csr } });
    expect(code(await attempt(token))).toEqual([400, "INVALID_ENROLLMENT_TOKEN"]);
    expect((await attempt(fresh)).status).toBe(200);
  });

  it("is outstanding once for each method", async () => {
    const { id } = await invite("outstanding", { ott: true });
    const expiresAt = new Date(Date.now() + DAY);
    const create = (body: object) => c.admin("POST", "/enrollments", { identityId: id, expiresAt, ...body });
    const second = await create({ method: "ott" });
    expect(code(second)).toEqual([409, "ENROLLMENT_EXISTS"]);
    expect(second.json.error.cause).toMatchObject({ field: "method", value: "ott" });
    expect((await create({ method: "updb", username: "outstanding" })).status).toBe(201);
    expect((await create({ method: "ottca", caId: "none" })).json.error.cause.field).toBe("caId");
    const [{ token }] = (await c.admin("GET", `/identities/${id}/enrollments`)).json.data.filter(
      ({ method }: { method: string }) => method === "ott",
    );
    expect((await c.call("POST", `${ENROLL}?token=${token}`, { body: { clientCsr: csr } })).status).toBe(200);
    const [cert] = await authenticators(id);
    const again = await c.admin("POST", `/authenticators/${cert.id}/re-enroll`, { expiresAt });
    expect((await c.admin("GET", `/enrollments/${again.json.data.id}`)).json.data.method).toBe("ott");
    expect(await authenticators(id)).toEqual([]);
  });

  it("is taken back when its identity has a certificate already", async () => {
    const { id, token } = await invite("twice", { ott: true });
    await c.call("POST", `${ENROLL}?token=${token}`, { body: { clientCsr: csr } });
    await c.make("enrollments", { identityId: id, method: "ott", expiresAt: new Date(Date.now() + DAY) });
    const [{ token: second }] = (await c.admin("GET", `/identities/${id}/enrollments`)).json.data;
    const answer = await c.call("POST", `${ENROLL}?token=${second}`, { body: { clientCsr: csr } });
    expect(code(answer)).toEqual([409, "MAX_AUTHENTICATOR_METHODS_REACHED"]);
    expect((await c.admin("GET", `/identities/${id}/enrollments`)).json.data).toHaveLength(1);
  });
});

describe("enrollment by user name and password", () => {
  it.each(["?method=updb&token=", "/updb?token="])("%s", async (path) => {
    const username = path.startsWith("/") ? "second-user" : "first-user";
    const { id, token } = await invite(username, { updb: username });
    const attempt = (body: object, t = token) => c.call("POST", `${ENROLL}${path}${t}`, { body });
    expect((await attempt({})).json.error.cause.field).toBe("password");
    expect((await attempt({ password: "abc" })).json.error.cause.field).toBe("password");
    expect(code(await attempt({ password: "long enough" }, "x"))).toEqual([400, "COULD_NOT_VALIDATE"]);
    const done = await attempt({ password: "long enough" });
    expect(done.json.data).toEqual({ username, controllers: [expect.objectContaining({ isOnline: true })] });
    expect(await authenticators(id)).toMatchObject([{ method: "updb", username }]);
    expect(await c.login(username, "long enough")).toBeTruthy();
    expect(code(await attempt({ password: "long enough" }))).toEqual([400, "INVALID_ENROLLMENT_TOKEN"]);
  });

  it("sets the name that the administrator chose, whatever the request says", async () => {
    const { token } = await invite("chosen", { updb: "chosen-name" });
    const body = { username: "another-name", password: "long enough" };
    const done = await c.call("POST", `${ENROLL}/updb?token=${token}`, { body });
    expect(done.json.data).toMatchObject({ username: "chosen-name" });
  });

  it("refuses a name that was taken meanwhile, and leaves the token usable", async () => {
    const { token } = await invite("taken", { updb: "taken-name" });
    const identityId = await c.make("identities", { name: "faster", type: "Device", isAdmin: false });
    const method = "updb";
    const body = { identityId, method, username: "taken-name", password: "long enough" };
    const taking = (await c.admin("POST", "/authenticators", body)).json.data.id;
    const attempt = () => c.call("POST", `${ENROLL}/updb?token=${token}`, { body: { password: "long enough" } });
    expect((await attempt()).json.error.cause.field).toBe("username");
    expect((await c.admin("DELETE", `/authenticators/${taking}`)).status).toBe(200);
    expect((await attempt()).json.data).toMatchObject({ username: "taken-name" });
  });
});

describe("enrollment by a certificate of a registered authority", () => {
  it("ottca: an identity that exists, by an empty body", async () => {
    const authority = await ThirdParty.create("ottca CA", { key: "rsa" });
    const tier2 = await ThirdParty.create("ottca tier 2", { parent: authority });
    const tier3 = await ThirdParty.create("ottca tier 3", { parent: tier2 });
    const caId = await registerCa(c, authority, { name: "ottca" });
    const { id, token } = await invite("ottca", { ottca: caId });
    const leaf = await tier3.issue({ commonName: "anything", key: "rsa" });
    const attempt = (path: string, who?: { certPem: string; keyPem: string }, chain = "") =>
      c.call("POST", ENROLL + path, {
        headers: { "content-type": "text/plain" },
        ...(who && { cert: who.certPem + chain, key: who.keyPem }),
      });
    const path = `?method=ottca&token=${token}`;
    const outsider = await (await ThirdParty.create("ottca CA")).issue({ commonName: "x" });
    const server = await authority.issue({ commonName: "x", usages: [SERVER_AUTH] });
    const ended = await authority.issue({ commonName: "x", validMs: -1000 });
    expect(code(await attempt(path))).toEqual([400, "CERT_FAILED_VALIDATION"]);
    for (const [who, chain] of [
      [outsider, authority.certPem],
      [server, ""],
      [ended, ""],
      [leaf, ""],
      [leaf, tier2.certPem],
      [authority, ""],
    ] as const) {
      expect(code(await attempt(path, who, chain))).toEqual([400, "CERT_FAILED_VALIDATION"]);
    }
    await c.admin("PATCH", `/cas/${caId}`, { isOttCaEnrollmentEnabled: false });
    expect(code(await attempt(path, leaf, tier2.certPem + tier3.certPem))).toEqual([400, "ENROLLMENT_CA_NOT_VALID"]);
    await c.admin("PATCH", `/cas/${caId}`, { isOttCaEnrollmentEnabled: true });
    // Intermediates in the wrong order.
    const chain = tier2.certPem + tier3.certPem;
    const done = await attempt(`/ottca?token=${token}`, leaf, chain);
    expect([done.status, Object.keys(done.json.data)]).toEqual([200, ["controllers"]]);
    expect(await authenticators(id)).toMatchObject([
      { fingerprint: fingerprint(leaf.certPem), isIssuedByNetwork: false },
    ]);
    expect((await login(leaf, chain)).json.data.identityId).toBe(id);
    const second = await invite("ottca second", { ottca: caId });
    const inUse = await attempt(`?method=ottca&token=${second.token}`, leaf, chain);
    expect(code(inUse)).toEqual([409, "CERT_IN_USE"]);
    expect(inUse.json.error.cause.data).toEqual({ fingerprint: fingerprint(leaf.certPem) });
    // Re-enrolling asks for a certificate of the same authority again.
    const [cert] = await authenticators(id);
    const expiresAt = new Date(Date.now() + DAY);
    const again = await c.admin("POST", `/authenticators/${cert.id}/re-enroll`, { expiresAt });
    const enrollment = (await c.admin("GET", `/enrollments/${again.json.data.id}`)).json.data;
    expect(enrollment).toMatchObject({ method: "ottca", caId });
  });

  it("ca: makes an identity, named by the authority's format", async () => {
    const attempt = (who?: { certPem: string; keyPem: string }, body?: object, path = "?method=ca") =>
      c.call("POST", ENROLL + path, {
        ...(body === undefined ? { headers: { "content-type": "application/json" } } : { body }),
        ...(who && { cert: who.certPem, key: who.keyPem }),
      });
    for (const { id } of (await c.admin("GET", "/cas?limit=-1")).json.data) await c.admin("DELETE", `/cas/${id}`);
    const authority = await ThirdParty.create("auto CA");
    const leaf = await authority.issue({ commonName: "alice" });
    expect(code(await attempt(leaf))).toEqual([400, "ENROLLMENT_NO_VALID_CAS"]);
    const caId = await registerCa(c, authority, { name: "auto", identityRoles: ["z", "a"] });
    expect(code(await attempt())).toEqual([400, "CERT_FAILED_VALIDATION"]);
    const done = await attempt(leaf);
    expect([done.status, done.json.data]).toEqual([200, {}]);
    const named = async (name: string) =>
      (await c.admin("GET", `/identities?filter=${encodeURIComponent(`name = "${name}"`)}`)).json.data[0];
    const alice = await named("auto-alice");
    expect(alice).toMatchObject({ roleAttributes: ["a", "z"], authPolicyId: "default", isAdmin: false });
    expect((await login(leaf)).json.data.identityId).toBe(alice.id);
    expect(code(await attempt(leaf))).toEqual([409, "CERT_IN_USE"]);
    expect((await attempt(await authority.issue({ commonName: "alice" }), undefined, "/ca")).status).toBe(200);
    expect((await attempt(await authority.issue({ commonName: "alice" }))).status).toBe(200);
    expect([await named("auto-alice000001"), await named("auto-alice000002")]).toMatchObject([{}, {}]);

    await c.admin("PATCH", `/cas/${caId}`, { identityNameFormat: "[requestedName]/[caId]/[unknown]/[commonName]" });
    await attempt(await authority.issue({ commonName: "[caId]" }), { name: "bob" });
    expect(await named(`bob/${caId}/[unknown]/[caId]`)).toBeDefined();
    await c.admin("PATCH", `/cas/${caId}`, { identityNameFormat: "[requestedName]" });
    await attempt(await authority.issue({ commonName: "carol" }), { name: "ca\u2028rol\u202elo" });
    expect(await named("carollo")).toBeDefined();
    await attempt(await authority.issue({ commonName: "whoever\u0000\n" }));
    const newest = (await c.admin("GET", "/identities?sort=createdAt%20desc&limit=1")).json.data[0];
    expect(newest.name).toBe(newest.id);
    await c.admin("DELETE", `/cas/${caId}`);
    expect((await login(leaf)).status).toBe(401);
  });

  it("ca: of many who come with one certificate one is first, and many of one name all get one", async () => {
    const authority = await ThirdParty.create("crowd CA");
    const caId = await registerCa(c, authority, { name: "crowd" });
    const attempt = (who: { certPem: string; keyPem: string }) =>
      c.call("POST", `${ENROLL}?method=ca`, { cert: who.certPem, key: who.keyPem });
    const one = await authority.issue({ commonName: "one" });
    const statuses = (await Promise.all(Array.from({ length: 8 }, () => attempt(one)))).map(({ status }) => status);
    expect(statuses.sort()).toEqual([200, 409, 409, 409, 409, 409, 409, 409]);
    const many = await Promise.all(Array.from({ length: 8 }, () => authority.issue({ commonName: "many" })));
    expect((await Promise.all(many.map(attempt))).map(({ status }) => status)).toEqual(many.map(() => 200));
    const filter = encodeURIComponent('name contains "crowd-many"');
    expect((await c.admin("GET", `/identities?filter=${filter}`)).json.meta.pagination.totalCount).toBe(8);
    await c.admin("DELETE", `/cas/${caId}`);
  });

  it("with an external id claim there is no authenticator, and the next certificate works at once", async () => {
    const authority = await ThirdParty.create("claim CA");
    const externalIdClaim = {
      location: "SAN_EMAIL",
      matcher: "SUFFIX",
      matcherCriteria: "@acme.example",
      parser: "NONE",
      parserCriteria: null,
      index: 0,
    };
    const caId = await registerCa(c, authority, { name: "claim", externalIdClaim });
    const bob = (who: string) => authority.issue({ commonName: who, emails: ["bob@acme.example"] });
    const attempt = (who: { certPem: string; keyPem: string }, path = "?method=ca") =>
      c.call("POST", ENROLL + path, { cert: who.certPem, key: who.keyPem });
    const nameless = await authority.issue({ commonName: "nameless", emails: ["bob@other.example"] });
    expect(code(await attempt(nameless))).toEqual([400, "MISSING_CERT_CLAIM"]);
    const emails = [`${randomBytes(4_000).toString("hex")}@acme.example`];
    const boundless = await authority.issue({ commonName: "boundless", emails });
    expect(code(await attempt(boundless))).toEqual([400, "MISSING_CERT_CLAIM"]);
    expect((await attempt(await bob("first"))).status).toBe(200);
    const filter = encodeURIComponent('externalId = "bob"');
    const [identity] = (await c.admin("GET", `/identities?filter=${filter}`)).json.data;
    expect(await authenticators(identity.id)).toEqual([]);
    const second = await bob("second");
    expect((await login(second)).json.data.identityId).toBe(identity.id);
    expect(code(await attempt(second))).toEqual([409, "CERT_IN_USE"]);

    const { id, token } = await invite("claimed", { ottca: caId });
    expect(code(await attempt(second, `?method=ottca&token=${token}`))).toEqual([409, "CERT_IN_USE"]);
    const eve = await authority.issue({ commonName: "eve", emails: ["eve@acme.example"] });
    expect((await attempt(eve, `?method=ottca&token=${token}`)).status).toBe(200);
    expect((await c.admin("GET", `/identities/${id}`)).json.data.externalId).toBe("eve");
    expect((await login(eve)).json.data.identityId).toBe(id);
    expect((await login(nameless)).status).toBe(401);
    await c.admin("DELETE", `/cas/${caId}`);
  });
});

describe("enrollment of routers", () => {
  it.each([
    ["?method=erott&token=", "serverCertCsr"],
    ["/erott?token=", "serverCsr"],
  ])("%s", async (path, server) => {
    const id = await c.make("edge-routers", { name: `router ${path}` });
    const { enrollmentToken: token } = (await c.admin("GET", `/edge-routers/${id}`)).json.data;
    const own = await createCsr({ commonName: id, keyPem: key, sans: { dns: ["r.example"], ip: ["10.0.0.1"] } });
    const attempt = (body: object) => c.call("POST", `${ENROLL}${path}${token}`, { body });
    expect(code(await attempt({ certCsr: own }))).toEqual([400, "MISSING_OR_INVALID_CSR"]);
    const other = await createCsr({ commonName: "other", keyPem: key });
    expect(code(await attempt({ certCsr: other, [server]: own }))[0]).toBe(400);
    const { data } = (await attempt({ certCsr: own, [server]: own })).json;
    expect(new X509Certificate(data.serverCert).checkHost("r.example")).toBe("r.example");
    expect(data.ca).toBe(c.pki.caBundlePem);
    const router = (await c.admin("GET", `/edge-routers/${id}`)).json.data;
    expect(router).toMatchObject({ isVerified: true, fingerprint: fingerprint(data.cert) });

    // Over HTTP the new certificate counts at once.
    const extend = (cert: string) =>
      c.call("POST", `${ENROLL}/extend/router`, { body: { certCsr: own, serverCertCsr: own }, cert, key });
    const extended = await extend(data.cert);
    expect(extended.json.data).toEqual({ cert: expect.any(String), serverCert: expect.any(String) });
    expect((await extend(data.cert)).status).toBe(401);
    expect((await extend(extended.json.data.cert)).status).toBe(200);

    await c.admin("POST", `/edge-routers/${id}/re-enroll`);
    const again = (await c.admin("GET", `/edge-routers/${id}`)).json.data;
    expect(again).toMatchObject({ isVerified: false });
    expect(again.enrollmentToken).not.toBe(token);
    expect(code(await attempt({ certCsr: own, [server]: own }))[1]).toBe("INVALID_ENROLLMENT_TOKEN");
  });
});
