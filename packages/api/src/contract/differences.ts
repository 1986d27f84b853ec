/** Where our table goes beyond the published description, or differs from it, and why. Each entry is one deliberate decision. */

/** What of an operation can differ. */
export type Aspect = "auth" | "status" | "content type" | "query" | "paging" | "body" | "errors" | "operation id";

export interface Difference {
  /** `<api> <METHOD> <path>` */
  readonly operation: string;
  readonly aspect: Aspect;
  readonly why: string;
}

const PAGED: readonly string[] = [
  "client GET /current-identity/edge-routers",
  ...[
    "config-types/{id}/configs",
    "edge-router-policies/{id}/edge-routers",
    "edge-router-policies/{id}/identities",
    "edge-routers/{id}/edge-router-policies",
    "edge-routers/{id}/identities",
    "edge-routers/{id}/service-edge-router-policies",
    "edge-routers/{id}/services",
    "identities/{id}/authenticators",
    "identities/{id}/edge-router-policies",
    "identities/{id}/edge-routers",
    "identities/{id}/enrollments",
    "identities/{id}/service-policies",
    "identities/{id}/services",
    "service-edge-router-policies/{id}/edge-routers",
    "service-edge-router-policies/{id}/services",
  ].map((path) => `management GET /${path}`),
];

export const DIFFERENCES: readonly Difference[] = [
  ...PAGED.map(
    (operation): Difference => ({
      operation,
      aspect: "paging",
      why: "described without list parameters, but the ziti CLI and the specification filter and page it",
    }),
  ),
  ...["client", "management"].map(
    (api): Difference => ({
      operation: `${api} DELETE /current-api-session`,
      aspect: "operation id",
      why: "the description names none",
    }),
  ),
  {
    operation: "client POST /enroll",
    aspect: "content type",
    why: "the Go SDK takes JSON only when the type is exactly application/json, and JSON carries the chain besides the certificate",
  },
  {
    operation: "client POST /enroll/ott",
    aspect: "content type",
    why: "as above; application/x-x509-user-cert is answered when Accept asks for it",
  },
  {
    operation: "client POST /posture-response-bulk",
    aspect: "status",
    why: "201 is what existing controllers answer, as for the single response",
  },
  {
    operation: "management DELETE /api-sessions/{id}",
    aspect: "errors",
    why: "missing permission is 401 everywhere; 403 is never sent",
  },
  {
    operation: "management DELETE /posture-checks/{id}",
    aspect: "errors",
    why: "missing permission is 401 everywhere; 403 is never sent",
  },
  { operation: "management GET /services", aspect: "query", why: "asIdentity: seen with the eyes of an identity" },
  ...["GET /sessions", "GET /sessions/{id}", "DELETE /sessions/{id}"].map(
    (operation): Difference => ({
      operation: `management ${operation}`,
      aspect: "auth",
      why: "callers without administrator rights see and end their own sessions, as with OpenZiti",
    }),
  ),
];

/** An operation that the published description (0.26.14) has not. */
export interface Addition {
  readonly operation: string;
  /** Version of the description that brought it. */
  readonly since: string;
  /** The callers. */
  readonly client: string;
}

export const ADDITIONS: readonly Addition[] = [
  {
    operation: "client GET /network-jwts",
    since: "0.26.34",
    client: "ziti edge list network-jwts; tunnelers that join by network",
  },
  { operation: "management GET /network-jwts", since: "0.26.34", client: "ziti edge list network-jwts" },
  {
    operation: "management POST /authenticators/{id}/request-extend",
    since: "0.26.43",
    client: "ziti edge update authenticator cert --request-extend",
  },
  {
    operation: "management GET /posture-check-role-attributes",
    since: "0.26.23",
    client: "ziti edge list posture-check-role-attributes; administration consoles that suggest attributes",
  },
  { operation: "management GET /configs/{id}/services", since: "0.26.23", client: "ziti edge list config services" },
];
