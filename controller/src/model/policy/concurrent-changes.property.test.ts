import { TestAuthority } from "@sallyport/wire/testing";
import fc from "fast-check";
import { type RawBuilder, sql } from "kysely";
import { afterAll, beforeAll, expect, it } from "vitest";
import { matches, type RoleSelector } from "../../policy/selector.ts";
import { settled, type TestStore, testStore } from "../../store/testing/test-store.ts";
import { RouterDataModel } from "../data-model/router-data-model.ts";
import { ReceivedModel } from "../data-model/testing/received-model.ts";
import { Enrollments } from "../identity/enrollments.ts";
import { Identities } from "../identity/identities.ts";
import { Configs } from "../network/configs.ts";
import { Services } from "../network/services.ts";
import { PostureChecks } from "../posture/posture-checks.ts";
import { seed } from "../seeds.ts";
import { Revocations } from "../session/revocations.ts";
import { testContext } from "../testing/test-context.ts";
import { EDGE_ROUTER_POLICY, Policies, SERVICE_EDGE_ROUTER_POLICY, SERVICE_POLICY } from "./policies.ts";
import { PolicyMirror } from "./policy-mirror.ts";

/**
 * Random networks under several writers at once. After every round three things that follow the change log are held against plain SQL over all pairs: the
 * policy index, the time stamps that clients poll, and the model that routers are told.
 */

const SLOTS = [0, 1, 2, 3];
const ATTRS = ["x", "y", "z"];
const slot = fc.constantFrom(...SLOTS);
const attrs = fc.subarray(ATTRS);
const semantic = fc.constantFrom("AllOf" as const, "AnyOf" as const);
/** `@` entries name slots; what stands in a slot at the time is meant. */
const roles = fc.oneof(
  { weight: 1, arbitrary: fc.constant({ all: true, attrs: [] as string[], slots: [] as number[] }) },
  { weight: 6, arbitrary: fc.record({ all: fc.constant(false), attrs, slots: fc.subarray(SLOTS, { maxLength: 2 }) }) },
);
type Roles = typeof roles extends fc.Arbitrary<infer T> ? T : never;

const change = fc.oneof(
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("identity" as const), slot, attrs }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("identity tags" as const), slot }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("identity again" as const), slot, attrs }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("service" as const), slot, attrs, encrypted: fc.boolean() }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("service again" as const), slot, attrs }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("config" as const), slot, data: fc.nat(3) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("service config" as const), slot, config: slot }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("revocation" as const), slot, isOver: fc.boolean() }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("check" as const), slot, attrs, domain: fc.nat(3) }) },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant("policy" as const),
      ...{ slot, semantic, type: fc.constantFrom("Dial" as const, "Bind" as const) },
      ...{ identities: roles, services: roles, checks: roles, isNew: fc.boolean() },
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("no policy" as const), slot }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constantFrom("edge router policy" as const, "service edge router policy" as const),
      ...{ slot, semantic, from: roles, routers: roles },
    }),
  },
);
type Change = typeof change extends fc.Arbitrary<infer T> ? T : never;

let test: TestStore;
let ctx: ReturnType<typeof testContext>;
let identities: Identities;
let services: Services;
let configs: Configs;
let checks: PostureChecks;
let revocations: Revocations;
let mirror: PolicyMirror;
let dataModel: RouterDataModel;
const policies = {
  policy: new Map<number, string>(),
  "edge router policy": new Map<number, string>(),
  "service edge router policy": new Map<number, string>(),
};
/** What stands in each slot now. */
const ids = {
  identity: new Map<number, string>(),
  service: new Map<number, string>(),
  config: new Map<number, string>(),
  check: new Map<number, string>(),
};
let configType = "";
let count = 0;
const name = () => `n${count++}`;

beforeAll(async () => {
  test = await testStore();
  await seed(test.store);
  ctx = testContext(test.store);
  identities = new Identities(ctx, new Enrollments(ctx));
  services = new Services(ctx);
  configs = new Configs(ctx);
  checks = new PostureChecks(ctx);
  revocations = new Revocations(ctx);
  mirror = new PolicyMirror(ctx);
  const identity = await (await TestAuthority.create()).identity("controller");
  dataModel = new RouterDataModel(ctx, () => ({ server: identity.leaf, tokenKeys: [], authorities: identity.anchors }));
  dataModel.acquire();
  await dataModel.ready();
  configType = await configs.createType({ name: name(), schema: { type: "object" }, tags: {} } as never);
  for (const n of SLOTS) {
    await sql`INSERT INTO router (id, name, attrs) VALUES (${`r${n}`}, ${`r${n}`}, ${ATTRS.slice(0, n)})`.execute(
      test.store.db,
    );
    ids.identity.set(n, await makeIdentity([]));
    ids.service.set(n, await makeService([]));
    ids.config.set(n, await configs.create({ name: name(), configTypeId: configType, data: {}, tags: {} } as never));
    const check = { name: name(), typeId: "DOMAIN", domains: ["d"], roleAttributes: [], tags: {} };
    ids.check.set(n, await checks.create(check as never));
  }
  await mirror.current();
});
afterAll(async () => {
  mirror.close();
  await dataModel.close();
  await test.drop();
});

const makeIdentity = (roleAttributes: string[]): Promise<string> =>
  identities.create({
    ...{ name: name(), type: "Device", isAdmin: false, roleAttributes, defaultHostingCost: 0, tags: {}, appData: {} },
    ...{ defaultHostingPrecedence: "default", serviceHostingCosts: {}, serviceHostingPrecedences: {}, permissions: [] },
  } as never);
const makeService = (roleAttributes: string[]): Promise<string> =>
  services.create({
    ...{ name: name(), encryptionRequired: true, terminatorStrategy: "smartrouting", maxIdleTimeMillis: 0 },
    ...{ configs: [], roleAttributes, tags: {} },
  } as never);

function listed(roles: Roles, of: ReadonlyMap<number, string>): string[] {
  if (roles.all) return ["#all"];
  return [
    ...roles.attrs.map((attr) => `#${attr}`),
    ...roles.slots.flatMap((n) => (of.has(n) ? [`@${of.get(n)}`] : [])),
  ];
}

/** Makes one change. Another writer may have taken away what it names: then it changes nothing. */
async function make(change: Change): Promise<void> {
  const id = (kind: keyof typeof ids) => ids[kind].get(change.slot) ?? "";
  switch (change.kind) {
    case "identity":
      return identities.update(id("identity"), { roleAttributes: change.attrs } as never);
    case "identity tags":
      return identities.update(id("identity"), { tags: { n: count++ } } as never);
    case "identity again": {
      const old = id("identity");
      ids.identity.delete(change.slot);
      await identities.delete(old);
      ids.identity.set(change.slot, await makeIdentity(change.attrs));
      return;
    }
    case "service":
      return services.update(id("service"), {
        roleAttributes: change.attrs,
        encryptionRequired: change.encrypted,
      } as never);
    case "service again": {
      const old = id("service");
      ids.service.delete(change.slot);
      await services.delete(old);
      ids.service.set(change.slot, await makeService(change.attrs));
      return;
    }
    case "config":
      return configs.update(id("config"), { data: { n: change.data } } as never);
    case "service config":
      return services.update(id("service"), { configs: [ids.config.get(change.config) ?? ""] } as never);
    case "check":
      return checks.patch(id("check"), {
        ...{ typeId: "DOMAIN", domains: [`d${change.domain}`], roleAttributes: change.attrs },
      } as never);
    case "revocation":
      if (!change.isOver) return revocations.create({ id: `t${change.slot}`, type: "JTI" });
      await sql`UPDATE revocation SET expires_at = now() - interval '1 s' WHERE id = ${`t${change.slot}`}`.execute(
        test.store.db,
      );
      await revocations.sweep(new AbortController().signal);
      return;
    case "policy": {
      const input = {
        ...{ name: name(), semantic: change.semantic, type: change.type },
        identityRoles: listed(change.identities, ids.identity),
        serviceRoles: listed(change.services, ids.service),
        postureCheckRoles: listed(change.checks, ids.check),
      };
      return putPolicy("policy", new Policies(ctx, SERVICE_POLICY), change.slot, input);
    }
    case "no policy": {
      const known = policies.policy.get(change.slot);
      policies.policy.delete(change.slot);
      if (known !== undefined) await new Policies(ctx, SERVICE_POLICY).delete(known);
      return;
    }
    default: {
      const isOfServices = change.kind === "service edge router policy";
      const routers = new Map(SLOTS.map((n) => [n, `r${n}`]));
      const from = listed(change.from, isOfServices ? ids.service : ids.identity);
      const input = {
        ...{ name: name(), semantic: change.semantic, edgeRouterRoles: listed(change.routers, routers) },
        ...(isOfServices ? { serviceRoles: from } : { identityRoles: from }),
      };
      const kind = isOfServices ? SERVICE_EDGE_ROUTER_POLICY : EDGE_ROUTER_POLICY;
      return putPolicy(change.kind, new Policies(ctx, kind), change.slot, input);
    }
  }
}

async function putPolicy(
  kind: keyof typeof policies,
  store: Policies,
  slot: number,
  input: Parameters<Policies["create"]>[0],
): Promise<void> {
  const known = policies[kind].get(slot);
  if (known === undefined) policies[kind].set(slot, await store.create(input));
  else await store.update(known, input);
}

// The rules once more, written as SQL conditions over pairs: slow, and too simple to be wrong.
function selected(policy: string, side: string, refs: string, entity: string): RawBuilder<boolean> {
  const [p, e] = [sql.ref(policy), sql.ref(entity)];
  return sql`(${p}.${sql.ref(`${side}_all`)}
    OR EXISTS (SELECT 1 FROM ${sql.table(refs)} ref WHERE ref.policy_id = ${p}.id AND ref.side = ${side} AND ref.entity_id = ${e}.id)
    OR (cardinality(${p}.${sql.ref(`${side}_attrs`)}) > 0 AND CASE ${p}.semantic
      WHEN 'AllOf' THEN ${e}.attrs @> ${p}.${sql.ref(`${side}_attrs`)} ELSE ${e}.attrs && ${p}.${sql.ref(`${side}_attrs`)} END))`;
}
const inPolicy = (side: string, entity: string) => selected("p", side, "service_policy_ref", entity);

interface Seen {
  readonly identity: string;
  readonly attrs: string[];
  /** Everything that the identity's list of services shows, as text. */
  readonly services: { readonly id: string; readonly shown: string }[];
}

async function bySql(): Promise<Seen[]> {
  const { rows } = await sql<Seen>`
    SELECT i.id AS identity, i.attrs, coalesce(jsonb_agg(jsonb_build_object('id', v.id, 'shown', v.shown::text) ORDER BY v.id)
        FILTER (WHERE v.id IS NOT NULL), '[]') AS services
    FROM identity i LEFT JOIN LATERAL (
      SELECT s.id, jsonb_build_array(s.name, s.attrs, s.encryption_required,
        (SELECT jsonb_agg(jsonb_build_array(c.id, c.data) ORDER BY c.id) FROM service_config sc JOIN config c ON c.id = sc.config_id
          WHERE sc.service_id = s.id),
        jsonb_agg(jsonb_build_array(p.type, p.id, (SELECT jsonb_agg(jsonb_build_array(k.id, k.data) ORDER BY k.id)
          FROM posture_check k WHERE ${inPolicy("posture_check", "k")})) ORDER BY p.id)) AS shown
      FROM service s JOIN service_policy p ON ${inPolicy("identity", "i")} AND ${inPolicy("service", "s")}
      GROUP BY s.id) v ON true
    WHERE i.type_id = 'Default' GROUP BY i.id ORDER BY i.id`.execute(test.store.db);
  return rows;
}

async function pairsBySql() {
  const { rows: access } = await sql`
    SELECT i.id AS identity, s.id AS service, array_agg(DISTINCT p.type ORDER BY p.type) AS types, array_agg(p.id ORDER BY p.id) AS policies
    FROM identity i CROSS JOIN service s JOIN service_policy p ON ${inPolicy("identity", "i")} AND ${inPolicy("service", "s")}
    GROUP BY i.id, s.id ORDER BY i.id, s.id`.execute(test.store.db);
  const { rows: routers } = await sql`
    SELECT i.id AS identity, s.id AS service, r.id AS router FROM identity i CROSS JOIN service s CROSS JOIN router r
    WHERE EXISTS (SELECT 1 FROM edge_router_policy p WHERE ${selected("p", "identity", "edge_router_policy_ref", "i")}
        AND ${selected("p", "router", "edge_router_policy_ref", "r")})
      AND EXISTS (SELECT 1 FROM service_edge_router_policy p WHERE ${selected("p", "service", "service_edge_router_policy_ref", "s")}
        AND ${selected("p", "router", "service_edge_router_policy_ref", "r")})
    ORDER BY 1, 2, 3`.execute(test.store.db);
  const { rows: posture } = await sql`SELECT k.id AS check, p.id AS policy FROM posture_check k JOIN service_policy p
    ON ${inPolicy("posture_check", "k")} ORDER BY 1, 2`.execute(test.store.db);
  const { rows: sizes } = await sql`SELECT p.id AS policy, count(s.id)::int AS services FROM service_policy p
    LEFT JOIN service s ON ${inPolicy("service", "s")} GROUP BY p.id ORDER BY p.id`.execute(test.store.db);
  const { rows: people } = await sql`
    SELECT i.id AS identity,
      ARRAY(SELECT p.id FROM service_policy p WHERE ${inPolicy("identity", "i")} ORDER BY p.id) AS policies,
      ARRAY(SELECT r.id FROM router r WHERE EXISTS (SELECT 1 FROM edge_router_policy p
        WHERE ${selected("p", "identity", "edge_router_policy_ref", "i")}
          AND ${selected("p", "router", "edge_router_policy_ref", "r")}) ORDER BY r.id) AS routers,
      (SELECT jsonb_build_object('Dial', count(DISTINCT s.id) FILTER (WHERE p.type = 'Dial'),
          'Bind', count(DISTINCT s.id) FILTER (WHERE p.type = 'Bind'), 'either', count(DISTINCT s.id))
        FROM service_policy p JOIN service s ON ${inPolicy("service", "s")} WHERE ${inPolicy("identity", "i")}) AS services
    FROM identity i ORDER BY i.id`.execute(test.store.db);
  const { rows: hosted } = await sql`
    SELECT s.id AS service, ARRAY(SELECT p.id FROM service_policy p WHERE ${inPolicy("service", "s")} ORDER BY p.id) AS policies
    FROM service s ORDER BY s.id`.execute(test.store.db);
  return { access, routers, posture, sizes, people, hosted };
}

async function pairsByIndex() {
  const index = await mirror.current();
  const { rows: people } = await sql<{
    id: string;
    attrs: string[];
  }>`SELECT id, attrs FROM identity ORDER BY id`.execute(test.store.db);
  const serviceIds = [...ids.service.values()].sort();
  const pairs = people.flatMap((who) => serviceIds.map((service) => ({ who, service })));
  const policyIds = [...policies.policy.values()].sort();
  return {
    access: pairs.flatMap(({ who, service }) => {
      const found = index.accessTo(who, service);
      if (found === undefined) return [];
      return [{ identity: who.id, service, types: [...found.permissions], policies: [...found.policyIds] }];
    }),
    routers: pairs.flatMap(({ who, service }) =>
      index.routersFor(who, service).map((router) => ({ identity: who.id, service, router })),
    ),
    posture: [...ids.check.values()].sort().flatMap((check) =>
      index
        .policiesWithPostureCheck(check)
        .sort()
        .map((policy) => ({ check, policy })),
    ),
    sizes: policyIds.map((policy) => ({ policy, services: index.servicesOfPolicy(policy).length })),
    people: people.map((who) => {
      const granted = index.grantedTo(who);
      const services = { Dial: granted.count("Dial"), Bind: granted.count("Bind"), either: granted.count() };
      const ofThem = index.policiesOf(who).map(({ id }) => id);
      return { identity: who.id, policies: ofThem.sort(), routers: index.routersOfIdentity(who), services };
    }),
    hosted: serviceIds.map((service) => {
      const ofThem = index.policiesOfService(service).map(({ id }) => id);
      return { service, policies: ofThem.sort() };
    }),
  };
}

/** Selectors of service policies that were written in a round, before and after. */
async function identitySelectors(policyIds: readonly string[]): Promise<RoleSelector[]> {
  const records = await new Policies(ctx, SERVICE_POLICY).byIds(test.store.db, policyIds);
  return records.flatMap((record) => record.selectors.identity ?? []);
}

it("index, stamps and router model follow what several writers do at once", async () => {
  const began = new Date(0);
  const received = new ReceivedModel((await dataModel.state()).body);
  const stampOf = async ({ identity, attrs }: Seen) => Number(await mirror.lastChange({ id: identity, attrs }, began));
  const stampsOf = async (people: readonly Seen[]) =>
    new Map(await Promise.all(people.map(async (who) => [who.identity, await stampOf(who)] as const)));
  await settled(test.store);
  let before = await bySql();
  let stamps = await stampsOf(before);

  const round = async (changes: readonly Change[]) => {
    const isOwn = (kind: Change["kind"]) => changes.flatMap((c) => (c.kind === kind ? [c.slot] : []));
    const idsOf = (kind: keyof typeof ids, ...kinds: Change["kind"][]) =>
      kinds.flatMap(isOwn).flatMap((n) => ids[kind].get(n) ?? []);
    const policyIds = () =>
      isOwn("policy")
        .concat(isOwn("no policy"))
        .flatMap((n) => policies.policy.get(n) ?? []);
    // What the round may touch: more than what is seen to change, and no more than the page on policy says.
    const touched = {
      identities: new Set(idsOf("identity", "identity", "identity tags", "identity again")),
      services: new Set(idsOf("service", "service", "service again", "service config")),
      hasConfigOrCheck: changes.some(
        ({ kind }) => kind === "config" || kind === "check" || kind === "service again" || kind === "identity again",
      ),
      selectors: await identitySelectors(policyIds()),
    };
    // Writers of the same entity or policy come one after the other; all others at once.
    const bySlot = Map.groupBy(changes, ({ kind, slot }) => `${kind.split(" ")[0] === "no" ? "policy" : kind}${slot}`);
    const isUnexpected = (error: unknown) => !/ApiError|no (identities|services|posture)/.test(String(error));
    const outcomes = await Promise.allSettled(
      [...bySlot.values()].map(async (mine) => {
        for (const each of mine) await make(each);
      }),
    );
    for (const outcome of outcomes)
      if (outcome.status === "rejected" && isUnexpected(outcome.reason)) throw outcome.reason;
    touched.selectors.push(...(await identitySelectors(policyIds())));
    // Also what was written and changed again within the round.
    for (const each of changes) {
      if (each.kind !== "policy") continue;
      const { all, attrs, slots } = each.identities;
      touched.selectors.push({ all, attrs, ids: slots.flatMap((n) => ids.identity.get(n) ?? []) });
    }
    for (const id of idsOf("service", "service", "service again", "service config")) touched.services.add(id);

    await settled(test.store);
    expect(await pairsByIndex()).toEqual(await pairsBySql());

    const after = await bySql();
    const now = await stampsOf(after);
    for (const who of after) {
      const old = before.find(({ identity }) => identity === who.identity);
      if (old === undefined) continue;
      const hasMoved = now.get(who.identity) !== stamps.get(who.identity);
      const isDifferent = JSON.stringify(old.services) !== JSON.stringify(who.services);
      if (isDifferent) expect({ changes, who, old, hasMoved }).toMatchObject({ hasMoved: true });
      if (!hasMoved || isDifferent) continue;
      const isTouched =
        touched.identities.has(who.identity) ||
        touched.hasConfigOrCheck ||
        [...old.services, ...who.services].some(({ id }) => touched.services.has(id)) ||
        touched.selectors.some(
          (selector) =>
            matches(selector, "AnyOf", { id: who.identity, attrs: [...old.attrs, ...who.attrs] }) || selector.all,
        );
      expect({ changes, who, old, isTouched }).toMatchObject({ isTouched: true });
    }
    before = after;
    stamps = now;

    for (const set of dataModel.changesAfter(received.index) ?? []) received.change(set.body);
    const state = await dataModel.state();
    for (const set of dataModel.changesAfter(received.index) ?? []) received.change(set.body);
    if (state.index === received.index) {
      expect(received.content()).toEqual(new ReceivedModel(state.body).content());
    }
  };

  await fc.assert(
    fc.asyncProperty(fc.array(change, { minLength: 1, maxLength: 6 }), round),
    // Each round goes on from the one before, so a counterexample cannot be made smaller by trying again.
    { numRuns: 150, endOnFailure: true },
  );

  // The image that was changed step by step is the one that is loaded at once.
  await dataModel.close();
  dataModel.acquire();
  await dataModel.ready();
  expect(new ReceivedModel((await dataModel.state()).body).content()).toEqual(received.content());
}, 240_000);
