import { describe, expect, it } from "vitest";
import { type Both, CLIENT, FABRIC, type Step } from "./ask.ts";
import { get } from "./steps.ts";

/** Ways to say that there is nothing, which programs that compare what they wanted with what they read tell apart. */
const EMPTY = new Set(["null", "[]", "{}", '""']);

/** The places in an answer where OpenZiti says nothing, and how. */
function emptyPlaces(value: unknown, place = ""): [string, string][] {
  const text = JSON.stringify(value);
  if (EMPTY.has(text)) return [[place, text]];
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) => emptyPlaces(inner, place === "" ? key : `${place}.${key}`));
}

/** Where ours is right to answer otherwise: the end of the place, what ours answers, and why. */
const KNOWN: readonly { readonly place: RegExp; readonly ours: string; readonly because: string }[] = [
  { place: /^config$/, ours: "{}", because: "OpenZiti answers null for one service, and {} in a list of them" },
  { place: /postureQueries\.0\.postureQueries$/, ours: "left out", because: "ours asks administrators for nothing" },
  { place: /clientId$/, ours: "null", because: "an empty text takes it away in ours" },
  { place: /^version$/, ours: '"1"', because: "OpenZiti leaves the version of a type of checks open" },
  { place: /^listenerAddresses$/, ours: "left out", because: "the published description lets it be left out" },
];

function at(value: unknown, place: string): string {
  let found = value;
  for (const key of place === "" ? [] : place.split("."))
    found = typeof found === "object" ? (found as never)?.[key] : undefined;
  return JSON.stringify(found) ?? "left out";
}

const made = (collection: string, body: Readonly<Record<string, unknown>>, base = ""): Step[] => [
  { method: "POST", path: `${base}/${collection}`, body, keep: { made: "id" } },
  get(`${base}/${collection}/{made}`),
  get(`${base}/${collection}?filter=id%3D%22{made}%22`),
];

/** Entities of each kind with nothing but what they must have, and with what they may have given as empty. */
const ENTITIES: Readonly<Record<string, () => readonly Step[]>> = {
  identities: () => [
    ...made("identities", { name: "e-identity", type: "Default", isAdmin: false }),
    ...made("identities", {
      ...{ name: "e-identity-2", type: "Default", isAdmin: false, roleAttributes: [], externalId: "" },
      ...{ appData: {}, tags: {}, serviceHostingCosts: {}, serviceHostingPrecedences: {}, enrollment: { ott: true } },
    }),
  ],
  services: () => [
    ...made("services", { name: "e-service", encryptionRequired: true }),
    ...made("services", { name: "e-service-2", encryptionRequired: true, roleAttributes: [], configs: [], tags: {} }),
  ],
  "edge routers": () => [
    ...made("edge-routers", { name: "e-router" }),
    ...made("edge-routers", { name: "e-router-2", roleAttributes: [], appData: {}, tags: {}, isTunnelerEnabled: true }),
    ...made("transit-routers", { name: "e-transit" }),
  ],
  configs: () => [
    ...made("config-types", { name: "e-type" }),
    { method: "POST", path: "/config-types", body: { name: "e-type-2" }, keep: { type: "id" } },
    ...made("configs", { name: "e-config", configTypeId: "{type}", data: { list: [], map: {} } }),
  ],
  policies: () => [
    ...made("service-policies", { name: "e-service-policy", type: "Dial", semantic: "AnyOf" }),
    ...made("service-policies", {
      ...{ name: "e-service-policy-2", type: "Dial", semantic: "AnyOf" },
      ...{ identityRoles: [], serviceRoles: [], postureCheckRoles: [], tags: {} },
    }),
    ...made("edge-router-policies", { name: "e-router-policy", semantic: "AnyOf" }),
    ...made("edge-router-policies", {
      ...{ name: "e-router-policy-2", semantic: "AnyOf", identityRoles: [], edgeRouterRoles: [] },
    }),
    ...made("service-edge-router-policies", { name: "e-service-router-policy", semantic: "AnyOf" }),
    ...made("service-edge-router-policies", {
      ...{ name: "e-service-router-policy-2", semantic: "AnyOf", serviceRoles: [], edgeRouterRoles: [] },
    }),
  ],
  "posture checks": () => [
    ...made("posture-checks", { name: "e-mfa", typeId: "MFA" }),
    ...made("posture-checks", { name: "e-domain", typeId: "DOMAIN", domains: ["a"], roleAttributes: [] }),
    ...made("posture-checks", { name: "e-mac", typeId: "MAC", macAddresses: ["02:00:00:00:00:01"] }),
    ...made("posture-checks", { name: "e-os-2", typeId: "OS", operatingSystems: [{ type: "Linux", versions: [] }] }),
    ...made("posture-checks", { name: "e-process", typeId: "PROCESS", process: { osType: "Linux", path: "/bin/a" } }),
    ...made("posture-checks", {
      ...{ name: "e-processes", typeId: "PROCESS_MULTI", semantic: "AllOf" },
      processes: [{ osType: "Linux", path: "/bin/a", hashes: [], signerFingerprints: [] }],
    }),
    get("/posture-check-types/OS"),
    get("/posture-check-types/PROCESS_MULTI"),
  ],
  "auth policies": () => [
    ...made("auth-policies", {
      name: "e-auth-policy",
      primary: {
        cert: { allowed: true, allowExpiredCerts: false },
        extJwt: { allowed: true, allowedSigners: [] },
        updb: {
          ...{ allowed: true, lockoutDurationMinutes: 0, maxAttempts: 3, minPasswordLength: 5 },
          ...{ requireMixedCase: false, requireNumberChar: false, requireSpecialChar: false },
        },
      },
      secondary: { requireTotp: false },
    }),
  ],
  "external signers": () => [
    ...made("external-jwt-signers", {
      ...{ name: "e-signer", issuer: "https://e.example", audience: "a", enabled: true },
      jwksEndpoint: "https://e.example/jwks",
    }),
    ...made("external-jwt-signers", {
      ...{ name: "e-signer-2", issuer: "https://e2.example", audience: "a", enabled: true },
      ...{ jwksEndpoint: "https://e2.example/jwks", scopes: [], claimsProperty: "", clientId: "" },
    }),
  ],
  terminators: () => [
    {
      method: "POST",
      path: "/services",
      body: { name: "e-hosted", encryptionRequired: true },
      keep: { service: "id" },
    },
    { method: "POST", path: "/edge-routers", body: { name: "e-hosting" }, keep: { router: "id" } },
    ...made("terminators", { service: "{service}", router: "{router}", binding: "transport", address: "tcp:a:1" }),
    get(`${FABRIC}/services/{service}`),
    get(`${FABRIC}/routers/{router}`),
    get(`${FABRIC}/terminators/{made}`),
  ],
  "what belongs to nothing": () => [
    get("/services?filter=name%3D%22nothing%22"),
    get("/services/undefined/service-policies"),
    get("/identities/undefined/service-configs"),
    get("/identities/undefined/edge-routers"),
    get("/edge-routers/undefined/services"),
    get(`${FABRIC}/circuits`),
    get(`${FABRIC}/links`),
  ],
  sessions: () => [
    get("/current-identity"),
    get("/current-api-session"),
    get(`${CLIENT}/current-identity`),
    get(`${CLIENT}/services`),
    get(`${CLIENT}/current-identity/edge-routers`),
    get(`${CLIENT}/external-jwt-signers`),
    get("/api-sessions"),
    get("/sessions"),
    get("/authenticators"),
  ],
};

/** Where OpenZiti answers null, an empty list, an empty map or an empty text, ours answers the same. */
export function emptyValues(both: () => Both): void {
  describe("values that are empty", () => {
    it.each(Object.keys(ENTITIES))("of %s", async (name) => {
      const different: string[] = [];
      for (const step of ENTITIES[name]?.() ?? []) {
        const { theirs, ours } = await both().ask(step);
        const label = `${step.method} ${step.path}`;
        expect([label, ours.status]).toEqual([label, theirs.status]);
        for (const [place, how] of emptyPlaces(theirs.json.data)) {
          const own = at(ours.json.data, place);
          if (KNOWN.some((known) => known.place.test(place) && known.ours === own)) continue;
          if (own !== how) different.push(`${label}: ${place} is ${how}, ours ${own}`);
        }
      }
      expect(different).toEqual([]);
    });
  });
}
