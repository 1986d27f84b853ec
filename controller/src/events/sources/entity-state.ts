import { type Kysely, sql } from "kysely";
import type { Database } from "../../store/schema.ts";

type State = Readonly<Record<string, unknown>>;

/** Kinds of the change log: the collection that events name, and the table of their rows. A table without a column `id` has no state to show. */
const KINDS: Readonly<Record<string, { readonly entityType: string; readonly table?: string }>> = {
  api_session: { entityType: "apiSessions", table: "api_session" },
  api_session_certificate: { entityType: "apiSessionCertificates", table: "api_session_certificate" },
  auth_policy: { entityType: "authPolicies", table: "auth_policy" },
  authenticator: { entityType: "authenticators", table: "authenticator" },
  ca: { entityType: "cas", table: "ca" },
  config: { entityType: "configs", table: "config" },
  config_type: { entityType: "configTypes", table: "config_type" },
  edge_router_policy: { entityType: "edgeRouterPolicies", table: "edge_router_policy" },
  enrollment: { entityType: "enrollments", table: "enrollment" },
  ext_jwt_signer: { entityType: "externalJwtSigners", table: "ext_jwt_signer" },
  identity: { entityType: "identities", table: "identity" },
  identity_service_config: { entityType: "identityServiceConfigs" },
  mfa: { entityType: "mfas", table: "mfa" },
  posture_check: { entityType: "postureChecks", table: "posture_check" },
  router: { entityType: "routers", table: "router" },
  service: { entityType: "services", table: "service" },
  service_edge_router_policy: { entityType: "serviceEdgeRouterPolicies", table: "service_edge_router_policy" },
  service_policy: { entityType: "servicePolicies", table: "service_policy" },
  session: { entityType: "sessions", table: "session" },
  terminator: { entityType: "terminators", table: "terminator" },
};

/** Columns whose values let a reader act as another identity. */
const SECRET = /(^|_)(secret|token|hash|codes|private)($|_)|^jwt$|^password$/;

/** The collection of a kind of the change log. */
export function entityTypeOf(kind: string): string {
  return KINDS[kind]?.entityType ?? kind;
}

/** The present rows of entities by id, in the names that events use; secrets are left out. */
export async function entityStates(
  db: Kysely<Database>,
  kind: string,
  ids: readonly string[],
): Promise<Map<string, State>> {
  const table = KINDS[kind]?.table;
  if (table === undefined || ids.length === 0) return new Map();
  const { rows } = await sql<{ id: string; state: State }>`
    SELECT t.id, to_jsonb(t) AS state FROM ${sql.table(table)} t WHERE t.id = ANY (${[...new Set(ids)]}::text[])`.execute(
    db,
  );
  return new Map(rows.map((row) => [row.id, withoutSecrets(row.state)]));
}

/** Columns as events name them: `is_admin` is `isAdmin`, `attrs` is `roleAttributes`. */
export function withoutSecrets(row: State): State {
  const shown = Object.entries(row).filter(
    ([column]) => !SECRET.test(column.replace(/[A-Z]/g, (c) => `_${c.toLowerCase()}`)),
  );
  return Object.fromEntries(shown.map(([column, value]) => [nameOf(column), value]));
}

function nameOf(column: string): string {
  if (column === "attrs") return "roleAttributes";
  return column.replace(/_([a-z])/g, (_all, letter: string) => letter.toUpperCase());
}
