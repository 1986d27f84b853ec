import fc from "fast-check";
import { type RawBuilder, sql } from "kysely";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { PolicyIndex } from "../../policy/policy-index.ts";
import { appendChange, type Change } from "../../store/changes/change-log.ts";
import { type TestStore, testStore } from "../../store/testing/test-store.ts";
import { seed } from "../seeds.ts";
import { testContext } from "../testing/test-context.ts";
import { PolicyMirror } from "./policy-mirror.ts";

// The rules once more, written as SQL conditions over pairs: slow, and too simple to be wrong.
function selectedSql(policy: string, side: string, refs: string, entity: string): RawBuilder<boolean> {
  const [p, e] = [sql.ref(policy), sql.ref(entity)];
  return sql`(${p}.${sql.ref(`${side}_all`)}
    OR EXISTS (SELECT 1 FROM ${sql.table(refs)} ref WHERE ref.policy_id = ${p}.id AND ref.side = ${side} AND ref.entity_id = ${e}.id)
    OR (cardinality(${p}.${sql.ref(`${side}_attrs`)}) > 0 AND CASE ${p}.semantic
      WHEN 'AllOf' THEN ${e}.attrs @> ${p}.${sql.ref(`${side}_attrs`)} ELSE ${e}.attrs && ${p}.${sql.ref(`${side}_attrs`)} END))`;
}

const IDS = ["a", "b", "c", "d"];
const ATTRS = ["x", "y", "z"];
const attrs = fc.subarray(ATTRS);
const semantic = fc.constantFrom("AllOf", "AnyOf");
const selector = fc.oneof(
  { weight: 1, arbitrary: fc.constant({ all: true, attrs: [] as string[], ids: [] as string[] }) },
  { weight: 6, arbitrary: fc.record({ all: fc.constant(false), attrs, ids: fc.subarray(IDS, { maxLength: 2 }) }) },
);
const entities = fc.record({ a: attrs, b: attrs, c: attrs, d: attrs });
const servicePolicy = fc.record({
  type: fc.constantFrom("Dial", "Bind"),
  semantic,
  identity: selector,
  service: selector,
});
const routerPolicy = fc.record({ semantic, from: selector, router: selector });
const network = fc.record({
  identities: entities,
  services: entities,
  routers: entities,
  servicePolicies: fc.array(servicePolicy, { maxLength: 5 }),
  edgeRouterPolicies: fc.array(routerPolicy, { maxLength: 3 }),
  serviceEdgeRouterPolicies: fc.array(routerPolicy, { maxLength: 3 }),
  // Changes afterwards, told to the index row by row.
  later: fc.record({ service: attrs, policy: servicePolicy, routerPolicy }),
});
type Network = typeof network extends fc.Arbitrary<infer T> ? T : never;
type Selector = Network["servicePolicies"][number]["identity"];

let test: TestStore;
beforeAll(async () => {
  test = await testStore();
  await seed(test.store);
});
afterAll(() => test.drop());

const run = (query: RawBuilder<unknown>) => query.execute(test.store.db);

async function putRefs(table: string, policy: string, sides: Record<string, Selector>): Promise<void> {
  await run(sql`DELETE FROM ${sql.table(table)} WHERE policy_id = ${policy}`);
  for (const [side, { ids }] of Object.entries(sides)) {
    for (const id of ids)
      await run(sql`INSERT INTO ${sql.table(table)} (policy_id, side, entity_id) VALUES (${policy}, ${side}, ${id})`);
  }
}

async function putServicePolicy(id: string, p: Network["servicePolicies"][number]): Promise<void> {
  await run(sql`INSERT INTO service_policy (id, name, type, semantic, identity_all, identity_attrs, service_all, service_attrs)
    VALUES (${id}, ${id}, ${p.type}, ${p.semantic}, ${p.identity.all}, ${p.identity.attrs}, ${p.service.all}, ${p.service.attrs})
    ON CONFLICT (id) DO UPDATE SET type = excluded.type, semantic = excluded.semantic, identity_all = excluded.identity_all,
      identity_attrs = excluded.identity_attrs, service_all = excluded.service_all, service_attrs = excluded.service_attrs`);
  await putRefs("service_policy_ref", id, { identity: p.identity, service: p.service });
}

async function putRouterPolicy(
  table: string,
  from: string,
  id: string,
  p: Network["edgeRouterPolicies"][number],
): Promise<void> {
  const [all, list] = [sql.ref(`${from}_all`), sql.ref(`${from}_attrs`)];
  await run(sql`INSERT INTO ${sql.table(table)} (id, name, semantic, ${all}, ${list}, router_all, router_attrs)
    VALUES (${id}, ${id}, ${p.semantic}, ${p.from.all}, ${p.from.attrs}, ${p.router.all}, ${p.router.attrs})
    ON CONFLICT (id) DO UPDATE SET semantic = excluded.semantic, ${all} = excluded.${all}, ${list} = excluded.${list},
      router_all = excluded.router_all, router_attrs = excluded.router_attrs`);
  await putRefs(`${table}_ref`, id, { [from]: p.from, router: p.router });
}

async function fill(n: Network): Promise<void> {
  for (const table of [
    "service_policy",
    "edge_router_policy",
    "service_edge_router_policy",
    "service",
    "router",
    "identity",
  ]) {
    await run(sql`DELETE FROM ${sql.table(table)} WHERE NOT is_system`);
  }
  for (const id of IDS) {
    await run(
      sql`INSERT INTO identity (id, name, type_id, attrs) VALUES (${id}, ${id}, 'Default', ${n.identities[id as "a"]})`,
    );
    await run(
      sql`INSERT INTO service (id, name, encryption_required, attrs) VALUES (${id}, ${id}, true, ${n.services[id as "a"]})`,
    );
    await run(sql`INSERT INTO router (id, name, attrs) VALUES (${id}, ${id}, ${n.routers[id as "a"]})`);
  }
  for (const [i, p] of n.servicePolicies.entries()) await putServicePolicy(`p${i}`, p);
  for (const [i, p] of n.edgeRouterPolicies.entries())
    await putRouterPolicy("edge_router_policy", "identity", `e${i}`, p);
  for (const [i, p] of n.serviceEdgeRouterPolicies.entries())
    await putRouterPolicy("service_edge_router_policy", "service", `x${i}`, p);
}

async function bySql() {
  const { rows: access } = await sql<{ identity: string; service: string; types: string[]; policies: string[] }>`
    SELECT i.id AS identity, s.id AS service, array_agg(DISTINCT p.type ORDER BY p.type) AS types, array_agg(p.id ORDER BY p.id) AS policies
    FROM identity i CROSS JOIN service s JOIN service_policy p
      ON ${selectedSql("p", "identity", "service_policy_ref", "i")} AND ${selectedSql("p", "service", "service_policy_ref", "s")}
    GROUP BY i.id, s.id ORDER BY i.id, s.id`.execute(test.store.db);
  const { rows: routers } = await sql<{ identity: string; service: string; router: string }>`
    SELECT i.id AS identity, s.id AS service, r.id AS router FROM identity i CROSS JOIN service s CROSS JOIN router r
    WHERE EXISTS (SELECT 1 FROM edge_router_policy p WHERE ${selectedSql("p", "identity", "edge_router_policy_ref", "i")}
        AND ${selectedSql("p", "router", "edge_router_policy_ref", "r")})
      AND EXISTS (SELECT 1 FROM service_edge_router_policy p WHERE ${selectedSql("p", "service", "service_edge_router_policy_ref", "s")}
        AND ${selectedSql("p", "router", "service_edge_router_policy_ref", "r")})
    ORDER BY 1, 2, 3`.execute(test.store.db);
  return { access, routers };
}

function byIndex(index: PolicyIndex, n: Network) {
  const pairs = IDS.flatMap((identity) =>
    IDS.map((service) => ({ identity, service, who: { id: identity, attrs: n.identities[identity as "a"] } })),
  );
  const access = pairs.flatMap(({ identity, service, who }) => {
    const found = index.accessTo(who, service);
    return found ? [{ identity, service, types: [...found.permissions], policies: [...found.policyIds] }] : [];
  });
  const routers = pairs.flatMap(({ identity, service, who }) =>
    index.routersFor(who, service).map((router) => ({ identity, service, router })),
  );
  return { access, routers };
}

async function expectEqual(index: PolicyIndex, n: Network): Promise<void> {
  const expected = await bySql();
  expect(byIndex(index, n)).toEqual(expected);
  for (const id of IDS) {
    const mine = expected.access.filter((row) => row.identity === id).map((row) => row.service);
    expect(index.servicesOf({ id, attrs: n.identities[id as "a"] })).toEqual(mine);
  }
}

it("answers as SQL over all pairs does, after loading and after changes", async () => {
  const follower = new PolicyMirror(testContext(test.store));
  const changed = (...changes: [kind: string, key: string, op: Change["op"]][]) =>
    appendChange(test.store.db, ...changes.map(([kind, key, op]) => ({ kind, key, op })));
  await fc.assert(
    fc.asyncProperty(network, async (n) => {
      await fill(n);
      const mirror = new PolicyMirror(testContext(test.store));
      await expectEqual(await mirror.current(), n);

      await run(sql`UPDATE service SET attrs = ${n.later.service} WHERE id = 'a'`);
      await putServicePolicy("p0", n.later.policy);
      await putRouterPolicy("edge_router_policy", "identity", "e0", n.later.routerPolicy);
      await run(sql`DELETE FROM service_policy WHERE id = 'p1'`);
      await run(sql`DELETE FROM router WHERE id = 'b'`);
      await changed(
        ["service", "a", "update"],
        ["service_policy", "p0", "update"],
        ["edge_router_policy", "e0", "update"],
        ["service_policy", "p1", "delete"],
        ["router", "b", "delete"],
      );
      await expectEqual(await mirror.current(), n);
      mirror.close();

      // One that has seen every network before this one, change by change.
      const kinds = { service_policy: "p", edge_router_policy: "e", service_edge_router_policy: "x" };
      for (const [kind, letter] of Object.entries(kinds)) {
        await changed(...[0, 1, 2, 3, 4].map((i): [string, string, "update"] => [kind, `${letter}${i}`, "update"]));
      }
      for (const kind of ["service", "router"])
        await changed(...IDS.map((id): [string, string, "update"] => [kind, id, "update"]));
      await expectEqual(await follower.current(), n);
    }),
    { numRuns: 50 },
  );
  follower.close();
}, 120_000);
