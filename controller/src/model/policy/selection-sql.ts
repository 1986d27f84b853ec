/**
 * The rule of `policy/selector.ts` as SQL conditions, in both directions: the entities that a selector means, and the policies that mean an entity.
 * Only the integrity check writes this rule in SQL again: it compares the results of these conditions with its own.
 */
import { type RawBuilder, type SqlBool, sql } from "kysely";
import type { Attributed, RoleSelector, Semantic } from "../../policy/selector.ts";

/** The tables of the three kinds of policy. */
export type PolicyTable = "service_policy" | "edge_router_policy" | "service_edge_router_policy";

/** The sides that a policy may have: each is an entity's table, and the beginning of the policy's columns. */
export type PolicySide = "identity" | "service" | "router" | "posture_check";

/** A policy's selector on one side. */
export interface RoleSelection {
  readonly selector: RoleSelector;
  readonly semantic: Semantic;
}

/** The condition "the selector means this row", for a table with the columns `id` and `attrs`. */
export function selectedBy({ selector, semantic }: RoleSelection, alias: string): RawBuilder<SqlBool> {
  if (selector.all) return sql<SqlBool>`true`;
  const parts: RawBuilder<SqlBool>[] = [];
  if (selector.ids.length > 0) parts.push(sql<SqlBool>`${sql.ref(`${alias}.id`)} = ANY (${selector.ids}::text[])`);
  if (selector.attrs.length > 0) {
    const operator = semantic === "AllOf" ? sql.raw("@>") : sql.raw("&&");
    parts.push(sql<SqlBool>`${sql.ref(`${alias}.attrs`)} ${operator} ${selector.attrs}::text[]`);
  }
  return parts.length === 0 ? sql<SqlBool>`false` : sql<SqlBool>`(${sql.join(parts, sql` OR `)})`;
}

/** The condition "one of these selectors means this row", with as few array operators as possible. */
export function selectedByAny(selections: readonly RoleSelection[], alias: string): RawBuilder<SqlBool> {
  if (selections.some(({ selector }) => selector.all)) return sql<SqlBool>`true`;
  const isSingle = (s: RoleSelection) => s.semantic === "AnyOf" || s.selector.attrs.length <= 1;
  const anyOf: RoleSelection = {
    semantic: "AnyOf",
    selector: {
      all: false,
      attrs: distinct(selections.filter(isSingle).flatMap((s) => s.selector.attrs)),
      ids: distinct(selections.flatMap((s) => s.selector.ids)),
    },
  };
  const allOf = selections.filter((s) => !isSingle(s)).map((s) => ({ ...s, selector: { ...s.selector, ids: [] } }));
  const parts = [anyOf, ...allOf].map((s) => selectedBy(s, alias));
  return sql<SqlBool>`(${sql.join(parts, sql` OR `)})`;
}

/** The condition "the policy row `policy` means this entity on this side". No policy, not even one for `#all`, means an entity that does not exist. */
export function selects(
  table: PolicyTable,
  side: PolicySide,
  entity: Attributed | undefined,
  policy: string,
): RawBuilder<SqlBool> {
  if (entity === undefined) return sql<SqlBool>`false`;
  return policyMeans(side, policy, {
    attrs: sql`${entity.attrs}::text[]`,
    // Looked up once, by the index of the side.
    isNamed: sql`${sql.ref(`${policy}.id`)} IN (SELECT policy_id FROM ${sql.table(`${table}_ref`)}
        WHERE ${sql.ref(`${side}_id`)} = ${entity.id})`,
  });
}

/** The condition "the policy row `policy` means the row `entity` on this side", for a join of both. */
export function selectsRow(table: PolicyTable, side: PolicySide, entity: string, policy: string): RawBuilder<SqlBool> {
  return policyMeans(side, policy, {
    attrs: sql.ref(`${entity}.attrs`),
    isNamed: sql`EXISTS (SELECT 1 FROM ${sql.table(`${table}_ref`)} f
        WHERE f.policy_id = ${sql.ref(`${policy}.id`)} AND ${sql.ref(`f.${side}_id`)} = ${sql.ref(`${entity}.id`)})`,
  });
}

/** The ids of a policy's `@id` selectors on one side, as an array; the policy is `p`. */
export function refIds(table: PolicyTable, side: PolicySide): RawBuilder<string[]> {
  return sql<string[]>`ARRAY(SELECT r.entity_id FROM ${sql.table(`${table}_ref`)} r
    WHERE r.policy_id = p.id AND r.side = ${side} ORDER BY r.entity_id)`;
}

/** The rule over the columns of a policy row. A side's columns begin with its name: `identity_all`, `identity_attrs`. */
function policyMeans(
  side: PolicySide,
  policy: string,
  entity: { readonly attrs: RawBuilder<unknown> | ReturnType<typeof sql.ref>; readonly isNamed: RawBuilder<unknown> },
): RawBuilder<SqlBool> {
  const all = sql.ref(`${policy}.${side}_all`);
  const attrs = sql.ref(`${policy}.${side}_attrs`);
  const semantic = sql.ref(`${policy}.semantic`);
  return sql<SqlBool>`(${all}
    OR (${semantic} = 'AnyOf' AND ${attrs} && ${entity.attrs})
    OR (${semantic} = 'AllOf' AND cardinality(${attrs}) > 0 AND ${attrs} <@ ${entity.attrs})
    OR ${entity.isNamed})`;
}

function distinct(values: readonly string[]): string[] {
  return [...new Set(values)];
}
