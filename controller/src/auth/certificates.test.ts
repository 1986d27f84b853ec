import { createPublicKey, X509Certificate } from "node:crypto";
import { once } from "node:events";
import { type ConnectionOptions, connect } from "node:tls";
import { TestAuthority } from "@sallyport/wire/testing";
import { forgedCertificate, forgedRsaKey, pemOf } from "@sallyport/wire/testing/forged-certificate";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { authPolicy } from "../api/testing/auth-policy.ts";
import { startTestController, type TestController } from "../api/testing/test-controller.ts";

const registered = {
  identityRoles: [],
  isAuthEnabled: true,
  isAutoCaEnrollmentEnabled: false,
  isOttCaEnrollmentEnabled: true,
};

let c: TestController;
/** A third party's root, its intermediate, and the authority that issues: leaves chain to the registered root over two certificates. */
let root: TestAuthority;
let chain: string;
let issuing: TestAuthority;
let caId: string;
beforeAll(async () => {
  c = await startTestController();
  root = await TestAuthority.create("Third-party root");
  const intermediate = await TestAuthority.create("Third-party intermediate", root);
  issuing = await TestAuthority.create("Third-party issuing", intermediate);
  chain = issuing.certPem + intermediate.certPem;
  caId = await c.make("cas", { ...registered, name: "third party", certPem: root.certPem });
  const { verificationToken } = (await c.admin("GET", `/cas/${caId}`)).json.data;
  const proof = await root.issue({ commonName: verificationToken });
  expect((await c.admin("POST", `/cas/${caId}/verify`, proof.certPem)).status).toBe(200);
});
afterAll(() => c.close());

let made = 0;
const policy = (cert: object) =>
  authPolicy(`certificates ${++made}`, { cert, updb: { allowed: false }, extJwt: { allowed: false } });

/** An identity with a certificate of the three-tier authority, enrolled by presenting it. */
const holder = async (more: object = {}, validity: { notBefore?: Date; notAfter?: Date } = {}) => {
  const authPolicyId = await c.make("auth-policies", policy(more));
  const name = `holder ${++made}`;
  const enrollment = { ottca: caId };
  const id = await c.make("identities", { name, type: "User", isAdmin: false, authPolicyId, enrollment });
  const leaf = await issuing.issue({ commonName: name, ...validity });
  const cert = leaf.certPem + chain;
  const { token } = (await c.admin("GET", `/identities/${id}`)).json.data.enrollment.ottca;
  const path = `/edge/client/v1/enroll?method=ottca&token=${token}`;
  const enrolled = await c.call("POST", path, { cert, key: leaf.keyPem });
  expect(enrolled.status).toBe(200);
  return { id, authPolicyId, cert, key: leaf.keyPem };
};
const login = (credential: { cert: string; key: string }) =>
  c.call("POST", "/edge/client/v1/authenticate?method=cert", { ...credential, body: {} });

test.each(["TLSv1.2", "TLSv1.3"] as const)(
  "a client of a three-tier authority that tries to resume its TLS session logs in each time (%s)",
  async (version) => {
    const { cert, key, id } = await holder();
    let session: Buffer | undefined;
    const visit = async (): Promise<{ isReused: boolean; answer: string }> => {
      const options: ConnectionOptions = {
        host: "127.0.0.1",
        port: c.port,
        servername: "localhost",
        ca: c.pki.caBundlePem,
        minVersion: version,
        maxVersion: version,
        cert,
        key,
        ...(session === undefined ? {} : { session }),
      };
      const socket = connect(options);
      socket.on("session", (next: Buffer) => {
        session = next;
      });
      let answer = "";
      socket.setEncoding("utf8").on("data", (text: string) => {
        answer += text;
      });
      await once(socket, "secureConnect");
      const isReused = socket.isSessionReused();
      session ??= socket.getSession();
      socket.write(
        "POST /edge/client/v1/authenticate?method=cert HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}",
      );
      await once(socket, "close");
      return { isReused, answer };
    };
    for (const visitNumber of [1, 2, 3]) {
      const { isReused, answer } = await visit();
      expect([visitNumber, isReused, answer.split("\r\n", 1)[0]]).toEqual([visitNumber, false, "HTTP/1.1 200 OK"]);
      expect(answer).toContain(id);
      expect(session).toBeDefined();
    }
  },
);

describe("5.4: the policy decides about certificates", () => {
  test("allowed", async () => {
    const { authPolicyId, ...credential } = await holder();
    expect((await login(credential)).status).toBe(200);
    await c.admin("PATCH", `/auth-policies/${authPolicyId}`, { primary: { cert: { allowed: false } } });
    const refused = await login(credential);
    expect([refused.status, refused.json.error.code]).toEqual([401, "INVALID_AUTH"]);
  });

  test("allowExpiredCerts", async () => {
    const notAfter = new Date(Date.now() + 3_600_000);
    const { authPolicyId, ...credential } = await holder({}, { notAfter });
    expect((await login(credential)).status).toBe(200);
    c.clock.offsetMs = 2 * 3_600_000;
    expect((await login(credential)).status).toBe(401);
    await c.admin("PATCH", `/auth-policies/${authPolicyId}`, { primary: { cert: { allowExpiredCerts: true } } });
    expect((await login(credential)).status).toBe(200);
    c.clock.offsetMs = 0;
  });

  test("a disabled identity is refused, for a time and forever", async () => {
    const { id, ...credential } = await holder();
    await c.admin("POST", `/identities/${id}/disable`, { durationMinutes: 5 });
    expect((await login(credential)).status).toBe(401);
    c.clock.offsetMs = 5 * 60_000;
    expect((await login(credential)).status).toBe(200);
    await c.admin("POST", `/identities/${id}/disable`, { durationMinutes: 0 });
    c.clock.offsetMs = 500_000 * 60_000;
    expect((await login(credential)).status).toBe(401);
    c.clock.offsetMs = 0;
  });

  test("a chain without its leaf's issuer, or a leaf of another client with this chain, is refused", async () => {
    const { cert, key } = await holder();
    const [leaf = ""] = cert.split(/(?<=-----END CERTIFICATE-----\n)/);
    expect((await login({ cert: leaf, key })).status).toBe(401);
    const outsider = await (await TestAuthority.create("Third-party issuing")).issue({ commonName: "outsider" });
    expect((await login({ cert: outsider.certPem + chain, key: outsider.keyPem })).status).toBe(401);
  });
});

describe("an outsider's chain", () => {
  test("is looked at in one search, however many authorities are registered, and none of its keys is used", async () => {
    const others = await Promise.all(Array.from({ length: 30 }, () => TestAuthority.create("Third-party root")));
    for (const [place, { certPem }] of others.entries()) {
      const id = await c.make("cas", { ...registered, name: `namesake ${place}`, certPem });
      const { verificationToken } = (await c.admin("GET", `/cas/${id}`)).json.data;
      const proof = await others[place]!.issue({ commonName: verificationToken });
      expect((await c.admin("POST", `/cas/${id}/verify`, proof.certPem)).status).toBe(200);
    }
    const { keyPem } = await root.issue({ commonName: "key" });
    const publicKey = createPublicKey(keyPem).export({ type: "spki", format: "der" });
    const slow = forgedRsaKey(3_072, 3_000);
    const name = "Third-party root";
    const forged = [
      forgedCertificate({ subject: "leaf", issuer: name, publicKey }),
      ...Array.from({ length: 9 }, () =>
        forgedCertificate({ subject: name, issuer: name, publicKey: slow, isCa: true }),
      ),
    ];
    const verify = vi.spyOn(X509Certificate.prototype, "verify");
    expect((await login({ cert: forged.map((der) => pemOf(der)).join(""), key: keyPem })).status).toBe(401);
    const keys = verify.mock.calls.map(([key]) => key.asymmetricKeyType);
    verify.mockRestore();
    expect(keys.length).toBeLessThanOrEqual(16);
    expect(keys).not.toContain("rsa");
  });
});
