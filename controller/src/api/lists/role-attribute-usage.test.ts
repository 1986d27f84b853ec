import { sql } from "kysely";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startTestController, type TestController } from "../testing/test-controller.ts";
import { MAX_USAGE_IDS } from "./role-attribute-usage.ts";

let c: TestController;
let ids: Record<"alice" | "web" | "edge" | "check" | "dial" | "routers" | "services", string>;
beforeAll(async () => {
  c = await startTestController();
  const attributes = (...roleAttributes: string[]) => ({ roleAttributes });
  ids = {
    alice: await c.make("identities", { name: "alice", type: "Default", isAdmin: false, ...attributes("a", "only") }),
    web: await c.make("services", { name: "web", encryptionRequired: false, ...attributes("a") }),
    edge: await c.make("edge-routers", { name: "edge", ...attributes("a") }),
    check: await c.make("posture-checks", { name: "check", typeId: "DOMAIN", domains: ["x"], ...attributes("a") }),
    dial: await c.make("service-policies", {
      ...{ name: "dial", type: "Dial", semantic: "AnyOf" },
      ...{ identityRoles: ["#a", "#selected"], serviceRoles: ["#a"], postureCheckRoles: ["#a"] },
    }),
    routers: await c.make("edge-router-policies", {
      ...{ name: "routers", semantic: "AnyOf", identityRoles: ["#a"], edgeRouterRoles: ["#a"] },
    }),
    services: await c.make("service-edge-router-policies", {
      ...{ name: "services", semantic: "AnyOf", serviceRoles: ["#a"], edgeRouterRoles: ["#a"] },
    }),
  };
  await c.make("service-policies", {
    ...{ name: "all", type: "Bind", semantic: "AnyOf", identityRoles: ["#all"], serviceRoles: [`@${ids.web}`] },
  });
});
afterAll(() => c.close());

async function usage(kind: string, query = "") {
  const { status, json } = await c.admin("GET", `/${kind}-role-attribute-usage${query}`);
  expect(status, JSON.stringify(json)).toBe(200);
  return json;
}

describe("what uses a role attribute", () => {
  test.each([
    { kind: "identity", sources: { identities: "alice", servicePolicies: "dial", edgeRouterPolicies: "routers" } },
    {
      kind: "edge-router",
      sources: { edgeRouters: "edge", edgeRouterPolicies: "routers", serviceEdgeRouterPolicies: "services" },
    },
    { kind: "service", sources: { services: "web", servicePolicies: "dial", serviceEdgeRouterPolicies: "services" } },
    { kind: "posture-check", sources: { postureChecks: "check", servicePolicies: "dial" } },
  ] as const)("is counted by source, with the ids on request: $kind", async ({ kind, sources }) => {
    const names = Object.entries(sources) as [string, keyof typeof ids][];
    const counted = await usage(kind);
    const { roleAttribute, usage: found } = counted.data[0];
    expect(roleAttribute).toBe("a");
    expect(found).toEqual(Object.fromEntries(names.map(([source]) => [source, { count: 1 }])));
    const named = await usage(kind, "?withIds=true");
    expect(named.data[0].usage).toEqual(
      Object.fromEntries(names.map(([source, name]) => [source, { count: 1, ids: [ids[name]] }])),
    );
  });

  test("has a source that nothing is in, and attributes that only a policy or an entity names", async () => {
    const none = { count: 0, ids: [] };
    const { data } = await usage("identity", "?withIds=true");
    expect(data.slice(1)).toEqual([
      {
        roleAttribute: "only",
        usage: { identities: { count: 1, ids: [ids.alice] }, servicePolicies: none, edgeRouterPolicies: none },
      },
      {
        roleAttribute: "selected",
        usage: { identities: none, servicePolicies: { count: 1, ids: [ids.dial] }, edgeRouterPolicies: none },
      },
    ]);
  });

  test("is filtered, sorted and paged by the attribute", async () => {
    const names = ({ data }: { data: { roleAttribute: string }[] }) => data.map((each) => each.roleAttribute);
    const sorted = await usage("identity", "?sort=id%20desc&limit=2");
    expect(names(sorted)).toEqual(["selected", "only"]);
    expect(sorted.meta).toEqual({
      filterableFields: ["id"],
      pagination: { limit: 2, offset: 0, totalCount: 3 },
    });
    expect(names(await usage("identity", `?filter=${encodeURIComponent('id contains "el"')}`))).toEqual(["selected"]);
    expect(names(await usage("identity", "?offset=5"))).toEqual([]);
  });

  test("names 1,000 ids of one source and counts all", async () => {
    await sql`INSERT INTO identity (id, name, type_id, attrs)
      SELECT 'many-' || n, 'many-' || n, 'Default', '{many}' FROM generate_series(1, ${MAX_USAGE_IDS + 5}) n`.execute(
      c.ctx.store.db,
    );
    const filter = encodeURIComponent('id = "many"');
    const { data } = await usage("identity", `?withIds=true&filter=${filter}`);
    expect(data[0].usage.identities.count).toBe(MAX_USAGE_IDS + 5);
    expect(data[0].usage.identities.ids).toHaveLength(MAX_USAGE_IDS);
  });

  test("asks for a truth value", async () => {
    const { status, json } = await c.admin("GET", "/identity-role-attribute-usage?withIds=perhaps");
    expect([status, json.error.cause.field]).toEqual([400, "withIds"]);
  });
});
