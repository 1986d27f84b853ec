import { describe, it } from "vitest";
import { ThirdParty } from "../../../controller/src/auth/testing/third-party.ts";
import { type Both, CLIENT, type Step } from "./ask.ts";
import { get, patch, post, put, remove } from "./steps.ts";

const UPDB = {
  ...{ allowed: true, minPasswordLength: 6, requireSpecialChar: false, requireNumberChar: true },
  ...{ requireMixedCase: false, maxAttempts: 0, lockoutDurationMinutes: 0 },
};
const POLICY = {
  name: "ap",
  primary: {
    cert: { allowed: false, allowExpiredCerts: false },
    extJwt: { allowed: true, allowedSigners: [] as string[] },
    updb: UPDB,
  },
  secondary: { requireTotp: false },
};
const SIGNER = {
  ...{ name: "signer", issuer: "https://issuer.example", audience: "aud", enabled: true },
  jwksEndpoint: "https://issuer.example/jwks",
};
const LATER = new Date(Date.now() + 600_000).toISOString();

/** Auth policies, token signers, authorities, authenticators and enrollments. */
export function credentialAnswers(both: () => Both): void {
  describe("credentials", () => {
    it("auth policies", async () => {
      await both().expectSame(
        get("/auth-policies/default"),
        post("/external-jwt-signers", SIGNER, { keep: { signer: "id" } }),
        post("/auth-policies", POLICY, { keep: { policy: "id" } }),
        get("/auth-policies/{policy}"),
        post("/auth-policies", POLICY),
        post("/auth-policies", { ...POLICY, name: "" }),
        post("/auth-policies", { ...POLICY, name: "bad", primary: {} }),
        post("/auth-policies", { name: "bad" }),
        post("/auth-policies", { ...POLICY, name: "bad", secondary: { requireTotp: 1 } }),
        post("/auth-policies", {
          ...POLICY,
          name: "bad",
          primary: { ...POLICY.primary, extJwt: { allowed: true, allowedSigners: ["nowhere"] } },
        }),
        post("/auth-policies", {
          ...POLICY,
          name: "bad",
          secondary: { requireTotp: false, requireExtJwtSigner: "nowhere" },
        }),
        patch("/auth-policies/{policy}", {
          primary: { extJwt: { allowed: true, allowedSigners: ["{signer}"] } },
        }),
        get("/auth-policies/{policy}"),
        patch("/auth-policies/{policy}", { secondary: { requireExtJwtSigner: "{signer}" } }),
        get("/auth-policies/{policy}"),
        remove("/external-jwt-signers/{signer}"),
        patch("/auth-policies/{policy}", { secondary: { requireExtJwtSigner: null } }),
        get("/auth-policies/{policy}"),
        patch("/auth-policies/{policy}", { tags: { k: "v" } }),
        patch("/auth-policies/{policy}", { tags: {} }),
        get("/auth-policies/{policy}"),
        put("/auth-policies/{policy}", { ...POLICY, name: "ap-2" }),
        get("/auth-policies/{policy}"),
        put("/auth-policies/nowhere", POLICY),
        patch("/auth-policies/nowhere", { name: "x" }),
        remove("/auth-policies/nowhere"),
        post(
          "/identities",
          { name: "ap-user", type: "Device", isAdmin: false, authPolicyId: "{policy}" },
          { keep: { apUser: "id" } },
        ),
        remove("/auth-policies/{policy}"),
        post("/identities", { name: "ap-bad", type: "Device", isAdmin: false, authPolicyId: "nowhere" }),
        patch("/identities/{apUser}", { authPolicyId: "nowhere" }),
        patch("/identities/{apUser}", { authPolicyId: "default" }),
        post("/authenticators", { identityId: "{apUser}", method: "updb", username: "ap-user", password: "short" }),
        remove("/auth-policies/{policy}"),
        remove("/external-jwt-signers/{signer}"),
        remove("/identities/{apUser}"),
      );
    });

    it("token signers", async () => {
      const { certPem } = await ThirdParty.create("Signer");
      await both().expectSame(
        post("/external-jwt-signers", SIGNER, { keep: { signer: "id" } }),
        get("/external-jwt-signers/{signer}"),
        post("/external-jwt-signers", SIGNER),
        post("/external-jwt-signers", { ...SIGNER, name: "other" }),
        post("/external-jwt-signers", { ...SIGNER, name: "other", issuer: "https://b.example", enabled: "yes" }),
        post("/external-jwt-signers", { name: "other", issuer: "https://b.example", audience: "a", enabled: true }),
        post("/external-jwt-signers", {
          ...{ name: "other", issuer: "https://b.example", audience: "a", enabled: true, certPem: "none" },
          kid: "k",
        }),
        post(
          "/external-jwt-signers",
          { name: "pem", issuer: "https://c.example", audience: "a", enabled: false, kid: "k", certPem },
          { keep: { pem: "id" } },
        ),
        get("/external-jwt-signers/{pem}"),
        patch("/external-jwt-signers/{pem}", { claimsProperty: "email", useExternalId: true }),
        get("/external-jwt-signers/{pem}"),
        {
          ...patch("/external-jwt-signers/{pem}", { issuer: "https://issuer.example" }),
          ours: { status: 400, code: "COULD_NOT_VALIDATE", because: "OpenZiti answers 500" },
        },
        put("/external-jwt-signers/{pem}", { ...SIGNER, name: "put", issuer: "https://d.example" }),
        get("/external-jwt-signers/{pem}"),
        get(`${CLIENT}/external-jwt-signers`),
        remove("/external-jwt-signers/{pem}"),
        remove("/external-jwt-signers/{signer}"),
        remove("/external-jwt-signers/{signer}"),
      );
    });

    it("authorities", async () => {
      const authority = await ThirdParty.create("Answers CA");
      const second = await ThirdParty.create("Second CA");
      const leaf = await authority.issue({ commonName: "not the token" });
      const anonymous = await (await ThirdParty.create("Another")).issue({ commonName: "x" });
      const ca = {
        ...{ name: "ca", certPem: authority.certPem, isAuthEnabled: true, isAutoCaEnrollmentEnabled: true },
        ...{ isOttCaEnrollmentEnabled: true, identityRoles: ["a"], identityNameFormat: "[caName]" },
      };
      const pem = { type: "text/plain" };
      await both().expectSame(
        post("/cas", ca, { keep: { ca: "id" } }),
        get("/cas/{ca}"),
        post("/cas", { ...ca, certPem: second.certPem }),
        post("/cas", { ...ca, name: "other" }),
        post(
          "/cas",
          { ...ca, name: "other", certPem: leaf.certPem },
          { ours: { status: 400, code: "CERTIFICATE_IS_NOT_CA", because: "OpenZiti answers 500" } },
        ),
        post("/cas", { ...ca, name: "other", certPem: "none" }),
        post("/cas", { name: "other" }),
        post("/cas/{ca}/verify", leaf.certPem, pem),
        post("/cas/{ca}/verify", anonymous.certPem, pem),
        post("/cas/{ca}/verify", "none", pem),
        post("/cas/{ca}/verify", leaf.keyPem, pem),
        post("/cas/nowhere/verify", leaf.certPem, pem),
        {
          ...get("/cas/{ca}/jwt"),
          ours: {
            status: 400,
            code: "ENROLLMENT_CA_NOT_VALID",
            because: "no client can enroll while it is not verified",
          },
        },
        get("/cas/nowhere/jwt"),
        patch("/cas/{ca}", { identityNameFormat: "[commonName]", identityRoles: ["b", "c"] }),
        get("/cas/{ca}"),
        patch("/cas/{ca}", {
          externalIdClaim: {
            ...{ location: "SAN_URI", matcher: "SCHEME", matcherCriteria: "spiffe", parser: "SPLIT" },
            ...{ parserCriteria: "/", index: 2 },
          },
        }),
        { ...get("/cas/{ca}"), ours: { status: 200, because: "OpenZiti forgets the criteria of the parser" } },
        patch("/cas/{ca}", { externalIdClaim: { location: "BOGUS" } }),
        post("/identities", { name: "ca-user", type: "Device", isAdmin: false }, { keep: { caUser: "id" } }),
        post(
          "/enrollments",
          { method: "ottca", identityId: "{caUser}", caId: "{ca}", expiresAt: LATER },
          { keep: { ottca: "id" } },
        ),
        get("/enrollments/{ottca}"),
        post("/enrollments", { method: "ottca", identityId: "{caUser}", caId: "nowhere", expiresAt: LATER }),
        put("/cas/{ca}", { ...ca, name: "ca-2", isAuthEnabled: false }),
        get("/cas/{ca}"),
        remove("/cas/{ca}"),
        remove("/cas/{ca}"),
        remove("/identities/{caUser}"),
      );
    });

    it("authenticators and enrollments", async () => {
      const expired = new Date(Date.now() - 60_000).toISOString();
      const login = (username: string, password: string): Step =>
        post(`${CLIENT}/authenticate?method=password`, { username, password }, { session: null });
      await both().expectSame(
        post(
          "/identities",
          { name: "en-user", type: "Device", isAdmin: false, enrollment: { ott: true } },
          { keep: { user: "id" } },
        ),
        get("/identities/{user}"),
        get("/identities/{user}/enrollments"),
        post("/enrollments", { method: "ott", identityId: "{user}", expiresAt: LATER }),
        post("/enrollments", { method: "ott", identityId: "nowhere", expiresAt: LATER }),
        post("/enrollments", { method: "magic", identityId: "{user}", expiresAt: LATER }),
        post("/enrollments", { method: "updb", identityId: "{user}", expiresAt: LATER }),
        post("/enrollments", { method: "updb", identityId: "{user}", username: "en-user", expiresAt: expired }),
        post("/enrollments", { method: "updb", identityId: "{user}" }),
        post(
          "/enrollments",
          { method: "updb", identityId: "{user}", username: "en-user", expiresAt: LATER },
          { keep: { updb: "id" } },
        ),
        { ...get("/enrollments/{updb}"), keep: { updbToken: "token" } },
        post("/enrollments/{updb}/refresh", { expiresAt: LATER }),
        post("/enrollments/{updb}/refresh", { expiresAt: expired }),
        post("/enrollments/nowhere/refresh", { expiresAt: LATER }),
        { ...get("/enrollments/{updb}"), keep: { updbToken: "token" } },
        {
          ...post(
            `${CLIENT}/enroll?method=updb&token=nowhere`,
            { username: "en-user", password: "some password" },
            { session: null },
          ),
          ours: {
            status: 400,
            code: "COULD_NOT_VALIDATE",
            because: "OpenZiti answers with the number of its validator's error",
          },
        },
        {
          ...post(`${CLIENT}/enroll/updb?token={updbToken}`, { username: "en-user" }, { session: null }),
          ours: { status: 400, code: "COULD_NOT_VALIDATE", because: "OpenZiti answers 500" },
        },
        post(
          `${CLIENT}/enroll?method=updb&token={updbToken}`,
          { username: "other", password: "some password" },
          { session: null },
        ),
        post(
          `${CLIENT}/enroll?method=updb&token={updbToken}`,
          { username: "en-user", password: "some password" },
          { session: null },
        ),
        post(
          `${CLIENT}/enroll?method=updb&token={updbToken}`,
          { username: "en-user", password: "some password" },
          { session: null },
        ),
        {
          ...post(`${CLIENT}/enroll?method=magic&token={updbToken}`, {}, { session: null }),
          ours: { status: 400, code: "INVALID_ENROLL_METHOD", because: "no token is looked up for such a method" },
        },
        login("en-user", "some password"),
        login("en-user", "another password"),
        login("EN-USER", "some password"),
        get("/identities/{user}/authenticators"),
        post("/authenticators", { method: "updb", identityId: "{user}", username: "more", password: "some password" }),
        post("/authenticators", { method: "updb", identityId: "nowhere", username: "more", password: "some password" }),
        {
          ...post("/authenticators", { method: "cert", identityId: "{user}", certPem: "none" }),
          ours: {
            status: 400,
            code: "INVALID_CERT_PEM",
            because: "the same code for everything that is no certificate",
          },
        },
        get("/authenticators/nowhere"),
        post("/identities/{user}/disable", { durationMinutes: 10 }),
        login("en-user", "some password"),
        get("/identities/{user}"),
        post("/identities/{user}/enable", {}),
        login("en-user", "some password"),
        post("/identities/{user}/disable", { durationMinutes: "x" }),
        remove("/identities/{user}"),
        login("en-user", "some password"),
        { method: "GET", path: "/identities", session: "00000000-0000-0000-0000-000000000000" },
        { method: "GET", path: `${CLIENT}/current-identity`, session: null },
      );
    });
  });
}
