/**
 * The published description of the two edge APIs (version 0.26.14), as far as a table of operations can be held against it, and every place where
 * Sallyport goes beyond it or differs. `published.test.ts` fails on any difference that is not written down here.
 */
import type { AuthRule, Method } from "../operation.ts";
import published from "./published.json" with { type: "json" };

/** One operation as published. */
export interface PublishedOperation {
  readonly api: "client" | "management";
  readonly method: Method;
  readonly path: string;
  readonly operationId: string;
  readonly auth: AuthRule;
  readonly status: number;
  readonly contentType: string;
  /** Query parameters besides those of paged lists. */
  readonly query: readonly string[];
  /** `limit`, `offset` and `filter` are read. */
  readonly isPaged: boolean;
  readonly isBodyRequired: boolean;
  readonly errors: readonly number[];
}

/** The fields of an operation in the order of a row of the file. */
const FIELDS: readonly (keyof PublishedOperation)[] = [
  ...(["api", "method", "path", "operationId", "auth", "status", "contentType"] as const),
  ...(["query", "isPaged", "isBodyRequired", "errors"] as const),
];

/** All 238 published operations. */
export function publishedOperations(): PublishedOperation[] {
  return published.map(
    (row) => Object.fromEntries(FIELDS.map((name, at) => [name, row[at]])) as unknown as PublishedOperation,
  );
}

/** What of an operation can differ. */
export type DifferenceAspect =
  | "auth"
  | "status"
  | "content type"
  | "query"
  | "paging"
  | "body"
  | "errors"
  | "operation id";

export interface Difference {
  /** `<api> <METHOD> <path>` */
  readonly operation: string;
  readonly aspect: DifferenceAspect;
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

/** Where Sallyport's table differs from the published description, and why. Each entry is one deliberate decision. */
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
  ...["api-sessions", "posture-checks"].map(
    (collection): Difference => ({
      operation: `management DELETE /${collection}/{id}`,
      aspect: "errors",
      why: "missing permission is 401 everywhere; 403 is never sent",
    }),
  ),
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
