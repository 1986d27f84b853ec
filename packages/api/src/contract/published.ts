/**
 * The published descriptions, as far as a table of operations can be held against them, and every place where Sallyport goes beyond them or differs:
 * that of the two edge APIs of the specification (version 0.26.14), and those of OpenZiti 2.1 (edge APIs 0.35.0, Fabric API 0.16.54).
 * `published.test.ts` fails on any difference that is not written down here.
 */
import type { AuthRule, Method } from "../operation.ts";
import type { ApiName } from "../operations/apis.ts";
import published from "./published.json" with { type: "json" };
import published21 from "./published-2.1.json" with { type: "json" };

/** One operation as published. */
export interface PublishedOperation {
  readonly api: ApiName;
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

const FILES = { "0.26.14": published, "2.1": published21 };
type PublishedVersion = keyof typeof FILES;

/** All operations of a description. */
export function publishedOperations(version: PublishedVersion): PublishedOperation[] {
  return FILES[version].map(
    (row) => Object.fromEntries(FIELDS.map((name, at) => [name, row[at]])) as unknown as PublishedOperation,
  );
}

/** `<api> <METHOD> <path>`, by which the lists of this file name an operation. */
export function operationKey({ api, method, path }: { api: string; method: string; path: string }): string {
  return `${api} ${method} ${path}`;
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
  /** As {@link operationKey} gives it. */
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

/** Where it differs from the description of 2.1. */
export const DIFFERENCES_21: readonly Difference[] = [
  ...DIFFERENCES.filter(
    ({ operation, aspect }) => !(operation.startsWith("client POST /enroll") && aspect === "content type"),
  ),
  ...["client", "management"].map(
    (api): Difference => ({
      operation: `${api} GET /network-jwts`,
      aspect: "paging",
      why: "described without list parameters, but it is a list, and the ziti CLI sends them",
    }),
  ),
  ...["ott", "ottca", "erott"].flatMap((method): Difference[] => [
    {
      operation: `client POST /enroll/${method}`,
      aspect: "query",
      why: "clients before 2.0 send the token in the query; in the body it is taken, too",
    },
    {
      operation: `client POST /enroll/${method}`,
      aspect: "body",
      why: "clients before 2.0 send a PEM request, and an authority's certificate needs none",
    },
  ]),
  {
    operation: "client POST /enroll/updb",
    aspect: "body",
    why: "as for the other methods; without a password it is 400",
  },
  {
    operation: "client POST /enroll/updb",
    aspect: "operation id",
    why: "the id of the specification, which the typed client has: ernollUpdb",
  },
  {
    operation: "client POST /enroll/token",
    aspect: "body",
    why: "without one the identity enrolls to authenticate by tokens",
  },
  {
    operation: "client POST /enroll/token",
    aspect: "errors",
    why: "410 is never sent: an expired token is 400 INVALID_ENROLLMENT_TOKEN",
  },
  {
    operation: "client POST /enroll",
    aspect: "errors",
    why: "an enrollment that has expired is 400 ENROLLMENT_EXPIRED, not 410",
  },
  {
    operation: "management POST /authenticators/{id}/request-extend",
    aspect: "errors",
    why: "missing permission is 401 everywhere; 403 is never sent",
  },
  {
    operation: "management GET /identities/{id}/services",
    aspect: "query",
    why: "a list with all parameters, of which the description names `filter` only",
  },
  ...["add-member", "remove-member"].map(
    (action): Difference => ({
      operation: `fabric POST /cluster/${action}`,
      aspect: "operation id",
      why: "named like the other operations",
    }),
  ),
  {
    operation: "fabric POST /cluster/transfer-leadership",
    aspect: "errors",
    why: "always refused: a controller alone answers 400 SERVER_NOT_RUNNING_IN_HA_MODE, whatever member is named",
  },
  { operation: "fabric POST /database/snapshot", aspect: "body", why: "without a path the controller chooses one" },
];

/** An operation that the published description (0.26.14) has not. */
export interface Addition {
  readonly operation: string;
  /** A version of the description that has it, the earliest one known. */
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
  ...["client", "management"].map((api) => ({
    operation: `${api} GET /enumerated-router-capabilities`,
    since: "0.35.0",
    client: "SDKs of 2.1, which choose a router by them",
  })),
  ...["identity", "edge-router", "service", "posture-check"].map((kind) => ({
    operation: `management GET /${kind}-role-attribute-usage`,
    since: "0.35.0",
    client: "administration consoles of 2.1",
  })),
  ...["client", "management"].map((api) => ({
    operation: `${api} POST /current-api-session/totp-token`,
    since: "0.35.0",
    client: "SDKs of 2.x, whose routers check one-time codes",
  })),
  ...["GET /revocations", "POST /revocations", "GET /revocations/{id}"].map((operation) => ({
    operation: `management ${operation}`,
    since: "0.35.0",
    client: "ziti edge create revocation, administration consoles of 2.1",
  })),
  {
    operation: "client POST /enroll/token",
    since: "0.35.0",
    client: "programs of 2.x that enroll by a token of an identity provider",
  },
];

/** An operation that no description of OpenZiti has: Sallyport's own. */
export interface OwnOperation {
  readonly operation: string;
  /** What it is for, and why no published operation serves that. */
  readonly why: string;
}

export const OWN_OPERATIONS: readonly OwnOperation[] = [
  {
    operation: "client GET /services/{id}/why",
    why: "the same for the caller itself, as far as it may know: an application can say what is missing instead of that a dial failed",
  },
  {
    operation: "management GET /identities/{id}/why/{serviceId}",
    why: "policy-advice counts routers and says yes or no: this says what is missing, from the login to the last failed dial, and the command that adds it",
  },
];
