import { X509Certificate } from "node:crypto";
import { createCsr, createKeyPair, signingKeys, x509 } from "@sallyport/wire";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { DEFAULT_LIFETIMES } from "../../pki/testing.ts";
import { type CallOptions, startTestController, type TestController } from "../testing/test-controller.ts";

let c: TestController;
beforeAll(async () => {
  c = await startTestController();
});
afterAll(() => c.close());

const CLIENT = "/edge/client/v1";
const client = (method: string, path: string, options?: CallOptions) => c.call(method, `${CLIENT}${path}`, options);

/** An identity that has enrolled by one-time token. */
async function enrolled(name: string, more: object = {}) {
  const id = await c.make("identities", { name, type: "User", isAdmin: false, enrollment: { ott: true }, ...more });
  const { token } = (await c.admin("GET", `/identities/${id}`)).json.data.enrollment.ott;
  const { keyPem: key } = await createKeyPair();
  const csr = await createCsr({ commonName: id, keyPem: key });
  const answer = await client("POST", `/enroll?method=ott&token=${token}`, {
    body: csr,
    headers: { "content-type": "application/x-pem-file" },
  });
  expect([answer.status, answer.status === 200 ? "" : answer.text]).toEqual([200, ""]);
  const cert: string = answer.json.data.cert;
  return { id, token, key, cert, csr, enrollment: answer };
}

async function certLogin(of: { cert: string; key: string }, body: object = {}) {
  return client("POST", "/authenticate?method=cert", { body, cert: of.cert, key: of.key });
}

describe("authentication by password", () => {
  it("answers the session, names its token in both headers, and has told the routers by then", async () => {
    const answer = await client("POST", "/authenticate?method=password", {
      body: {
        username: "admin",
        password: "admin",
        configTypes: ["host.v1", "nothing"],
        envInfo: { os: "linux", arch: null },
        sdkInfo: { type: "test", appId: "a" },
      },
    });
    expect(answer.status).toBe(200);
    const { data } = answer.json;
    expect(answer.headers["zt-session"]).toBe(data.token);
    expect(answer.headers["svc-session"]).toBe(data.token);
    expect(c.announced).toContain(data.token);
    expect(data).toMatchObject({
      authQueries: [],
      configTypes: ["NH5p4FpGR"],
      identity: { entity: "identities", name: "Default Admin" },
      expirationSeconds: 1800,
      isMfaRequired: false,
      ipAddress: "127.0.0.1",
    });
    expect(data.id).toMatch(/^c[a-z0-9]{24}$/);
    const me = (await client("GET", "/current-identity", { token: data.token })).json.data;
    expect(me).toMatchObject({ envInfo: { os: "linux" }, sdkInfo: { type: "test", appId: "a" }, hasApiSession: true });
    const content = answer.rawHeaders.flatMap((each, i) =>
      each.toLowerCase() === "content-type" ? [answer.rawHeaders[i + 1]] : [],
    );
    expect(content).toEqual(["application/json"]);
  });

  it("says the same to a wrong password as to an unknown user, and 400 only to what is missing", async () => {
    const wrong = await client("POST", "/authenticate?method=password", {
      body: { username: "admin", password: "wrong" },
    });
    const unknown = await client("POST", "/authenticate?method=password", {
      body: { username: "nobody", password: "wrong" },
    });
    for (const answer of [wrong, unknown]) {
      expect(answer.status).toBe(401);
      expect({ ...answer.json.error, requestId: "" }).toEqual({
        code: "INVALID_AUTH",
        message: "The authentication request failed",
        requestId: "",
      });
    }
    const missing = await client("POST", "/authenticate?method=password", { body: { username: "admin" } });
    expect([missing.status, missing.json.error.code]).toEqual([400, "COULD_NOT_VALIDATE"]);
  });

  it("locks an identity out after the policy's number of failures in a row", async () => {
    const id = await c.make("identities", { name: "locked", type: "User", isAdmin: false });
    await c.make("authenticators", { identityId: id, method: "updb", username: "locked", password: "right-one" });
    await c.ctx.store.db.updateTable("auth_policy").set({ updb_max_attempts: 2 }).where("id", "=", "default").execute();
    try {
      const fail = () =>
        client("POST", "/authenticate?method=password", { body: { username: "locked", password: "wrong-one" } });
      await fail();
      await c.login("locked", "right-one");
      for (let n = 0; n < 3; n++) await fail();
      await expect(c.login("locked", "right-one")).rejects.toThrow("401");
      expect((await c.admin("GET", `/identities/${id}`)).json.data.disabled).toBe(true);
    } finally {
      await c.ctx.store.db
        .updateTable("auth_policy")
        .set({ updb_max_attempts: 0 })
        .where("id", "=", "default")
        .execute();
    }
  });

  it("logging out, and the end of the idle time, end the session", async () => {
    const token = await c.login("admin", "admin");
    expect((await client("DELETE", "/current-api-session", { token })).status).toBe(200);
    expect((await client("GET", "/current-api-session", { token })).status).toBe(401);
    const idle = await c.login("admin", "admin");
    c.clock.offsetMs = 31 * 60_000;
    try {
      const late = await client("GET", "/current-api-session", { token: idle });
      expect([late.status, late.json.error.code]).toEqual([401, "UNAUTHORIZED"]);
    } finally {
      c.clock.offsetMs = 0;
    }
  });
});

describe("enrollment by one-time token", () => {
  it("answers a certificate that authenticates, once, with the exact content type", async () => {
    const alice = await enrolled("alice");
    expect(alice.enrollment.headers["content-type"]).toBe("application/json");
    const leaf = new X509Certificate(alice.cert);
    expect(leaf.verify(c.pki.trustAnchors[1]!.publicKey)).toBe(true);
    const replayed = await client("POST", `/enroll?method=ott&token=${alice.token}`, {
      body: alice.csr,
      headers: { "content-type": "text/plain" },
    });
    expect([replayed.status, replayed.json.error.code]).toEqual([400, "INVALID_ENROLLMENT_TOKEN"]);
    const login = await certLogin(alice);
    expect(login.status).toBe(200);
    expect(login.json.data).toMatchObject({
      identityId: alice.id,
      improperClientCertChain: false,
      isCertExtendable: true,
    });
    const shown = (await c.admin("GET", `/identities/${alice.id}`)).json.data;
    expect(shown.enrollment).toEqual({});
    expect(shown.authenticators.cert.fingerprint).toMatch(/^[0-9a-f]{40}$/);
  });

  it("refuses foreign, expired and mistaken tokens and broken requests, and leaves the token usable", async () => {
    const id = await c.make("identities", { name: "refused", type: "User", isAdmin: false, enrollment: { ott: true } });
    const { token } = (await c.admin("GET", `/identities/${id}`)).json.data.enrollment.ott;
    const { keyPem } = await createKeyPair();
    const csr = await createCsr({ commonName: id, keyPem });
    const post = (path: string, body: unknown, headers = { "content-type": "application/x-pem-file" }) =>
      client("POST", path, { body, headers });
    const codes = async (answer: Promise<{ status: number; json: { error: { code: string } } }>) => {
      const { status, json } = await answer;
      return [status, json.error.code];
    };
    expect(await codes(post("/enroll?method=ott&token=11111111-2222-4333-8444-555555555555", csr))).toEqual([
      400,
      "INVALID_ENROLLMENT_TOKEN",
    ]);
    expect(
      await codes(
        post(`/enroll?method=updb&token=${token}`, JSON.stringify({ password: "secret" }), {
          "content-type": "application/json",
        }),
      ),
    ).toEqual([400, "INVALID_ENROLL_METHOD"]);
    expect(await codes(post(`/enroll?method=none&token=${token}`, csr))).toEqual([400, "INVALID_ENROLL_METHOD"]);
    expect(await codes(post(`/enroll?method=ott&token=${token}`, "not a request"))).toEqual([
      400,
      "COULD_NOT_PROCESS_CSR",
    ]);
    c.clock.offsetMs = 181 * 60_000;
    expect(await codes(post(`/enroll?method=ott&token=${token}`, csr))).toEqual([400, "ENROLLMENT_EXPIRED"]);
    c.clock.offsetMs = 0;
    expect(
      (await post(`/enroll/ott`, JSON.stringify({ token, clientCsr: csr }), { "content-type": "application/json" }))
        .status,
    ).toBe(200);
  });

  it("of two holders of one token one gets the certificate", async () => {
    const id = await c.make("identities", { name: "raced", type: "User", isAdmin: false, enrollment: { ott: true } });
    const { token } = (await c.admin("GET", `/identities/${id}`)).json.data.enrollment.ott;
    const csr = await createCsr({ commonName: id, keyPem: (await createKeyPair()).keyPem });
    const attempt = () =>
      client("POST", `/enroll?token=${token}`, { body: csr, headers: { "content-type": "text/plain" } });
    const statuses = (await Promise.all([attempt(), attempt(), attempt()])).map((answer) => answer.status).sort();
    expect(statuses).toEqual([200, 400, 400]);
  });

  it("updb sets the user's password", async () => {
    const id = await c.make("identities", {
      name: "updb-1",
      type: "User",
      isAdmin: false,
      enrollment: { updb: "updb-user" },
    });
    const { token } = (await c.admin("GET", `/identities/${id}`)).json.data.enrollment.updb;
    const answer = await client("POST", `/enroll?method=updb&token=${token}`, { body: { password: "updb-password" } });
    expect([answer.status, answer.json.data]).toMatchObject([200, { username: "updb-user" }]);
    await c.login("updb-user", "updb-password");
  });

  it("routers get a client and a server certificate, and renew them over HTTP", async () => {
    const id = await c.make("edge-routers", { name: "enrolling" });
    const { enrollmentToken } = (await c.admin("GET", `/edge-routers/${id}`)).json.data;
    const { keyPem: key } = await createKeyPair();
    const certCsr = await createCsr({ commonName: id, keyPem: key, sans: { dns: ["er.example"] } });
    const outsider = await createCsr({ commonName: "other", keyPem: key });
    const wrong = await client("POST", `/enroll?method=erott&token=${enrollmentToken}`, {
      body: { certCsr: outsider, serverCertCsr: certCsr },
    });
    expect(wrong.status).toBe(400);
    const answer = await client("POST", `/enroll?method=erott&token=${enrollmentToken}`, {
      body: { certCsr, serverCertCsr: certCsr },
    });
    expect(answer.status).toBe(200);
    const { cert, serverCert, ca } = answer.json.data;
    expect(new X509Certificate(cert).subject).toContain(`CN=${id}`);
    expect(new X509Certificate(serverCert).subjectAltName).toContain("er.example");
    expect(ca).toContain("BEGIN CERTIFICATE");
    const shown = (await c.admin("GET", `/edge-routers/${id}`)).json.data;
    expect(shown.isVerified).toBe(true);
    expect(shown.enrollmentJwt).toBeUndefined();
    const renewed = await client("POST", "/enroll/extend/router", {
      body: { certCsr, serverCertCsr: certCsr },
      cert,
      key,
    });
    expect(renewed.status).toBe(200);
    expect((await c.admin("GET", `/edge-routers/${id}`)).json.data.fingerprint).not.toBe(shown.fingerprint);
    const old = await client("POST", "/enroll/extend/router", { body: { certCsr, serverCertCsr: certCsr }, cert, key });
    expect([old.status, old.json.error.code]).toEqual([401, "UNAUTHORIZED"]);
  });

  it("a refreshed enrollment has a new token, the old one is dead", async () => {
    const id = await c.make("identities", { name: "refreshed", type: "User", isAdmin: false });
    const expiresAt = new Date(Date.now() + 600_000).toISOString();
    const enrollment = await c.make("enrollments", { identityId: id, method: "ott", expiresAt });
    const again = await c.admin("POST", "/enrollments", { identityId: id, method: "ott", expiresAt });
    expect([again.status, again.json.error.code]).toEqual([409, "ENROLLMENT_EXISTS"]);
    const before = (await c.admin("GET", `/enrollments/${enrollment}`)).json.data;
    expect((await c.admin("POST", `/enrollments/${enrollment}/refresh`, { expiresAt })).status).toBe(200);
    const after = (await c.admin("GET", `/enrollments/${enrollment}`)).json.data;
    expect(after.token).not.toBe(before.token);
    const past = await c.admin("POST", "/enrollments", { identityId: "nobody", method: "ott", expiresAt });
    expect([past.status, past.json.error.code]).toEqual([400, "REFERENCED_ENTITY_NOT_FOUND"]);
  });
});

describe("certificates", () => {
  it("are extended by their holder, in force only after they were confirmed", async () => {
    const dora = await enrolled("dora");
    const login = await certLogin(dora);
    const { token, authenticatorId } = login.json.data;
    const csr = await createCsr({ commonName: dora.id, keyPem: dora.key });
    const path = `/current-identity/authenticators/${authenticatorId}`;
    const without = await client("POST", `${path}/extend`, { token, body: { clientCertCsr: csr } });
    expect(without.status).toBe(400);
    const extended = await client("POST", `${path}/extend`, {
      token,
      body: { clientCertCsr: csr },
      cert: dora.cert,
      key: dora.key,
    });
    expect(extended.status).toBe(200);
    const renewed = { cert: extended.json.data.clientCert as string, key: dora.key };
    expect((await certLogin(renewed)).status).toBe(401);
    const verified = await client("POST", `${path}/extend-verify`, { token, body: { clientCert: renewed.cert } });
    expect(verified.status).toBe(200);
    expect((await certLogin(renewed)).status).toBe(200);
    expect((await certLogin(dora)).status).toBe(401);
  });

  it("of unknown authorities do not authenticate", async () => {
    const { keyPem: key } = await createKeyPair();
    const { Pki } = await import("../../pki/pki.ts");
    const { createPkiMaterial } = await import("../../pki/material.ts");
    const foreign = new Pki(
      await createPkiMaterial({ lifetimes: DEFAULT_LIFETIMES, controllerId: "c", hosts: ["localhost"] }),
      { lifetimes: DEFAULT_LIFETIMES },
    );
    const issued = await foreign.issueIdentityCertificate(await createCsr({ commonName: "x", keyPem: key }));
    const answer = await certLogin({ cert: issued.pem, key });
    expect([answer.status, answer.json.error.code]).toEqual([401, "INVALID_AUTH"]);
  });

  it("of a session are for that session alone", async () => {
    const token = await c.login("admin", "admin");
    const other = await c.login("admin", "admin");
    const csr = await createCsr({ commonName: "session", keyPem: (await createKeyPair()).keyPem });
    const made = await client("POST", "/current-api-session/certificates", { token, body: { csr } });
    expect(made.status).toBe(201);
    const { id, certificate } = made.json.data;
    expect(certificate).toContain("BEGIN CERTIFICATE");
    const list = (await client("GET", "/current-api-session/certificates", { token })).json.data;
    expect(list).toMatchObject([{ id }]);
    expect((await client("GET", "/current-api-session/certificates", { token: other })).json.data).toEqual([]);
    expect((await client("GET", `/current-api-session/certificates/${id}`, { token: other })).status).toBe(404);
    expect((await client("DELETE", `/current-api-session/certificates/${id}`, { token: other })).status).toBe(404);
    expect((await client("DELETE", `/current-api-session/certificates/${id}`, { token })).status).toBe(200);
  });
});

describe("a request for a certificate that names no subject", () => {
  const unnamed = async (keyPem: string) => {
    const { pair, algorithm } = await signingKeys(keyPem);
    const request = { name: "", keys: pair, signingAlgorithm: algorithm };
    return (await x509.Pkcs10CertificateRequestGenerator.create(request)).toString("pem");
  };

  it("is good for a session", async () => {
    const token = await c.login("admin", "admin");
    const csr = await unnamed((await createKeyPair()).keyPem);
    const made = await client("POST", "/current-api-session/certificates", { token, body: { csr } });
    expect([made.status, made.json.error]).toEqual([201, undefined]);
    const list = (await client("GET", "/current-api-session/certificates", { token })).json.data;
    expect(list).toMatchObject([{ id: made.json.data.id, subject: "" }]);
  });

  it("is good for an identity, which authenticates with it and extends it", async () => {
    const id = await c.make("identities", { name: "unnamed", type: "User", isAdmin: false, enrollment: { ott: true } });
    const { token: invitation } = (await c.admin("GET", `/identities/${id}`)).json.data.enrollment.ott;
    const { keyPem: key } = await createKeyPair();
    const clientCsr = await unnamed(key);
    const answer = await client("POST", `/enroll?method=ott&token=${invitation}`, { body: { clientCsr } });
    const { cert } = answer.json.data;
    const { token, authenticatorId } = (await certLogin({ cert, key })).json.data;
    const path = `/current-identity/authenticators/${authenticatorId}/extend`;
    const extended = await client("POST", path, { token, body: { clientCertCsr: clientCsr }, cert, key });
    expect([extended.status, extended.json.error]).toEqual([200, undefined]);
  });
});

describe("access", () => {
  it("needs a session, and an administrator's for the Management API", async () => {
    expect((await client("GET", "/services")).status).toBe(401);
    const mallory = await enrolled("mallory");
    const token = (await certLogin(mallory)).json.data.token as string;
    const answer = await c.call("GET", "/edge/management/v1/identities", { token });
    expect([answer.status, answer.json.error.code]).toEqual([401, "UNAUTHORIZED"]);
  });
});
