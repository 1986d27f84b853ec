/** The entity of an Identity, and the small plans beside it. */
import { describe, expect, test } from "vitest";
import { tagsOf } from "../../entity/ownership.ts";
import { planEntity } from "../../entity/plan.ts";
import type { Resolution } from "../../entity/references.ts";
import { OWNER, surroundings } from "../../entity/testing/surroundings.ts";
import { admit } from "../../testing/admit.ts";
import { sample } from "../testing/samples.ts";
import {
  type FoundIdentity,
  hasDisablingMark,
  identityEntity,
  planDisabling,
  planServiceConfigs,
  withDisablingMark,
} from "./entity.ts";
import { type IdentityResource, identityDefinition } from "./schema.ts";

function identity(spec: Readonly<Record<string, unknown>> = {}): IdentityResource {
  const { object, problems } = admit(identityDefinition, sample("Identity", spec));
  expect(problems).toEqual([]);
  return object as unknown as IdentityResource;
}

const FOUND: FoundIdentity = {
  id: "i1",
  name: "sample",
  typeId: "Default",
  isAdmin: false,
  isDefaultAdmin: false,
  roleAttributes: null,
  authPolicyId: "default",
  externalId: null,
  defaultHostingCost: 0,
  defaultHostingPrecedence: "default",
  serviceHostingCosts: null,
  serviceHostingPrecedences: null,
  appData: null,
  disabled: false,
  hasEdgeRouterConnection: false,
  authenticators: {},
  enrollment: {},
  tags: tagsOf(OWNER),
};

function planOf(
  spec: Readonly<Record<string, unknown>>,
  found: Partial<FoundIdentity> | undefined,
  by: "id" | "name" = "id",
  references: Readonly<Record<string, string | Resolution>> = {},
) {
  const observed = found === undefined ? undefined : { entity: { ...FOUND, ...found }, by };
  return planEntity(identityEntity, identity(spec), surroundings(references), observed);
}

describe("the entity of an Identity", () => {
  test("is made with everything of the spec, and then is as wanted", () => {
    const spec = {
      type: "Device",
      roleAttributes: ["b", "a"],
      authPolicyRef: { name: "strict" },
      externalId: "me@example",
      defaultHostingCost: 7,
      defaultHostingPrecedence: "failed",
      serviceHosting: [
        { serviceRef: { name: "web" }, cost: 3, precedence: "required" },
        { serviceRef: { name: "ssh" } },
      ],
      appData: { level: 2, on: true },
    };
    const references = { "AuthPolicy/strict": "p1", "OverlayService/web": "s1", "OverlayService/ssh": "s2" };
    const plan = planOf(spec, undefined, "id", references);
    const fields = {
      type: "Device",
      isAdmin: false,
      roleAttributes: ["a", "b"],
      authPolicyId: "p1",
      externalId: "me@example",
      defaultHostingCost: 7,
      defaultHostingPrecedence: "failed",
      serviceHostingCosts: { s1: 3 },
      serviceHostingPrecedences: { s1: "required" },
      appData: { level: 2, on: true },
    };
    expect(plan).toMatchObject({ action: "create", body: fields });
    const found = { ...fields, roleAttributes: ["b", "a"] } as unknown as Partial<FoundIdentity>;
    // Servers keep Default for every type.
    expect(planOf(spec, found, "id", references)).toMatchObject({ action: "none" });
  });

  test("that has nothing is the same with null, none and defaults", () => {
    expect(planOf({}, {})).toEqual({ action: "none", id: "i1", missing: [], differences: [] });
  });

  test("keeps its auth policy while the one of the spec is missing, and is not made without it", () => {
    const spec = { authPolicyRef: { name: "strict" }, roleAttributes: ["x"] };
    expect(planOf(spec, undefined)).toMatchObject({ action: "wait", reason: "ReferenceNotFound" });
    const plan = planOf(spec, { authPolicyId: "p0" });
    expect(plan).toMatchObject({ action: "patch", body: { roleAttributes: ["x"] } });
    expect(plan).toMatchObject({ whole: { authPolicyId: "p0" } });
  });

  // biome-ignore format: a table
  test.each([
    ["a router's", { typeId: "Router" }, {}, "AdoptionRefused"],
    ["the first administrator", { isDefaultAdmin: true, isAdmin: true }, { isAdmin: true }, "AdoptionRefused"],
    ["an administrator who would be none any more", { isAdmin: true }, {}, "AdoptionRefused"],
  ])("is never adopted from %s", (_whose, found, spec, reason) => {
    const plan = planOf({ ...spec, managementPolicy: "Adopt" }, { ...found, tags: {} }, "name");
    expect(plan).toMatchObject({ action: "conflict", reason });
  });

  test("takes back the right of an administrator that another client gave", () => {
    expect(planOf({}, { isAdmin: true })).toMatchObject({ action: "patch", body: { isAdmin: false } });
  });
});

describe("a lock", () => {
  const until = "2026-12-01T00:00:00Z";
  // biome-ignore format: a table
  test.each([
    ["wanted and there", true, { disabled: true }, false, "none"],
    ["wanted and absent", true, { disabled: false }, false, "disable"],
    ["wanted and to end", true, { disabled: true, disabledUntil: until }, false, "disable"],
    ["unwanted and ours", false, { disabled: true }, true, "enable"],
    ["unwanted and another client's", false, { disabled: true }, false, "leave"],
    ["unwanted, after wrong passwords", false, { disabled: true, disabledUntil: until }, true, "leave"],
    ["unwanted and absent", false, { disabled: false }, true, "none"],
  ])("%s", (_name, wanted, found, isOurs, action) => {
    expect(planDisabling(wanted, found, isOurs).action).toBe(action);
  });

  test("of the resource marks the identity", () => {
    const { tags } = withDisablingMark(identity({ disabled: true, tags: { a: "b" } })).spec;
    expect(tags).toMatchObject({ a: "b" });
    expect(hasDisablingMark({ tags })).toBe(true);
    expect(withDisablingMark(identity({ tags: { a: "b" } })).spec.tags).toEqual({ a: "b" });
  });
});

test("configs of services are given and taken by pairs, and none is taken while one is missing", () => {
  const { spec } = identity({
    serviceConfigs: [
      { serviceRef: { name: "web" }, configRef: { name: "c1" } },
      { serviceRef: { name: "ssh" }, configRef: { name: "c2" } },
    ],
  });
  const references = (known: Readonly<Record<string, string>>) => surroundings(known).references;
  const all = references({
    "OverlayService/web": "s1",
    "OverlayService/ssh": "s2",
    "ServiceConfig/c1": "k1",
    "ServiceConfig/c2": "k2",
  });
  const found = [
    { serviceId: "s1", configId: "k1" },
    { serviceId: "s9", configId: "k9" },
  ];
  expect(planServiceConfigs(spec, all, found)).toEqual({
    assign: [{ serviceId: "s2", configId: "k2" }],
    remove: [{ serviceId: "s9", configId: "k9" }],
    missing: [],
  });
  const some = references({ "OverlayService/web": "s1", "ServiceConfig/c1": "k1", "ServiceConfig/c2": "k2" });
  expect(planServiceConfigs(spec, some, found)).toMatchObject({
    assign: [],
    remove: [],
    missing: [{ kind: "OverlayService", name: "ssh" }],
  });
});
