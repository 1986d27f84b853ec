/** Of each kind: where its entities are, the spec that is declared, and what somebody changes in the entity. */
export const DRIFT_CASES: readonly {
  readonly kind: string;
  readonly path: string;
  readonly spec?: object;
  /** Another spec, for one that finds the entity of the first. */
  readonly change: object;
  /** What a foreigner creates by hand. */
  readonly foreign: object;
}[] = [
  {
    kind: "ServiceConfig",
    path: "configs",
    change: { data: { protocol: "udp", address: "elsewhere", port: 1 } },
    foreign: {},
  },
  {
    kind: "OverlayService",
    path: "services",
    spec: { roleAttributes: ["web"] },
    change: { roleAttributes: ["stolen"], encryptionRequired: false },
    foreign: { encryptionRequired: true, roleAttributes: ["old"] },
  },
  {
    kind: "Identity",
    path: "identities",
    spec: { roleAttributes: ["web"] },
    change: { roleAttributes: ["stolen"] },
    foreign: { type: "Default", isAdmin: false, roleAttributes: ["old"] },
  },
  {
    kind: "ServicePolicy",
    path: "service-policies",
    spec: { serviceRoles: ["#web"], identityRoles: ["#web"] },
    change: { identityRoles: ["#all"], semantic: "AllOf" },
    foreign: { type: "Dial", semantic: "AllOf" },
  },
  {
    kind: "EdgeRouterPolicy",
    path: "edge-router-policies",
    spec: { edgeRouterRoles: ["#all"], identityRoles: ["#web"] },
    change: { identityRoles: ["#all"] },
    foreign: { semantic: "AllOf" },
  },
  {
    kind: "ServiceEdgeRouterPolicy",
    path: "service-edge-router-policies",
    spec: { edgeRouterRoles: ["#all"], serviceRoles: ["#web"] },
    change: { serviceRoles: ["#all"] },
    foreign: { semantic: "AllOf" },
  },
  {
    kind: "AuthPolicy",
    path: "auth-policies",
    change: { name: "stolen", primary: { cert: { allowed: false } } },
    foreign: {
      primary: {
        cert: { allowed: true, allowExpiredCerts: true },
        extJwt: { allowed: false, allowedSigners: [] },
        updb: {
          allowed: false,
          lockoutDurationMinutes: 0,
          maxAttempts: 5,
          minPasswordLength: 5,
          requireMixedCase: false,
          requireNumberChar: false,
          requireSpecialChar: false,
        },
      },
      secondary: { requireTotp: true, requireExtJwtSigner: null },
    },
  },
  {
    kind: "PostureCheck",
    path: "posture-checks",
    spec: { roleAttributes: ["web"] },
    change: { typeId: "MFA", roleAttributes: ["stolen"] },
    foreign: { typeId: "MFA" },
  },
];
