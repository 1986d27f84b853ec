import { type RawBuilder, type SqlBool, sql } from "kysely";
import { appendChange } from "../../store/changes/change-log.ts";
import { loggedWrite } from "../../store/changes/logged-write.ts";
import type { Db } from "../context.ts";
import { DEFAULT_AUTH_POLICY, FIXED_CONFIG_TYPES, seedIn } from "../seeds.ts";
import { endSessions } from "../session/session-removal.ts";
import { IS_UNAUTHORIZED, UNAUTHORIZED } from "../session/sessions.ts";
import { byQuery, type IntegrityCheck, keysOf, type Violation } from "./integrity-check.ts";

/** Rules of the network that no constraint of the database can hold. */
export function networkChecks(): IntegrityCheck[] {
  return [seeds, administrator, tunnelers, tunnelerPolicies, sessionOwners, sessionAccess, signers];
}

const seeds = byQuery(
  "seeds",
  sql`SELECT 'auth-policy' AS key, 'the default auth policy is missing' AS description
      WHERE NOT EXISTS (SELECT 1 FROM auth_policy WHERE id = ${DEFAULT_AUTH_POLICY})
    UNION ALL SELECT t.id, 'the config type ' || t.name || ', which every network has, is missing'
      FROM unnest(${FIXED_CONFIG_TYPES.map(({ id }) => id)}::text[], ${FIXED_CONFIG_TYPES.map(({ name }) => name)}::text[]) AS t (id, name)
      WHERE NOT EXISTS (SELECT 1 FROM config_type c WHERE c.id = t.id OR c.name = t.name)`,
  (db) => seedIn(db),
);

const administrator = byQuery(
  "administrator",
  sql`SELECT 'admin' AS key, 'no identity is an administrator: run sallyport-controller init on this network again, it makes one' AS description
    WHERE NOT EXISTS (SELECT 1 FROM identity WHERE is_admin)`,
);

/** A router with a tunneler has an identity of its id, and a policy of its id that ties the two. */
const tunnelers = byQuery(
  "tunnelers",
  sql`SELECT r.id AS key, 'router ' || r.id || ' runs a tunneler, and its identity, or the policy between the two, is missing' AS description
    FROM router r WHERE r.is_tunneler_enabled AND NOT (
      EXISTS (SELECT 1 FROM identity i WHERE i.id = r.id)
      AND EXISTS (SELECT 1 FROM edge_router_policy_ref f WHERE f.policy_id = r.id AND f.identity_id = r.id)
      AND EXISTS (SELECT 1 FROM edge_router_policy_ref f WHERE f.policy_id = r.id AND f.router_id = r.id))`,
  async (db, findings) => {
    for (const { key: id } of findings) {
      const identity = await sql<{ id: string }>`
        INSERT INTO identity (id, name, type_id) SELECT id, name, 'Router' FROM router WHERE id = ${id}
        ON CONFLICT (id) DO NOTHING RETURNING id`.execute(db);
      const policy = await sql<{ id: string }>`
        INSERT INTO edge_router_policy (id, name, semantic, is_system) VALUES (${id}, ${`edge-router-${id}-system`}, 'AnyOf', true)
        ON CONFLICT (id) DO NOTHING RETURNING id`.execute(db);
      await sql`INSERT INTO edge_router_policy_ref (policy_id, side, entity_id)
        VALUES (${id}, 'identity', ${id}), (${id}, 'router', ${id}) ON CONFLICT DO NOTHING`.execute(db);
      await appendChange(
        db,
        { kind: "identity", key: id, op: identity.rows.length > 0 ? "create" : "update" },
        { kind: "edge_router_policy", key: id, op: policy.rows.length > 0 ? "create" : "update" },
      );
    }
  },
);

const tunnelerPolicies = byQuery(
  "policies of tunnelers",
  sql`SELECT p.id AS key, 'edge router policy ' || p.name || ' belongs to the tunneler of a router that has none' AS description
    FROM edge_router_policy p WHERE p.is_system AND p.name = 'edge-router-' || p.id || '-system'
      AND NOT EXISTS (SELECT 1 FROM router r WHERE r.id = p.id AND r.is_tunneler_enabled)`,
  async (db, findings) => {
    await loggedWrite(
      db,
      sql`WITH gone AS (DELETE FROM edge_router_policy WHERE id = ANY (${keysOf(findings)}::text[]) RETURNING id)`,
      { changes: [{ kind: "edge_router_policy", op: "delete", of: "gone" }] },
    );
  },
);

/** Those that still fulfil the condition. */
const endThem = (condition: RawBuilder<SqlBool>) => async (db: Db, findings: readonly Violation[]) => {
  await endSessions(db, sql`s.id = ANY (${keysOf(findings)}::text[]) AND ${condition}`);
};

const sessionOwners = byQuery(
  "owners of sessions",
  sql`SELECT s.id AS key, 'session ' || s.id || ' is of another identity than its API session' AS description
    FROM session s JOIN api_session a ON a.id = s.api_session_id WHERE a.identity_id <> s.identity_id`,
  endThem(sql`EXISTS (SELECT 1 FROM api_session a WHERE a.id = s.api_session_id AND a.identity_id <> s.identity_id)`),
);

const sessionAccess = byQuery(
  "access of sessions",
  sql`SELECT s.id AS key, 'session ' || s.id || ' of identity ' || i.id || ' for service ' || v.id || ' is allowed by no policy' AS description
    FROM session s JOIN identity i ON i.id = s.identity_id JOIN service v ON v.id = s.service_id WHERE ${UNAUTHORIZED}`,
  endThem(IS_UNAUTHORIZED),
);

/** Signers that an auth policy allows exist. */
const signers = byQuery(
  "signers of auth policies",
  sql`SELECT p.id AS key, 'auth policy ' || p.id || ' allows the external JWT signer ' || x || ', which does not exist' AS description
    FROM auth_policy p, unnest(p.ext_jwt_signers) x WHERE NOT EXISTS (SELECT 1 FROM ext_jwt_signer j WHERE j.id = x)`,
  async (db, findings) => {
    await loggedWrite(
      db,
      sql`WITH changed AS (
        UPDATE auth_policy p SET ext_jwt_signers = ARRAY(
          SELECT x FROM unnest(p.ext_jwt_signers) WITH ORDINALITY u (x, n)
          WHERE EXISTS (SELECT 1 FROM ext_jwt_signer j WHERE j.id = x) ORDER BY n)
        WHERE p.id = ANY (${keysOf(findings)}::text[]) RETURNING p.id)`,
      { changes: [{ kind: "auth_policy", op: "update", of: "changed" }] },
    );
  },
);
