import { sql } from "kysely";
import type { Db } from "./context.ts";

/** Collections by their key in the summary, and how they are counted. */
const COUNTED: Readonly<Record<string, string>> = {
  apiSessionCertificates: "api_session_certificate",
  apiSessions: "api_session",
  authPolicies: "auth_policy",
  authenticators: "authenticator",
  cas: "ca",
  configTypes: "config_type",
  configs: "config",
  edgeRouterPolicies: "edge_router_policy",
  enrollments: "enrollment",
  externalJwtSigners: "ext_jwt_signer",
  identities: "identity",
  mfas: "mfa",
  postureChecks: "posture_check",
  revocations: "revocation",
  routers: "router",
  serviceEdgeRouterPolicies: "service_edge_router_policy",
  servicePolicies: "service_policy",
  services: "service",
  sessions: "session",
  terminators: "terminator",
};

/** Number of entities by collection. Collections without a table in this store have a fixed number. */
export async function summarize(db: Db): Promise<Record<string, number>> {
  const counts = Object.entries(COUNTED).map(
    ([key, table]) => sql`(SELECT count(*) FROM ${sql.table(table)}) AS ${sql.ref(key)}`,
  );
  const { rows } = await sql<Record<string, string>>`
    SELECT ${sql.join(counts)}, (SELECT count(*) FROM router WHERE kind = 'edge') AS "edgeRouters"`.execute(db);
  const { edgeRouters, ...tables } = rows[0] ?? {};
  const numbers = Object.fromEntries(Object.entries(tables).map(([key, count]) => [key, Number(count)]));
  return {
    ...numbers,
    "routers.edge": Number(edgeRouters ?? 0),
    "services.edge": numbers.services ?? 0,
    controllers: 0,
    eventualEvents: 0,
    identityTypes: 5,
    postureCheckTypes: 6,
  };
}
