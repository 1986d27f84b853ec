import { sql } from "kysely";
import type { PolicyIndex } from "../../policy/policy-index.ts";
import type { Attributed } from "../../policy/selector.ts";
import type { Db } from "../context.ts";
import type { PolicyMirror } from "../policy/policy-mirror.ts";
import type { IntegrityCheck, Violation } from "./integrity-check.ts";

const BATCH = 500;
/** Identities are compared up to this number, spread over all of them: each costs an evaluation of every policy. */
const MAX_IDENTITIES = 2_000;
/** A change during the comparison makes a difference that is gone at the next look. */
const LOOKS = 4;

/**
 * The index in memory answers about access what SQL answers over the rows themselves: policies of every service, policies and edge routers of identities. The
 * fix reloads the index.
 */
export function policyInMemory(mirror: PolicyMirror): IntegrityCheck {
  return {
    name: "policy in memory",
    async find(db, limit) {
      const findings: Violation[] = [];
      for (const side of [services(), identities()]) {
        for await (const keys of side.batches(db)) {
          findings.push(...(await differences(db, mirror, side, keys)));
          if (findings.length >= limit) return findings.slice(0, limit);
        }
      }
      return findings;
    },
    fix: () => mirror.renew(),
  };
}

/** One kind of entity, by SQL and by the index. */
interface ComparedSide {
  readonly what: string;
  batches(db: Db): AsyncGenerator<string[]>;
  bySql(db: Db, keys: readonly string[]): Promise<{ entity: Attributed; found: string }[]>;
  byIndex(index: PolicyIndex, entity: Attributed): string;
}

async function differences(
  db: Db,
  mirror: PolicyMirror,
  side: ComparedSide,
  keys: readonly string[],
): Promise<Violation[]> {
  let suspects: readonly string[] = keys;
  for (let look = 1; suspects.length > 0 && look <= LOOKS; look++) {
    const expected = await side.bySql(db, suspects);
    // Never older than what SQL has just seen.
    const index = await mirror.current();
    suspects = expected
      .filter(({ entity, found }) => side.byIndex(index, entity) !== found)
      .map(({ entity }) => entity.id);
  }
  return suspects.map((id) => ({
    key: id,
    description: `the policies in memory give ${side.what} ${id} other access than those in the database`,
  }));
}

function services(): ComparedSide {
  return {
    what: "service",
    async *batches(db) {
      for (let last = ""; ; ) {
        const { rows } = await sql<{ id: string }>`
          SELECT id FROM service WHERE id > ${last} ORDER BY id LIMIT ${BATCH}`.execute(db);
        if (rows.length > 0) yield rows.map(({ id }) => id);
        if (rows.length < BATCH) return;
        last = rows.at(-1)?.id ?? last;
      }
    },
    async bySql(db, keys) {
      const { rows } = await sql<Attributed & { policies: string[] }>`
        SELECT e.id, e.attrs, coalesce(p.policies, '{}') AS policies FROM service e
        LEFT JOIN LATERAL (SELECT array_agg(p.id ORDER BY p.id) AS policies FROM service_policy p
          WHERE ${selected("service_policy", "service")}) p ON true
        WHERE e.id = ANY (${keys}::text[])`.execute(db);
      return rows.map(({ policies, ...entity }) => ({ entity, found: policies.join(" ") }));
    },
    byIndex: (index, { id }) => sorted(index.policiesOfService(id).map((policy) => policy.id)),
  };
}

function identities(): ComparedSide {
  return {
    what: "identity",
    async *batches(db) {
      const { rows } = await sql<{ id: string }>`
        SELECT id FROM (SELECT id, row_number() OVER () AS n, count(*) OVER () AS total FROM identity) i
        WHERE n % greatest(total / ${MAX_IDENTITIES}, 1) = 0 LIMIT ${MAX_IDENTITIES}`.execute(db);
      for (let at = 0; at < rows.length; at += BATCH) yield rows.slice(at, at + BATCH).map(({ id }) => id);
    },
    async bySql(db, keys) {
      const { rows } = await sql<Attributed & { policies: string[]; routers: string[] }>`
        SELECT e.id, e.attrs, coalesce(p.policies, '{}') AS policies, coalesce(r.routers, '{}') AS routers FROM identity e
        LEFT JOIN LATERAL (SELECT array_agg(p.id ORDER BY p.id) AS policies FROM service_policy p
          WHERE ${selected("service_policy", "identity")}) p ON true
        LEFT JOIN LATERAL (SELECT array_agg(e2.id ORDER BY e2.id) AS routers FROM router e2
          WHERE e2.kind = 'edge' AND NOT e2.disabled AND EXISTS (SELECT 1 FROM edge_router_policy p
            WHERE ${selected("edge_router_policy", "identity")} AND ${selected("edge_router_policy", "router", "e2")})) r ON true
        WHERE e.id = ANY (${keys}::text[])`.execute(db);
      return rows.map(({ policies, routers, ...entity }) => ({
        entity,
        found: `${policies.join(" ")}; ${routers.join(" ")}`,
      }));
    },
    byIndex: (index, entity) =>
      `${sorted(index.policiesOf(entity).map((policy) => policy.id))}; ${index.routersOfIdentity(entity).join(" ")}`,
  };
}

/**
 * "The policy `p` selects the entity on this side", written out over its row and its references. On purpose this is not the condition of
 * `model/policy/selection-sql.ts`: a check that used the rule under test would find nothing wrong with it.
 */
function selected(policy: string, side: string, entity = "e") {
  const column = (name: string) => sql.ref(`p.${side}_${name}`);
  const attrs = sql.ref(`${entity}.attrs`);
  return sql`(${column("all")}
    OR EXISTS (SELECT 1 FROM ${sql.table(`${policy}_ref`)} f
      WHERE f.policy_id = p.id AND f.side = ${side} AND f.entity_id = ${sql.ref(`${entity}.id`)})
    OR (cardinality(${column("attrs")}) > 0 AND CASE p.semantic
      WHEN 'AllOf' THEN ${attrs} @> ${column("attrs")} ELSE ${attrs} && ${column("attrs")} END))`;
}

// As COLLATE "C" sorts.
function sorted(ids: readonly string[]): string {
  return [...ids].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b))).join(" ");
}
