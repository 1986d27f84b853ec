import { X509Certificate } from "node:crypto";
import { createCsr, createKeyPair, ProxiedRequestHeader, x509 } from "@sallyport/wire";
import { ecKey, forgedCertificate, forgedRsaKey } from "@sallyport/wire/testing/forged-certificate";
import { sql } from "kysely";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { type Keyed, ThirdParty } from "../../auth/testing/third-party.ts";
import { lockWaits } from "../../store/testing/test-store.ts";
import { registerCa } from "../testing/registered-ca.ts";
import { type Answer, startTestController, type TestController } from "../testing/test-controller.ts";

const { PassedOnAt: PROXIED_AT, ClientCertificate: CLIENT_CERTIFICATE } = ProxiedRequestHeader;

let c: TestController;
let router: Keyed & { id: string };
/** An identity that may log in with its certificate. */
let alice: Keyed & { id: string };
beforeAll(async () => {
  c = await startTestController();
  router = await enrolledRouter("router");
  alice = await enrolled("alice");
});
afterAll(() => c.close());

async function enrolled(name: string, isAdmin = false): Promise<Keyed & { id: string }> {
  const { keyPem } = await createKeyPair();
  const id = await c.make("identities", { name, type: "Device", isAdmin, enrollment: { ott: true } });
  const [{ token }] = (await c.admin("GET", `/identities/${id}/enrollments`)).json.data;
  const clientCsr = await createCsr({ commonName: name, keyPem });
  const answer = await c.call("POST", `/edge/client/v1/enroll?token=${token}`, { body: { clientCsr } });
  return { id, keyPem, certPem: answer.json.data.cert };
}

async function enrolledRouter(name: string, collection = "edge-routers"): Promise<Keyed & { id: string }> {
  const { keyPem } = await createKeyPair();
  const id = await c.make(collection, { name });
  const { enrollmentToken: token } = (await c.admin("GET", `/${collection}/${id}`)).json.data;
  const csr = await createCsr({ commonName: id, keyPem });
  const method = collection === "edge-routers" ? "erott" : "trott";
  const body = { certCsr: csr, serverCertCsr: csr };
  const answer = await c.call("POST", `/edge/client/v1/enroll?method=${method}&token=${token}`, { body });
  return { id, keyPem, certPem: answer.json.data.cert };
}

const der = (certPem: string): string => new X509Certificate(certPem).raw.toString("base64");
const marks = (...clientCertificates: string[]) => ({
  [PROXIED_AT]: new Date().toISOString(),
  ...(clientCertificates.length === 0 ? {} : { [CLIENT_CERTIFICATE]: clientCertificates }),
});

const login = (
  by: Keyed | undefined,
  headers: Record<string, string | string[]>,
  path = "/edge/client/v1/authenticate?method=cert",
): Promise<Answer> =>
  c.call("POST", path, {
    body: {},
    headers,
    ...(by === undefined ? {} : { cert: by.certPem, key: by.keyPem }),
  });
const outcome = ({ status, json }: Answer) => [status, json?.error?.code];
const REFUSED = [401, "INVALID_AUTH"];

describe("a login by certificate that a router passes on", () => {
  it("is the client's, over the certificate that the router was presented", async () => {
    for (const path of ["client", "management"]) {
      const answer = await login(router, marks(der(alice.certPem)), `/edge/${path}/v1/authenticate?method=cert`);
      expect(answer.status).toBe(200);
      const { identityId, token } = answer.json.data;
      expect(identityId).toBe(alice.id);
      // The session is used through the router, too.
      const headers = marks();
      const { cert, key } = { cert: router.certPem, key: router.keyPem };
      const current = await c.call("GET", "/edge/client/v1/current-identity", { token, headers, cert, key });
      expect(current.json.data.id).toBe(alice.id);
    }
  });

  it("may be that of a third party, with the intermediates in their order", async () => {
    const root = await ThirdParty.create("proxied root");
    const upper = await ThirdParty.create("proxied upper", { parent: root });
    const lower = await ThirdParty.create("proxied lower", { parent: upper });
    const externalIdClaim = {
      location: "COMMON_NAME",
      matcher: "ALL",
      matcherCriteria: "",
      parser: "NONE",
      parserCriteria: "",
      index: 0,
    };
    await registerCa(c, root, { name: "proxied", externalIdClaim });
    const leaf = await lower.issue({ commonName: "third" });
    const identityId = await c.make("identities", {
      name: "third",
      type: "Device",
      isAdmin: false,
      externalId: "third",
    });
    const chain = [leaf, lower, upper, root].map(({ certPem }) => der(certPem));
    expect((await login(router, marks(...chain.slice(0, 3)))).json.data.identityId).toBe(identityId);
    expect((await login(router, marks(...chain))).status).toBe(200);
    expect(outcome(await login(router, marks(...chain.slice(0, 1))))).toEqual(REFUSED);
    expect(outcome(await login(router, marks(chain[0]!, chain[2]!, chain[1]!)))).toEqual(REFUSED);
  });

  it("is never that of the router, nor of an administrator", async () => {
    const boss = await enrolled("boss", true);
    expect((await login(boss, {})).status).toBe(200);
    expect(outcome(await login(router, marks(der(boss.certPem))))).toEqual(REFUSED);
    for (const chain of [[], [der(router.certPem)]]) {
      expect(outcome(await login(router, marks(...chain)))).toEqual(REFUSED);
    }
  });

  it("does not outlast that its identity becomes an administrator", async () => {
    const carol = await enrolled("carol");
    const { token } = (await login(router, marks(der(carol.certPem)))).json.data;
    const current = async () =>
      (await c.call("GET", "/edge/client/v1/current-identity", { token, cert: router.certPem, key: router.keyPem }))
        .status;
    await c.admin("PATCH", `/identities/${carol.id}`, { isAdmin: false });
    expect(await current()).toBe(200);
    await c.admin("PATCH", `/identities/${carol.id}`, { isAdmin: true });
    expect(await current()).toBe(401);
    // It was one already: who uses it now stays.
    const direct = (await login(carol, {})).json.data.token;
    await c.admin("PATCH", `/identities/${carol.id}`, { isAdmin: true, roleAttributes: ["a"] });
    expect((await c.call("GET", "/edge/client/v1/current-identity", { token: direct })).status).toBe(200);
  });

  it("is refused when its identity becomes an administrator while it logs in", async () => {
    const dave = await enrolled("dave");
    const attempt = await c.ctx.store.transaction(async (trx) => {
      await sql`SELECT 1 FROM identity WHERE id = ${dave.id} FOR UPDATE`.execute(trx);
      await sql`UPDATE identity SET is_admin = true WHERE id = ${dave.id}`.execute(trx);
      const attempt = login(router, marks(der(dave.certPem)));
      await lockWaits(c.ctx.store.db, 1);
      return { attempt };
    });
    expect(outcome(await attempt.attempt)).toEqual(REFUSED);
  });

  it("counts only from a router that is enrolled and enabled, with the certificate it has now", async () => {
    const other = await enrolledRouter("other");
    const attempt = async (by: Keyed) => (await login(by, marks(der(alice.certPem)))).status;
    expect(await attempt(other)).toBe(200);
    await c.admin("PATCH", `/edge-routers/${other.id}`, { disabled: true });
    expect(await attempt(other)).toBe(401);
    await c.admin("PATCH", `/edge-routers/${other.id}`, { disabled: false });
    expect(await attempt(other)).toBe(200);
    const csr = await createCsr({ commonName: other.id, keyPem: other.keyPem });
    const { client } = await c.pki.issueRouterCertificates({ routerId: other.id, certCsr: csr, serverCertCsr: csr });
    // Issued, but never stored.
    expect(await attempt({ certPem: client.pem, keyPem: other.keyPem })).toBe(401);
    await c.admin("POST", `/edge-routers/${other.id}/re-enroll`);
    expect(await attempt(other)).toBe(401);
    expect(await attempt(await enrolledRouter("transit", "transit-routers"))).toBe(401);
  });
});

describe("a chain that a client of a router has made", () => {
  it("is refused when its own certificates only have the names of a foreign leaf's issuers", async () => {
    const name = new Uint8Array(new x509.X509Certificate(alice.certPem).issuerName.toArrayBuffer());
    const lookAlike = forgedCertificate({ subject: name, issuer: name, publicKey: ecKey(), isCa: true });
    const leaf = new X509Certificate(alice.certPem);
    expect(leaf.checkIssued(new X509Certificate(lookAlike))).toBe(true);
    const chain = marks(der(alice.certPem), lookAlike.toString("base64"));
    expect(outcome(await login(router, chain))).toEqual(REFUSED);
  });

  it("has none of its keys used while no authority vouches for them", async () => {
    const publicKey = forgedRsaKey(3_072, 3_000);
    const one = (subject: string, issuer: string, isCa: boolean) =>
      forgedCertificate({ subject, issuer, publicKey, isCa, signature: "rsa" }).toString("base64");
    const chain = [one("leaf", "0", false), ...Array.from({ length: 8 }, (_, i) => one(`${i}`, `${i + 1}`, true))];
    const verify = vi.spyOn(X509Certificate.prototype, "verify");
    expect(outcome(await login(router, marks(...chain)))).toEqual(REFUSED);
    const slow = verify.mock.calls.filter(([key]) => key.asymmetricKeyType === "rsa");
    verify.mockRestore();
    expect(slow).toEqual([]);
  });
});

describe("the headers of a client that is no router", () => {
  it("gain nothing: neither with another identity's certificate, nor with one of their own, nor without any", async () => {
    const mallory = await enrolled("mallory");
    const outsider = await ThirdParty.create("outsider");
    const self = await outsider.issue({ commonName: router.id });
    for (const by of [mallory, self, undefined]) {
      for (const headers of [
        marks(der(alice.certPem)),
        marks(der(mallory.certPem)),
        marks(der(alice.certPem), der(router.certPem)),
        { [CLIENT_CERTIFICATE]: der(alice.certPem) },
        marks(),
      ]) {
        expect(outcome(await login(by, headers))).toEqual(REFUSED);
      }
    }
    expect((await login(mallory, {})).json.data.identityId).toBe(mallory.id);
  });

  it("that hold the router's certificate beside a leaf of their own gain nothing", async () => {
    const mallory = await enrolled("mallory two");
    const chained = { ...mallory, certPem: mallory.certPem + router.certPem };
    expect(outcome(await login(chained, marks(der(alice.certPem))))).toEqual(REFUSED);
  });
});

describe("what a router says it was presented", () => {
  const bad: [string, () => string[]][] = [
    // Some routers put their client's certificates behind those that it has written into the headers itself.
    ["a foreign leaf before that of the connection", () => [der(alice.certPem), der(router.certPem)]],
    ["the same twice", () => [der(alice.certPem), der(alice.certPem)]],
    ["PEM", () => [Buffer.from(alice.certPem).toString("base64")]],
    ["PEM as it is, in one line", () => [alice.certPem.replaceAll("\n", " ")]],
    [
      "bytes behind the certificate",
      () => [Buffer.concat([Buffer.from(der(alice.certPem), "base64"), Buffer.of(1)]).toString("base64")],
    ],
    ["two in one header", () => [`${der(alice.certPem)}, ${der(alice.certPem)}`]],
    ["a part", () => [der(alice.certPem).slice(0, 200)]],
    ["nothing", () => [""]],
    ["URL-safe letters", () => ["-_-_"]],
    ["very many", () => Array.from({ length: 200 }, () => "AAAA")],
  ];
  it.each(bad)("is refused: %s", async (_name, chain) => {
    expect(outcome(await login(router, marks(...chain())))).toEqual(REFUSED);
  });

  const ours = new Date().toISOString();
  // As routers of v1.6 write it.
  const theirs = "2026-11-22 09:02:33.153112838 +0000 UTC m=+0.005523535";
  it.each([
    ["its time alone, for a client without a certificate", [theirs]],
    ["a client's time before its own", [ours, theirs]],
    ["both times in one header", [`${ours}, ${theirs}`]],
    ["two times of a client", [ours, ours]],
    ["no time, which a client has had removed", undefined],
  ])("is refused from one that leaves the client's headers there: %s", async (_name, at) => {
    const { [PROXIED_AT]: _, ...rest } = marks(der(alice.certPem));
    expect(outcome(await login(router, at === undefined ? rest : { ...rest, [PROXIED_AT]: at }))).toEqual(REFUSED);
  });

  it("is refused unread when it is larger than headers may be", async () => {
    // The connection may end before the answer to what was not read of it arrives.
    const answer = await login(router, marks(...Array.from({ length: 200 }, () => der(alice.certPem)))).catch(
      () => undefined,
    );
    expect(answer?.status ?? 431).toBe(431);
    expect((await login(router, marks(der(alice.certPem)))).status).toBe(200);
  });
});

describe("a client of a router's proxy", () => {
  it("is not the router: it cannot renew the router's certificate, whichever header its proxy leaves", async () => {
    const { keyPem } = await createKeyPair();
    const csr = await createCsr({ commonName: router.id, keyPem });
    const renew = (headers: Record<string, string | string[]>) =>
      c.call("POST", "/edge/client/v1/enroll/extend/router", {
        body: { certCsr: csr, serverCertCsr: csr },
        headers,
        cert: router.certPem,
        key: router.keyPem,
      });
    for (const headers of [
      marks(),
      marks(der(router.certPem)),
      { [CLIENT_CERTIFICATE]: der(router.certPem) },
      { "x-forwarded-for": "192.0.2.1" },
    ]) {
      expect(outcome(await renew(headers))).toEqual([401, "UNAUTHORIZED"]);
    }
    expect((await login(router, marks(der(alice.certPem)))).status).toBe(200);
  });

  it("cannot renew its own, nor enroll with one: the router's word is good for logins only", async () => {
    const { token } = (await login(router, marks(der(alice.certPem)))).json.data;
    const [{ id }] = (await c.call("GET", "/edge/client/v1/current-identity/authenticators", { token })).json.data;
    const clientCertCsr = await createCsr({ commonName: "alice", keyPem: alice.keyPem });
    const extend = (headers: Record<string, string | string[]>, by: Keyed) =>
      c.call("POST", `/edge/client/v1/current-identity/authenticators/${id}/extend`, {
        ...{ token, headers, body: { clientCertCsr }, cert: by.certPem, key: by.keyPem },
      });
    expect((await extend(marks(der(alice.certPem)), router)).status).toBeGreaterThanOrEqual(400);
    expect((await extend({}, alice)).status).toBe(200);

    const root = await ThirdParty.create("enrolling root");
    await registerCa(c, root, { name: "enrolling" });
    const leaf = await root.issue({ commonName: "leaf" });
    const enroll = (headers: Record<string, string | string[]>, by: Keyed) =>
      c.call("POST", "/edge/client/v1/enroll?method=ca", { headers, cert: by.certPem, key: by.keyPem });
    expect((await enroll(marks(der(leaf.certPem)), router)).status).toBeGreaterThanOrEqual(400);
    expect((await enroll({}, leaf)).status).toBe(200);
  });
});
