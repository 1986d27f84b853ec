/** Of each kind: where its entities are, the spec that is declared, and what an administrator changes in the entity. */
export const DRIFT_CASES: readonly {
  readonly kind: string;
  readonly path: string;
  readonly spec?: object;
  /** What an administrator changes in the entity. */
  readonly change: object;
}[] = [
  {
    kind: "ServiceConfig",
    path: "configs",
    change: { data: { protocol: "udp", address: "elsewhere", port: 1 } },
  },
  {
    kind: "OverlayService",
    path: "services",
    spec: { roleAttributes: ["web"] },
    change: { roleAttributes: ["stolen"], encryptionRequired: false },
  },
  {
    kind: "Identity",
    path: "identities",
    spec: { roleAttributes: ["web"] },
    change: { roleAttributes: ["stolen"] },
  },
  {
    kind: "ServicePolicy",
    path: "service-policies",
    spec: { serviceRoles: ["#web"], identityRoles: ["#web"] },
    change: { identityRoles: ["#all"], semantic: "AllOf" },
  },
  {
    kind: "EdgeRouterPolicy",
    path: "edge-router-policies",
    spec: { edgeRouterRoles: ["#all"], identityRoles: ["#web"] },
    change: { identityRoles: ["#all"] },
  },
  {
    kind: "ServiceEdgeRouterPolicy",
    path: "service-edge-router-policies",
    spec: { edgeRouterRoles: ["#all"], serviceRoles: ["#web"] },
    change: { serviceRoles: ["#all"] },
  },
  {
    kind: "AuthPolicy",
    path: "auth-policies",
    change: { name: "stolen", primary: { cert: { allowed: false } } },
  },
  {
    kind: "PostureCheck",
    path: "posture-checks",
    spec: { roleAttributes: ["web"] },
    change: { typeId: "MFA", roleAttributes: ["stolen"] },
  },
];
