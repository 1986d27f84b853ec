import { describe, expect, test } from "vitest";
import { edgeRouterPolicy } from "../kinds/edge-router-policy/entity.ts";
import { type EdgeRouterPolicyResource, edgeRouterPolicyDefinition } from "../kinds/edge-router-policy/schema.ts";
import { type FoundOverlayService, overlayService } from "../kinds/overlay-service/entity.ts";
import { type OverlayServiceResource, overlayServiceDefinition } from "../kinds/overlay-service/schema.ts";
import { serviceEdgeRouterPolicy } from "../kinds/service-edge-router-policy/entity.ts";
import { serviceEdgeRouterPolicyDefinition } from "../kinds/service-edge-router-policy/schema.ts";
import { servicePolicy } from "../kinds/service-policy/entity.ts";
import { servicePolicyDefinition } from "../kinds/service-policy/schema.ts";
import { sample } from "../kinds/testing/samples.ts";
import { admit } from "../testing/admit.ts";
import { COMMAND_LINE, mergedTags, type Tags, tagsOf } from "./ownership.ts";
import {
  bareHex,
  type EntityKind,
  type EntityResource,
  type EntitySpec,
  type FoundBy,
  type FoundEntity,
  lowerCase,
  planEntity,
  type Surroundings,
  sameJson,
  sameSet,
} from "./plan.ts";
import { carriedOut } from "./testing/contrary-server.ts";
import { OWNER, surroundings } from "./testing/surroundings.ts";

const KINDS = {
  OverlayService: [overlayServiceDefinition, overlayService],
  ServicePolicy: [servicePolicyDefinition, servicePolicy],
  EdgeRouterPolicy: [edgeRouterPolicyDefinition, edgeRouterPolicy],
  ServiceEdgeRouterPolicy: [serviceEdgeRouterPolicyDefinition, serviceEdgeRouterPolicy],
} as const;

function planOf(name: string, spec: Spec, around: Surroundings, observed?: { entity: FoundEntity; by: FoundBy }) {
  const [definition, kind] = KINDS[name as keyof typeof KINDS];
  const resource = admit(definition, sample(definition.kind, spec)).object as unknown as EntityResource;
  return planEntity(kind as unknown as EntityKind<EntitySpec, object, FoundEntity>, resource, around, observed);
}

type Spec = Readonly<Record<string, unknown>>;

function service(spec: Spec = {}): OverlayServiceResource {
  return admit(overlayServiceDefinition, sample("OverlayService", spec)).object as unknown as OverlayServiceResource;
}

const FOREIGN = tagsOf({ ...OWNER, uid: "u-9", name: "other" });
const found = (tags: Tags | null, more: Partial<FoundOverlayService> = {}): FoundOverlayService => ({
  id: "s1",
  name: "sample",
  tags,
  ...more,
});

describe("a service that is not in the network", () => {
  test("is created with everything, tagged", () => {
    const plan = planEntity(
      overlayService,
      service({ roleAttributes: ["web", "a"], tags: { t: "1" } }),
      surroundings(),
      undefined,
    );
    expect(plan).toEqual({
      action: "create",
      body: {
        name: "sample",
        encryptionRequired: true,
        roleAttributes: ["a", "web"],
        configs: [],
        terminatorStrategy: "smartrouting",
        maxIdleTimeMillis: 0,
        tags: { ...tagsOf(OWNER), t: "1", "sallyport-user-tags": '["t"]' },
      },
    });
  });

  test("has the name that the spec gives it", () => {
    expect(planEntity(overlayService, service({ name: "web" }), surroundings(), undefined)).toMatchObject({
      body: { name: "web" },
    });
  });

  test("waits for its configs", () => {
    const plan = planEntity(overlayService, service({ configRefs: [{ name: "host" }] }), surroundings(), undefined);
    expect(plan).toMatchObject({
      action: "wait",
      reason: "ReferenceNotFound",
      message: "ServiceConfig host does not exist",
    });
  });

  test.each([
    [{ managementPolicy: "Observe" }, "the network has no service called sample"],
    [{ importId: "s9" }, "the network has no service with the id s9"],
  ])("is never created by %j", (spec, message) => {
    const plan = planEntity(overlayService, service(spec), surroundings(), undefined);
    expect(plan).toMatchObject({ action: "wait", reason: "NotInNetwork", message });
  });
});

/** As `sallyport apply` leaves an entity. */
const OF_FILE: Tags = tagsOf({
  ...{ ...OWNER, cluster: COMMAND_LINE, uid: "command-line/Sample/default/sample" },
  marks: { "sallyport-labels": "{}" },
});

describe("an entity that was found", () => {
  const cases: [string, Tags | null, FoundBy, Spec, string][] = [
    ["ours, by tag", tagsOf(OWNER), "tag", {}, "patch"],
    ["ours, by name", tagsOf(OWNER), "name", {}, "patch"],
    ["ours by the status, its tags taken away", null, "id", {}, "patch"],
    ["left behind by a resource that is gone", tagsOf({ ...OWNER, uid: "u-0" }), "name", {}, "adopt"],
    ["nobody's, by name", null, "name", {}, "NameConflict"],
    ["nobody's, by name, to be adopted", null, "name", { managementPolicy: "Adopt" }, "adopt"],
    ["nobody's, to be imported", null, "import", { importId: "s1" }, "adopt"],
    ["another's, by name", FOREIGN, "name", {}, "NameConflict"],
    ["another's, by name, to be adopted", FOREIGN, "name", { managementPolicy: "Adopt" }, "NameConflict"],
    ["another's, to be imported", FOREIGN, "import", { importId: "s1" }, "OwnedByAnother"],
    ["another's by now, by the status", FOREIGN, "id", {}, "OwnedByAnother"],
    ["of a file, by name", OF_FILE, "name", {}, "NameConflict"],
    ["of a file, by name, to be adopted", OF_FILE, "name", { managementPolicy: "Adopt" }, "adopt"],
    ["of a file, to be imported", OF_FILE, "import", { importId: "s1" }, "adopt"],
    ["nobody's, only observed", null, "name", { managementPolicy: "Observe" }, "none"],
    ["another's, only observed", FOREIGN, "name", { managementPolicy: "Observe" }, "none"],
  ];
  test.each(cases)("%s", (_what, tags, by, spec, expected) => {
    const changed = { ...spec, maxIdleTimeMillis: 7 };
    const plan = planEntity(overlayService, service(changed), surroundings(), { entity: found(tags), by });
    expect(plan.action === "conflict" ? plan.reason : plan.action).toBe(expected);
    if (plan.action === "adopt" || plan.action === "patch") {
      expect(plan.body.maxIdleTimeMillis).toBe(7);
      expect({ ...tags, ...plan.body.tags }).toMatchObject(tagsOf(OWNER));
      expect(plan.body).not.toHaveProperty("roleAttributes");
      expect(plan.body).not.toHaveProperty("name");
    }
    if (plan.action === "none") expect(plan.differences).toEqual(["maxIdleTimeMillis"]);
  });

  test("says in a conflict what to do", () => {
    const conflict = planEntity(overlayService, service(), surroundings(), { entity: found(null), by: "name" });
    expect(conflict).toMatchObject({ message: expect.stringContaining("spec.managementPolicy to Adopt") });
    const owned = planEntity(overlayService, service(), surroundings(), { entity: found(FOREIGN), by: "name" });
    expect(owned).toMatchObject({ message: expect.stringContaining("belongs to Sample default/other of cluster c-1") });
    const ofFile = planEntity(overlayService, service(), surroundings(), { entity: found(OF_FILE), by: "name" });
    expect(ofFile).toMatchObject({
      message: expect.stringMatching(
        /is of the file of Sample default\/sample: set .* spec\.managementPolicy to Adopt/,
      ),
    });
  });

  test("gets back a name that a user changed", () => {
    const entity = found(tagsOf(OWNER), { name: "renamed" });
    const plan = planEntity(overlayService, service(), surroundings(), { entity, by: "id" });
    expect(plan).toMatchObject({ action: "patch", body: { name: "sample" } });
  });

  test("is left alone when nothing but the words differ", () => {
    const entity = found(
      { ...tagsOf(OWNER), other: "x" },
      { terminatorStrategy: "", roleAttributes: null, configs: null },
    );
    const plan = planEntity(overlayService, service(), surroundings(), { entity, by: "id" });
    expect(plan).toEqual({ action: "none", id: "s1", missing: [], differences: [] });
  });

  test("keeps its configs while one of the new ones is missing, and gets everything else", () => {
    const spec = { configRefs: [{ name: "host" }, { name: "intercept" }], roleAttributes: ["new"] };
    const entity = found(tagsOf(OWNER), { configs: ["c1"] });
    const known = surroundings({ "ServiceConfig/host": "c2", "ServiceConfig/intercept": { problem: "NotReady" } });
    const plan = planEntity(overlayService, service(spec), known, { entity, by: "id" });
    expect(plan).toMatchObject({
      action: "patch",
      body: { roleAttributes: ["new"] },
      missing: [{ name: "intercept" }],
    });
    expect(plan).not.toHaveProperty("body.configs");
    const after = carriedOut<FoundOverlayService>(plan, entity);
    expect(planEntity(overlayService, service(spec), known, { entity: after, by: "id" })).toMatchObject({
      action: "none",
      missing: [{ name: "intercept" }],
    });
  });

  test("is not taken over when it is the controller's own", () => {
    const manifest = sample("EdgeRouterPolicy", { importId: "p1", edgeRouterRoles: ["#all"] });
    const resource = admit(edgeRouterPolicyDefinition, manifest).object as unknown as EdgeRouterPolicyResource;
    const entity = { id: "p1", name: "edge-router-p1-system", semantic: "AnyOf", isSystem: true, tags: {} };
    const plan = planEntity(edgeRouterPolicy, resource, surroundings(), { entity, by: "import" });
    expect(plan).toMatchObject({ action: "conflict", reason: "AdoptionRefused" });
  });

  test("keeps the tags of others when it is adopted", () => {
    const entity: FoundEntity = found({ team: "a" });
    const plan = planEntity(overlayService, service({ importId: "s1" }), surroundings(), {
      entity: entity as FoundOverlayService,
      by: "import",
    });
    expect(plan).toMatchObject({ action: "adopt", body: { tags: mergedTags({ team: "a" }, OWNER) } });
  });
});

describe("in a tenant's namespace whose Network keeps nothing apart", () => {
  const tenants = (): Surroundings => {
    const around = surroundings();
    return { ...around, scope: { ...around.scope, isTenant: true } };
  };
  test.each<[string, Spec, string]>([
    ["an attribute of its own", { roleAttributes: ["web"] }, "OutsideNamespace"],
    ["no attribute", { roleAttributes: [] }, "create"],
    ["what is another's, to be imported", { importId: "s1" }, "OutsideNamespace"],
  ])("%s", (_what, spec, expected) => {
    const observed =
      spec.importId === undefined
        ? undefined
        : ({ entity: found(tagsOf({ ...OWNER, uid: "u-9", namespace: "other" })), by: "import" } as const);
    const plan = planEntity(overlayService, service(spec), tenants(), observed);
    expect(plan.action === "conflict" ? plan.reason : plan.action).toBe(expected);
  });
});

describe("where namespaces are kept apart", () => {
  const apart = (references = {}) => surroundings(references, "Namespaced");
  const marked = (namespace: string) => ({ "sallyport-namespace": namespace });
  const elsewhere = tagsOf({ ...OWNER, uid: "u-9", namespace: "other" });
  // biome-ignore format: a table
  test.each<[string, Tags | null, FoundBy, Spec, string]>([
    ["nobody's, to be imported", null, "import", { importId: "s1" }, "OutsideNamespace"],
    ["nobody's, to be adopted", null, "name", { managementPolicy: "Adopt" }, "OutsideNamespace"],
    ["nobody's, only observed", null, "name", { managementPolicy: "Observe" }, "OutsideNamespace"],
    ["another namespace's, only observed", elsewhere, "name", { managementPolicy: "Observe" }, "OutsideNamespace"],
    ["another namespace's, to be imported", elsewhere, "import", { importId: "s1" }, "OutsideNamespace"],
    ["another cluster's, only observed", { ...FOREIGN, "sallyport-cluster": "c-2" }, "name", { managementPolicy: "Observe" }, "OutsideNamespace"],
    ["nobody's, marked for another namespace", marked("other"), "import", { importId: "s1" }, "OutsideNamespace"],
    ["nobody's, marked for the namespace", marked("default"), "import", { importId: "s1" }, "adopt"],
    ["nobody's, marked, only observed", marked("default"), "name", { managementPolicy: "Observe" }, "none"],
    ["of the same namespace, only observed", FOREIGN, "name", { managementPolicy: "Observe" }, "none"],
    ["imported before", tagsOf(OWNER), "id", { importId: "s1" }, "patch"],
    ["imported before, its tags taken away", null, "id", { importId: "s1" }, "patch"],
    ["left behind", tagsOf({ ...OWNER, uid: "u-0" }), "name", { managementPolicy: "Adopt" }, "adopt"],
  ])("%s", (_what, tags, by, spec, expected) => {
    const resource = service({ ...spec, maxIdleTimeMillis: 7 });
    const plan = planEntity(overlayService, resource, apart(), { entity: found(tags), by });
    expect(plan.action === "conflict" ? plan.reason : plan.action).toBe(expected);
  });

  test.each<[string, Spec, string]>([
    ["ServicePolicy", { serviceIds: ["s9"] }, "serviceIds"],
    ["ServicePolicy", { identityIds: ["i9"] }, "identityIds"],
    ["EdgeRouterPolicy", { edgeRouterIds: ["r9"] }, "edgeRouterIds"],
    ["EdgeRouterPolicy", { identityIds: ["i9"] }, "identityIds"],
    ["ServiceEdgeRouterPolicy", { serviceIds: ["s9"] }, "serviceIds"],
    ["ServiceEdgeRouterPolicy", { edgeRouterIds: ["r9"] }, "edgeRouterIds"],
    ["OverlayService", { configIds: ["c9"] }, "configIds"],
  ])("a %s with %j is refused, whether it is there already or not", (name, spec, field) => {
    const plan = (scope: "Global" | "Namespaced", observed?: { entity: FoundEntity; by: FoundBy }) =>
      planOf(name, spec, surroundings({}, scope), observed);
    const refused = {
      action: "conflict",
      reason: "OutsideNamespace",
      message: expect.stringContaining(`spec.${field}`),
    };
    expect(plan("Namespaced")).toMatchObject(refused);
    expect(plan("Namespaced", { entity: found(tagsOf(OWNER)), by: "id" })).toMatchObject(refused);
    expect(plan("Global")).toMatchObject({ action: "create" });
  });

  test("checks, which only restrict, may be named by their ids", () => {
    expect(planOf("ServicePolicy", { postureCheckIds: ["p9"] }, apart())).toMatchObject({ action: "create" });
  });
});

import fc from "fast-check";

test("sets are the same in any order, and none is as good as an absent one", () => {
  expect(sameSet(["a", "b"], ["b", "a", "a"])).toBe(true);
  expect(sameSet([], null)).toBe(true);
  expect(sameSet(undefined, [])).toBe(true);
  expect(sameSet(["a"], ["a", "b"])).toBe(false);
  expect(sameSet(["a"], undefined)).toBe(false);
  expect(sameSet(["A:b"], ["ab"], bareHex)).toBe(true);
  expect(sameSet(["Corp"], ["CORP"], lowerCase)).toBe(true);
  expect(sameSet(["Corp"], ["CORP"])).toBe(false);
});

test.each([
  [{ a: 1, b: [1, 2] }, { b: [1, 2], a: 1 }, true],
  [{ a: 1, b: undefined }, { a: 1 }, true],
  [{ a: null }, {}, false],
  [[1, 2], [2, 1], false],
  [[], {}, false],
  [{ a: "1" }, { a: 1 }, false],
  [{ a: 1 }, null, false],
  [0, -0, true],
])("%j is %j: %s", (wanted, found, expected) => {
  expect(sameJson(wanted, found)).toBe(expected);
});

test("any JSON is recognized as it comes back, its keys in another order", () => {
  fc.assert(
    fc.property(fc.jsonValue(), (given) => {
      const reordered = (value: unknown): unknown => {
        if (Array.isArray(value)) return value.map(reordered);
        if (typeof value !== "object" || value === null) return value;
        return Object.fromEntries(
          Object.entries(value)
            .toReversed()
            .map(([key, each]) => [key, reordered(each)]),
        );
      };
      expect(sameJson(given, reordered(JSON.parse(JSON.stringify(given))))).toBe(true);
      expect(sameJson({ given, more: 1 }, { given })).toBe(false);
    }),
  );
});
