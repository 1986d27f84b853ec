/** Specs of the kinds that stand for one entity, two of each, for whatever keeps them in a network. */

type Json = Readonly<Record<string, unknown>>;

const HASH = "ab".repeat(64);
// biome-ignore format: a table
/** Kind, the spec that it is made with, the spec that it is changed to. */
export const SPECS: readonly (readonly [kind: string, first: Json, second: Json])[] = [
  ["OverlayService", { roleAttributes: ["web", "a"], tags: { tier: "1" } }, { roleAttributes: ["b"], terminatorStrategy: "weighted", maxIdleTimeMillis: 60_000 }],
  ["ServiceConfig", { data: { protocol: "tcp", address: "localhost", port: 80 } }, { data: { protocol: "tcp", address: "localhost", port: 81 } }],
  ["ServicePolicy", { identityRoles: ["#z", "#a"], serviceRoles: ["#web"] }, { type: "Bind", semantic: "AllOf", identityRoles: ["#all"], postureCheckRoles: ["#p"] }],
  ["EdgeRouterPolicy", { identityRoles: ["#all"], edgeRouterRoles: ["#b", "#a"] }, { semantic: "AllOf", identityRoles: ["#x"] }],
  ["ServiceEdgeRouterPolicy", { serviceRoles: ["#all"], edgeRouterRoles: ["#all"] }, { serviceRoles: ["#x"], edgeRouterRoles: ["#all"] }],
  ["AuthPolicy", { primary: { cert: { allowed: true } } }, { primary: { updb: { minPasswordLength: 12, maxAttempts: 3, lockoutDurationMinutes: 5, requireMixedCase: true } }, secondary: { requireTotp: true } }],
  ["PostureCheck", { mfa: { timeoutSeconds: 600, promptOnWake: true }, roleAttributes: ["x"] }, { mfa: { promptOnUnlock: true } }],
  ["PostureCheck", { mfa: null, domain: { domains: ["Corp.Example"] } }, { mfa: null, domain: { domains: ["b", "Corp.Example"] } }],
  ["PostureCheck", { mfa: null, mac: { macAddresses: ["00:1B:44:11:3A:B7"] } }, { mfa: null, mac: { macAddresses: ["00:1B:44:11:3A:B8"] } }],
  ["PostureCheck", { mfa: null, operatingSystem: { operatingSystems: [{ type: "macOS", versions: [">=14.0.0"] }, { type: "Linux" }] } }, { mfa: null, operatingSystem: { operatingSystems: [{ type: "Linux" }] } }],
  ["PostureCheck", { mfa: null, process: { osType: "Linux", path: "/bin/a", hashes: [HASH], signerFingerprint: "AB:CD" } }, { mfa: null, process: { osType: "Linux", path: "/bin/a" } }],
  ["PostureCheck", { mfa: null, processMulti: { semantic: "AnyOf", processes: [{ osType: "Linux", path: "/bin/a" }] } }, { mfa: null, processMulti: { semantic: "AllOf", processes: [{ osType: "Linux", path: "/bin/a", hashes: [HASH] }] } }],
];
