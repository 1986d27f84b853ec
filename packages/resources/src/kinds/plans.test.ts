/** Every simple kind: what its specs come to, and that a plan which was carried out leaves nothing to do. */

import type { ManagementClient } from "@sallyport/api/client";
import fc from "fast-check";
import { describe, expect, test, vi } from "vitest";
import type { Collection, EntityReader } from "../entity/collection.ts";
import { tagsOf } from "../entity/ownership.ts";
import { type EntityKind, type EntityResource, type EntitySpec, type FoundEntity, planEntity } from "../entity/plan.ts";
import { EntitySync } from "../entity/sync.ts";
import { carriedOut } from "../entity/testing/contrary-server.ts";
import { OWNER, surroundings } from "../entity/testing/surroundings.ts";
import { admit } from "../testing/admit.ts";
import { authPolicies, authPolicy } from "./auth-policy/entity.ts";
import { DEFINITIONS } from "./definitions.ts";
import { edgeRouterPolicy } from "./edge-router-policy/entity.ts";
import { overlayService } from "./overlay-service/entity.ts";
import { postureCheck } from "./posture-check/entity.ts";
import { configs, serviceConfig } from "./service-config/entity.ts";
import { serviceEdgeRouterPolicy } from "./service-edge-router-policy/entity.ts";
import { servicePolicy } from "./service-policy/entity.ts";
import { sample } from "./testing/samples.ts";

type Json = Readonly<Record<string, unknown>>;
/** Any of the kinds; their types differ, what is tested here does not. */
type AnyKind = EntityKind<EntitySpec, object, FoundEntity, { configTypeId: string; data: Json }>;

const PLANS: Readonly<Record<string, AnyKind>> = {
  OverlayService: overlayService as unknown as AnyKind,
  ServiceConfig: serviceConfig as unknown as AnyKind,
  ServicePolicy: servicePolicy as unknown as AnyKind,
  EdgeRouterPolicy: edgeRouterPolicy as unknown as AnyKind,
  ServiceEdgeRouterPolicy: serviceEdgeRouterPolicy as unknown as AnyKind,
  AuthPolicy: authPolicy as unknown as AnyKind,
  PostureCheck: postureCheck as unknown as AnyKind,
};

const KNOWN = {
  "Identity/bot": "i1",
  "Identity/user": "i2",
  "OverlayService/web": "s1",
  "PostureCheck/mac": "c1",
  "ServiceConfig/host": "h1",
  "EdgeRouter/eu": { ids: ["r0", "r1"] },
} as const;

function resource(kind: string, spec: Json): EntityResource {
  const definition = DEFINITIONS.find((each) => each.kind === kind);
  if (definition === undefined) throw new Error(`there is no kind ${kind}`);
  const { object, problems } = admit(definition, sample(kind, spec));
  expect(problems).toEqual([]);
  return object as unknown as EntityResource;
}

const around = (spec: EntitySpec, roleScope: "Global" | "Namespaced") => ({
  ...surroundings(KNOWN, roleScope),
  configTypeId: "t1",
  data: (spec as unknown as { data?: Json }).data ?? {},
});

function planFor(kind: string, spec: Json, found?: FoundEntity, roleScope: "Global" | "Namespaced" = "Global") {
  const plan = PLANS[kind];
  if (plan === undefined) throw new Error(`no plan for ${kind}`);
  const given = resource(kind, spec);
  const observed = found === undefined ? undefined : { entity: found, by: "id" as const };
  return planEntity(plan, given, around(given.spec, roleScope), observed);
}

const HASH = "ab".repeat(64);
const FINGERPRINT = "AB:CD:EF:01:23:45:67:89:AB:CD:EF:01:23:45:67:89:AB:CD:EF:01";

// biome-ignore format: a table
/** Kind, spec, what of the created body is shown, the next spec, the fields that then change. */
const TABLE: readonly [string, Json, Json, Json, readonly string[]][] = [
  ["OverlayService", { configRefs: [{ name: "host" }], configIds: ["a"] }, { configs: ["a", "h1"] }, { configIds: ["a"] }, ["configs"]],
  ["OverlayService", { terminatorStrategy: "sticky" }, { terminatorStrategy: "sticky" }, {}, ["terminatorStrategy"]],
  ["OverlayService", { encryptionRequired: false }, { encryptionRequired: false }, { encryptionRequired: false, maxIdleTimeMillis: 5 }, ["maxIdleTimeMillis"]],
  ["OverlayService", { tags: { a: "1" } }, {}, { tags: { a: "2" } }, ["tags"]],
  ["ServiceConfig", { data: { port: 80, list: [1, { b: 2, a: null }] } }, { configTypeId: "t1" }, { data: { port: 81 } }, ["data"]],
  [
    "ServicePolicy",
    { identityRoles: ["#staff"], identityRefs: [{ name: "bot" }], edgeRouterRefs: [{ name: "eu" }], identityIds: ["x"], serviceRefs: [{ name: "web" }], postureCheckRefs: [{ name: "mac" }] },
    { type: "Dial", semantic: "AnyOf", identityRoles: ["#staff", "@i1", "@r0", "@r1", "@x"], serviceRoles: ["@s1"], postureCheckRoles: ["@c1"] },
    { identityRefs: [{ name: "user" }], serviceRefs: [{ name: "web" }] },
    ["identityRoles", "postureCheckRoles"],
  ],
  ["ServicePolicy", { serviceRoles: ["#all"] }, { serviceRoles: ["#all"] }, { type: "Bind", semantic: "AllOf", serviceRoles: ["#all"] }, ["type", "semantic"]],
  ["EdgeRouterPolicy", { edgeRouterRefs: [{ name: "eu" }], identityRoles: ["#all"] }, { edgeRouterRoles: ["@r0", "@r1"], identityRoles: ["#all"] }, { identityRoles: ["#b"] }, ["edgeRouterRoles", "identityRoles"]],
  ["ServiceEdgeRouterPolicy", { edgeRouterRoles: ["#all"], serviceRefs: [{ name: "web" }] }, { edgeRouterRoles: ["#all"], serviceRoles: ["@s1"] }, { edgeRouterRoles: ["#all"], serviceRefs: [{ name: "web" }], semantic: "AllOf" }, ["semantic"]],
  ["AuthPolicy", {}, { primary: { cert: { allowed: true }, extJwt: { allowed: true }, updb: { allowed: true, minPasswordLength: 5, maxAttempts: 0 } }, secondary: { requireTotp: false } }, { secondary: { requireTotp: true } }, ["secondary"]],
  ["AuthPolicy", { primary: { cert: {} } }, { primary: { cert: { allowed: true }, extJwt: { allowed: false }, updb: { allowed: false } } }, { primary: { updb: { maxAttempts: 3 } } }, ["primary"]],
  ["AuthPolicy", { primary: { extJwt: { allowedSigners: ["b", "a"] } }, secondary: { requireExtJwtSigner: "j" } }, { primary: { extJwt: { allowedSigners: ["a", "b"] } }, secondary: { requireExtJwtSigner: "j" } }, { primary: { extJwt: { allowedSigners: ["a", "b"] } } }, ["secondary"]],
  ["PostureCheck", { mfa: null, domain: { domains: ["Corp.Example"] } }, { variant: { typeId: "DOMAIN", domains: ["Corp.Example"] } }, { mfa: null, domain: { domains: ["corp.example", "b"] } }, ["variant"]],
  ["PostureCheck", { mfa: null, operatingSystem: { operatingSystems: [{ type: "Linux" }, { type: "macOS", versions: [">=14.0.0"] }] } }, { variant: { typeId: "OS" } }, { mfa: null, operatingSystem: { operatingSystems: [{ type: "Linux" }] } }, ["variant"]],
  ["PostureCheck", { mfa: null, process: { osType: "Linux", path: "/bin/a", hashes: [HASH], signerFingerprint: FINGERPRINT } }, { variant: { typeId: "PROCESS" } }, { mfa: null, process: { osType: "Linux", path: "/bin/a" } }, ["variant"]],
  ["PostureCheck", { mfa: null, processMulti: { semantic: "AnyOf", processes: [{ osType: "Linux", path: "/bin/a" }, { osType: "Windows", path: "C:\\a", signerFingerprints: [FINGERPRINT] }] } }, { variant: { typeId: "PROCESS_MULTI" } }, { mfa: null, processMulti: { semantic: "AllOf", processes: [{ osType: "Linux", path: "/bin/a" }] } }, ["variant"]],
  ["PostureCheck", { mfa: null, mac: { macAddresses: ["00:1B:44:11:3A:B7"] }, roleAttributes: ["laptop"] }, { roleAttributes: ["laptop"], variant: { typeId: "MAC" } }, { mfa: null, mac: { macAddresses: ["00-1b-44-11-3a-b7"] } }, ["roleAttributes"]],
  ["PostureCheck", {}, { variant: { typeId: "MFA", timeoutSeconds: -1, promptOnWake: false } }, { mfa: { promptOnWake: true } }, ["variant"]],
];

describe.each(TABLE)("%s %j", (kind, spec, shown, next, changed) => {
  test("is created as the API wants it", () => {
    expect(planFor(kind, spec)).toMatchObject({ action: "create", body: { name: "sample", ...shown } });
  });

  test("leaves nothing to do once that was carried out", () => {
    const entity = carriedOut(planFor(kind, spec), undefined);
    expect(planFor(kind, spec, entity)).toEqual({ action: "none", id: "made", missing: [], differences: [] });
  });

  test(`changes only ${changed.join(", ")} for ${JSON.stringify(next)}, and then nothing`, () => {
    const entity = carriedOut(planFor(kind, spec), undefined);
    const plan = planFor(kind, next, entity);
    expect(plan.action).toBe("patch");
    expect(plan.action === "patch" && Object.keys(plan.body).sort()).toEqual([...changed].sort());
    expect(planFor(kind, next, carriedOut(plan, entity)).action).toBe("none");
  });

  test("sees what another client changed, field by field", () => {
    const entity = carriedOut<FoundEntity & Json>(planFor(kind, spec), undefined);
    const untouchable = new Set(["id", "configTypeId", "encryptionRequired", "typeId"]);
    for (const field of Object.keys(entity).filter((name) => !untouchable.has(name))) {
      const drifted = { ...entity, [field]: drift(entity[field]) };
      const plan = planFor(kind, spec, drifted);
      expect([field, plan.action]).toEqual([field, "patch"]);
      expect(planFor(kind, spec, carriedOut(plan, drifted)).action).toBe("none");
    }
  });
});

function drift(value: unknown): unknown {
  if (typeof value === "boolean") return !value;
  if (typeof value === "number") return value + 77;
  if (typeof value === "string") return `${value}9`;
  if (Array.isArray(value)) return value.length > 0 ? [] : ["drifted"];
  if (value === null || value === undefined) return ["drifted"];
  const [[key, first] = ["", undefined]] = Object.entries(value);
  return { ...value, [key]: drift(first) };
}

test("every kind with one entity in the network but Identity is among the plans", () => {
  const others = new Set(["Network", "EdgeRouter", "Identity"]);
  expect(
    DEFINITIONS.map(({ kind }) => kind)
      .filter((kind) => !others.has(kind))
      .sort(),
  ).toEqual(Object.keys(PLANS).sort());
});

describe("a policy", () => {
  test("of a namespaced network selects within its namespace; references and ids of checks stay", () => {
    const spec = {
      identityRoles: ["#all"],
      serviceRoles: ["#web"],
      serviceRefs: [{ name: "web" }],
      postureCheckIds: ["z"],
    };
    expect(planFor("ServicePolicy", spec, undefined, "Namespaced")).toMatchObject({
      body: { identityRoles: ["#default.all"], serviceRoles: ["#default.web", "@s1"], postureCheckRoles: ["@z"] },
    });
  });

  const spec = {
    identityRefs: [{ name: "bot" }],
    serviceRoles: ["#web"],
    postureCheckRefs: [{ name: "mac" }],
  };

  test("is not made while something that it names is missing", () => {
    const plan = planFor("ServicePolicy", { ...spec, identityRefs: [{ name: "bot" }, { name: "new" }] });
    expect(plan).toMatchObject({ action: "wait", missing: [{ kind: "Identity", name: "new" }] });
  });

  test("loses an identity at once although another one is missing", () => {
    const entity = carriedOut(planFor("ServicePolicy", spec), undefined);
    const plan = planFor("ServicePolicy", { ...spec, identityRefs: [{ name: "new" }] }, entity);
    expect(plan).toMatchObject({ action: "patch", body: { identityRoles: [] }, missing: [{ name: "new" }] });
  });

  test("never asks for fewer checks because one is missing", () => {
    const entity = carriedOut(planFor("ServicePolicy", spec), undefined);
    const missing = { ...spec, postureCheckRefs: [{ name: "gone" }], postureCheckIds: ["more"] };
    const plan = planFor("ServicePolicy", missing, entity);
    expect(plan).toMatchObject({ action: "patch", body: { postureCheckRoles: ["@c1", "@more"] } });
    const all = { ...entity, postureCheckRoles: ["#all"] };
    expect(planFor("ServicePolicy", missing, all)).toMatchObject({ action: "none", missing: [{ name: "gone" }] });
  });
});

describe("a config", () => {
  test("can't become one of another type", () => {
    const entity = { id: "x", name: "sample", tags: {}, configTypeId: "t2", data: {} };
    expect(planFor("ServiceConfig", {}, entity)).toMatchObject({ action: "conflict", reason: "ImmutableDifference" });
  });
});

describe("a service without the encryption that is asked for", () => {
  const plain = carriedOut<FoundEntity & Json>(planFor("OverlayService", { encryptionRequired: false }), undefined);
  const reason = (spec: Json, tags: object) => {
    const plan = planFor("OverlayService", spec, { ...plain, tags } as FoundEntity);
    return plan.action === "conflict" ? `${plan.reason}: ${plan.message}` : plan.action;
  };

  test("is not taken over, and not taken for what the spec says when a user has made it so", () => {
    expect(reason({ managementPolicy: "Adopt" }, {})).toMatch(/: service .* was made without encryptionRequired/);
    expect(reason({}, plain.tags ?? {})).toMatch(/^ImmutableDifference: /);
    expect(reason({ encryptionRequired: false }, plain.tags ?? {})).toBe("none");
  });

  test("is told to who only looks", () => {
    const plan = planFor("OverlayService", { managementPolicy: "Observe" }, plain);
    expect(plan).toMatchObject({ action: "none", differences: ["encryptionRequired"] });
  });
});

describe("a posture check", () => {
  test("can't become one of another type", () => {
    const entity = carriedOut(planFor("PostureCheck", {}), undefined);
    const plan = planFor("PostureCheck", { mfa: null, mac: { macAddresses: ["00:1B:44:11:3A:B7"] } }, entity);
    expect(plan).toMatchObject({ action: "conflict", reason: "ImmutableDifference" });
  });

  test("is not written forever to a server that does not tell a field", () => {
    const { ignoreLegacyEndpoints: _untold, ...entity } = carriedOut<FoundEntity & Json>(
      planFor("PostureCheck", { mfa: { ignoreLegacyEndpoints: true } }),
      undefined,
    );
    expect(planFor("PostureCheck", { mfa: { ignoreLegacyEndpoints: true } }, entity as FoundEntity).action).toBe(
      "none",
    );
  });
});

describe("whatever the spec", () => {
  const name = fc.constantFrom("a", "b", "web");
  const roles = fc.oneof(fc.constant(["#all"]), fc.uniqueArray(name.map((each) => `#${each}`)), fc.constant(undefined));
  const refs = (...names: string[]) => fc.subarray(names.map((each) => ({ name: each })));
  const ids = fc.uniqueArray(fc.constantFrom("x", "y", "z"));
  const side = (field: string, ...names: string[]) =>
    fc
      .record({ roles, refs: refs(...names), ids })
      .map((given) =>
        given.roles?.[0] === "#all"
          ? { [`${field}Roles`]: given.roles }
          : { [`${field}Roles`]: given.roles ?? [], [`${field}Refs`]: given.refs, [`${field}Ids`]: given.ids },
      );
  const policy = fc
    .tuple(
      side("identity", "bot", "user"),
      side("service", "web"),
      side("postureCheck", "mac"),
      fc.record({ semantic: fc.constantFrom("AnyOf", "AllOf"), type: fc.constantFrom("Dial", "Bind") }),
    )
    .map((parts): Json => Object.assign({}, ...parts));

  /** What a namespace may name that is kept apart from others. */
  const withoutIds = (spec: Json): Json =>
    Object.fromEntries(Object.entries(spec).filter(([field]) => field !== "identityIds" && field !== "serviceIds"));

  test("any policy follows any other, and then there is nothing to do", () => {
    fc.assert(
      fc.property(policy, policy, fc.constantFrom("Global", "Namespaced"), (one, another, scope) => {
        const allowed = (given: Json): Json => (scope === "Global" ? given : withoutIds(given));
        const [first, second] = [allowed(one), allowed(another)];
        const made = carriedOut(planFor("ServicePolicy", first, undefined, scope), undefined);
        expect(planFor("ServicePolicy", first, made, scope).action).toBe("none");
        const changed = carriedOut(planFor("ServicePolicy", second, made, scope), made);
        expect(planFor("ServicePolicy", second, changed, scope).action).toBe("none");
      }),
      { numRuns: 60 },
    );
  });
});

describe("an entity whose resource is deleted", () => {
  const tags = { ...tagsOf(OWNER), team: "a" };
  const remove = (kind: string, collection: unknown, found: FoundEntity, client: object, spec: Json = {}) => {
    const reader = { byId: async () => found } as unknown as EntityReader<FoundEntity>;
    const sync = new EntitySync(PLANS[kind] as AnyKind, collection as Collection<object, FoundEntity>, reader);
    const known = { id: found.id, wasObserved: false };
    return sync.remove(client as ManagementClient, resource(kind, spec), known, OWNER, new AbortController().signal);
  };

  test("is deleted, whatever is missing of it", async () => {
    const deleteAuthPolicy = vi.fn();
    const found = { id: "a1", name: "sample", tags };
    expect(await remove("AuthPolicy", authPolicies, found, { deleteAuthPolicy })).toEqual({ state: "gone" });
    expect(deleteAuthPolicy).toHaveBeenCalledOnce();
  });

  test("is released with what the API takes for a config", async () => {
    const updateConfig = vi.fn();
    const found = { id: "c1", name: "sample", tags, configTypeId: "t1", data: { port: 80 } };
    const detailConfig = async () => ({ data: found, headers: { etag: '"1"' } });
    const client = { updateConfig, detailConfig };
    const state = await remove("ServiceConfig", configs, found, client, { deletionPolicy: "Orphan" });
    expect(state).toEqual({ state: "released" });
    const body = { name: "sample", tags: { team: "a" }, data: { port: 80 } };
    const [request, options] = updateConfig.mock.calls[0] ?? [];
    expect(request).toEqual({ params: { id: "c1" }, body });
    expect(options).toMatchObject({ headers: { "if-match": '"1"' } });
  });
});

test("each of two replacements is made only of the version that was read", async () => {
  const tags = tagsOf(OWNER);
  let stored = { id: "s1", name: "sample", tags, roleAttributes: ["before"], encryptionRequired: true } as FoundEntity;
  const conditions: unknown[] = [];
  const collection = {
    detail: async () => ({ data: stored, headers: { etag: `"${conditions.length}"` } }),
    replace: async (_client: unknown, _found: unknown, body: object, { headers }: { headers?: object }) => {
      conditions.push(headers);
      // The first one is carried out in part only.
      if (conditions.length > 1) stored = { ...stored, ...body };
    },
  } as unknown as Collection<object, FoundEntity>;
  const reader = { byId: async () => stored } as unknown as EntityReader<FoundEntity>;
  const sync = new EntitySync(PLANS.OverlayService as AnyKind, collection, reader);
  const wanted = resource("OverlayService", { roleAttributes: ["after"] });
  const o = { signal: new AbortController().signal, onIdentified: async () => {} };
  const known = { id: "s1", wasObserved: false };
  await sync.sync({} as ManagementClient, wanted, known, around(wanted.spec, "Global"), o);
  expect(conditions).toEqual([{ "if-match": '"0"' }, { "if-match": '"1"' }]);
});
