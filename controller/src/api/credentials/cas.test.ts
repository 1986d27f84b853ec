import { verify, X509Certificate } from "node:crypto";
import { fingerprint } from "@sallyport/wire";
import { forgedCertificate, forgedRsaKey, pemOf } from "@sallyport/wire/testing/forged-certificate";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { ThirdParty } from "../../auth/testing/third-party.ts";
import { ALLOWING, registerCa, verifyCa } from "../testing/registered-ca.ts";
import { startTestController, type TestController } from "../testing/test-controller.ts";

let c: TestController;
let authority: ThirdParty;
beforeAll(async () => {
  c = await startTestController();
});
beforeEach(async () => {
  authority = await ThirdParty.create("Acme CA");
});
afterAll(() => c.close());

const CLAIM = {
  location: "SAN_URI",
  matcher: "SCHEME",
  matcherCriteria: "spiffe",
  parser: "SPLIT",
  parserCriteria: "/",
  index: 4,
};
const NO_CLAIM = {
  index: null,
  location: null,
  matcher: null,
  matcherCriteria: null,
  parser: null,
  parserCriteria: null,
};

describe("a certificate authority", () => {
  it("is created unverified, verified by a certificate that names its token, replaced, changed and deleted", async () => {
    const id = await c.make("cas", { ...ALLOWING, name: "life", certPem: authority.certPem, externalIdClaim: CLAIM });
    const created = (await c.admin("GET", `/cas/${id}`)).json.data;
    expect(created).toMatchObject({
      name: "life",
      isVerified: false,
      fingerprint: fingerprint(authority.certPem),
      certPem: authority.certPem,
      identityRoles: ["enrolled"],
      externalIdClaim: CLAIM,
      _links: {
        self: { href: `./cas/${id}` },
        verify: { href: `./cas/${id}/verify` },
        jwt: { href: `./cas/${id}/jwt` },
      },
    });
    expect((await c.admin("GET", `/cas/${id}/jwt`)).json.error.code).toBe("ENROLLMENT_CA_NOT_VALID");

    await verifyCa(c, authority, id);
    const verified = (await c.admin("GET", `/cas/${id}`)).json.data;
    expect(verified.isVerified).toBe(true);
    expect(Object.keys(verified._links).sort()).toEqual(["jwt", "self"]);
    expect((await c.admin("POST", `/cas/${id}/verify`, authority.certPem)).json.error.code).toBe("CA_ALREADY_VERIFIED");

    // A patch touches single parts of the claim; null is the same as nothing.
    const patch = { name: null, externalIdClaim: { index: 3, matcher: null }, isAutoCaEnrollmentEnabled: false };
    expect((await c.admin("PATCH", `/cas/${id}`, patch)).status).toBe(200);
    const patched = (await c.admin("GET", `/cas/${id}`)).json.data;
    expect(patched).toMatchObject({ name: "life", externalIdClaim: { ...CLAIM, index: 3 }, isVerified: true });
    expect(Object.keys(patched._links)).toEqual(["self"]);

    const { identityRoles: _, ...incomplete } = { ...ALLOWING, name: "replaced" };
    expect((await c.admin("PUT", `/cas/${id}`, incomplete)).json.error.cause.field).toBe("identityRoles");
    const put = { ...ALLOWING, name: "replaced", identityNameFormat: "[commonName]", certPem: "ignored" };
    expect((await c.admin("PUT", `/cas/${id}`, put)).status).toBe(200);
    const replaced = (await c.admin("GET", `/cas/${id}`)).json.data;
    expect(replaced).toMatchObject({
      name: "replaced",
      identityNameFormat: "[commonName]",
      certPem: authority.certPem,
    });
    expect(replaced.externalIdClaim).toBeUndefined();

    const listed = (await c.admin("GET", `/cas?filter=${encodeURIComponent('name = "replaced"')}`)).json;
    expect(listed.data.map((ca: { id: string }) => ca.id)).toEqual([id]);
    expect((await c.admin("DELETE", `/cas/${id}`)).status).toBe(200);
    expect((await c.admin("GET", `/cas/${id}`)).status).toBe(404);
  });

  it("has a token for holders of its certificates, signed by the key of the certificate that is served", async () => {
    const id = await registerCa(c, authority, { name: "token" });
    const answer = await c.admin("GET", `/cas/${id}/jwt`);
    expect(answer.headers["content-type"]).toBe("application/jwt");
    expect((await c.admin("GET", `/cas/${id}/jwt`)).text).toBe(answer.text);
    const [header = "", payload = "", signature = ""] = answer.text.split(".");
    expect(JSON.parse(Buffer.from(payload, "base64url").toString())).toEqual({
      iss: `https://localhost:${c.port}/`,
      sub: id,
      aud: ["openziti-enroller"],
      jti: id,
      em: "ca",
    });
    const key = new X509Certificate(c.pki.serverIdentity.defaultServerCertificate.certPem).publicKey;
    const signed = Buffer.from(`${header}.${payload}`);
    const bytes = Buffer.from(signature, "base64url");
    expect(verify("sha256", signed, { key, dsaEncoding: "ieee-p1363" }, bytes)).toBe(true);
    await c.admin("PATCH", `/cas/${id}`, { isAutoCaEnrollmentEnabled: false });
    expect((await c.admin("GET", `/cas/${id}/jwt`)).status).toBe(400);
    await c.admin("DELETE", `/cas/${id}`);
  });

  it("is refused with what is wrong with it", async () => {
    const leaf = await authority.issue({ commonName: "leaf" });
    const refused = async (fields: object) => {
      const { status, json } = await c.admin("POST", "/cas", {
        ...ALLOWING,
        name: "bad",
        certPem: authority.certPem,
        ...fields,
      });
      return [status, json.error?.code, json.error?.cause?.field];
    };
    expect(await refused({ certPem: leaf.certPem })).toEqual([400, "CERTIFICATE_IS_NOT_CA", undefined]);
    for (const certPem of [
      "",
      "hello",
      authority.certPem + authority.keyPem,
      "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----",
      authority.certPem.repeat(11),
      // A signature that is checked with such a key takes a hundred times as long as usual.
      pemOf(forgedCertificate({ subject: "ca", issuer: "ca", publicKey: forgedRsaKey(3_072, 3_000), isCa: true })),
    ]) {
      expect(await refused({ certPem })).toEqual([400, "COULD_NOT_VALIDATE", "certPem"]);
    }
    expect(await refused({ name: " " })).toEqual([400, "COULD_NOT_VALIDATE", "name"]);
    expect(await refused({ identityRoles: ["#all"] })).toEqual([400, "COULD_NOT_VALIDATE", "identityRoles"]);
    const { index: _, ...partial } = CLAIM;
    expect(await refused({ externalIdClaim: partial })).toEqual([400, "COULD_NOT_VALIDATE", "externalIdClaim.index"]);
    expect(await refused({ externalIdClaim: { ...CLAIM, location: "SAN_DNS" } })).toEqual([
      400,
      "COULD_NOT_VALIDATE",
      "externalIdClaim.location",
    ]);
    const id = await c.make("cas", {
      ...ALLOWING,
      name: "unique",
      certPem: authority.certPem,
      externalIdClaim: NO_CLAIM,
    });
    expect((await c.admin("GET", `/cas/${id}`)).json.data.externalIdClaim).toBeUndefined();
    expect(await refused({ name: "another" })).toEqual([400, "COULD_NOT_VALIDATE", "certPem"]);
    const other = await ThirdParty.create("Other");
    expect(await refused({ name: "unique", certPem: other.certPem })).toEqual([400, "COULD_NOT_VALIDATE", "name"]);
    await c.admin("DELETE", `/cas/${id}`);
  });

  it("#3952: an inconsistent externalIdClaim is refused on create, replace and patch", async () => {
    const id = await registerCa(c, authority, { name: "claims" });
    for (const [part, field] of [
      [{ matcherCriteria: null }, "matcherCriteria"],
      [{ matcher: "PREFIX" }, "matcher"],
      [{ parserCriteria: "" }, "parserCriteria"],
      [{ index: -1 }, "index"],
      [{ location: null }, "location"],
      [{ parser: null }, "parser"],
    ] as const) {
      const claim = { ...CLAIM, ...part };
      const body = { ...ALLOWING, name: "claims", externalIdClaim: claim };
      const put = await c.admin("PUT", `/cas/${id}`, body);
      const patched = await c.admin("PATCH", `/cas/${id}`, { externalIdClaim: claim });
      const fresh = await ThirdParty.create(`for ${field}`);
      const post = await c.admin("POST", "/cas", { ...body, name: `x ${field}`, certPem: fresh.certPem });
      for (const answer of [put, patched, post]) {
        expect([answer.status, answer.json.error.cause.field]).toEqual([400, `externalIdClaim.${field}`]);
      }
    }
    expect((await c.admin("GET", `/cas/${id}`)).json.data.externalIdClaim).toBeUndefined();
    await c.admin("DELETE", `/cas/${id}`);
  });

  it("is not verified by what proves nothing", async () => {
    const id = await c.make("cas", { ...ALLOWING, name: "unverified", certPem: authority.certPem });
    const { verificationToken } = (await c.admin("GET", `/cas/${id}`)).json.data;
    const outsider = await ThirdParty.create("Acme CA");
    const code = async (pem: string) => {
      const { status, json } = await c.admin("POST", `/cas/${id}/verify`, pem);
      return [status, json.error?.code];
    };
    const forged = await outsider.issue({ commonName: verificationToken });
    expect(await code("hello")).toEqual([400, "COULD_NOT_PARSE_BODY"]);
    expect(await code(authority.keyPem)).toEqual([400, "EXPECTED_PEM_CERTIFICATE"]);
    const rubbish = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----";
    expect(await code(rubbish)).toEqual([400, "COULD_NOT_PARSE_DER_BLOCK"]);
    expect(await code((await authority.issue({ commonName: "x" })).certPem)).toEqual([400, "INVALID_COMMON_NAME"]);
    expect(await code(forged.certPem)).toEqual([400, "CERTIFICATE_FAILED_VALIDATION"]);
    expect(await code(forged.certPem + authority.certPem)).toEqual([400, "COULD_NOT_PARSE_BODY"]);
    expect(await code("")).toEqual([400, "COULD_NOT_VALIDATE"]);
    expect((await c.admin("GET", `/cas/${id}`)).json.data.isVerified).toBe(false);
    const json = await c.call("POST", `/edge/management/v1/cas/${id}/verify`, {
      token: await c.login("admin", "admin"),
      body: { certificate: "x" },
    });
    expect(json.status).toBe(415);
    await c.admin("DELETE", `/cas/${id}`);
  });
});
