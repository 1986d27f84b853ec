/** The same file means the same on the command line and in a cluster. */
import type { ManagementClient } from "@sallyport/api/client";
import { type EdgeRouterResource, type EntityResource, ofOrdinal, planEntity, tagsOf } from "@sallyport/resources";
import { DEFINITIONS } from "@sallyport/resources/definitions";
import { admit } from "@sallyport/resources/testing/admit";
import { sample } from "@sallyport/resources/testing/samples";
import { surroundings } from "@sallyport/resources/testing/surroundings";
import { describe, expect, it } from "vitest";
import { stringify } from "yaml";
import { type Change, fieldsOfNew } from "./changes.ts";
import { DECLARED_KINDS, declaredKind } from "./declared-kinds.ts";
import { deletionsOf } from "./deletions.ts";
import { documentsOf } from "./documents.ts";
import { readManifests } from "./manifests.ts";
import { fileOwner } from "./marks.ts";
import { NetworkState } from "./network-state.ts";
import { planAll } from "./plan.ts";

type Json = Readonly<Record<string, unknown>>;

const SPECS: Readonly<Record<string, Json>> = {
  OverlayService: {
    configRefs: [{ name: "host" }],
    roleAttributes: ["b", "a"],
    terminatorStrategy: "sticky",
    tags: { a: "1" },
  },
  ServiceConfig: { data: { port: 80, list: [1.5, { b: null }] } },
  ServicePolicy: {
    identityRoles: ["#staff"],
    identityRefs: [{ name: "bot" }],
    edgeRouterRefs: [{ name: "eu" }],
    serviceRefs: [{ name: "web" }],
    serviceIds: ["x"],
    postureCheckRefs: [{ name: "mac" }],
  },
  EdgeRouterPolicy: { edgeRouterRoles: ["#all"], identityRefs: [{ name: "bot" }] },
  ServiceEdgeRouterPolicy: { edgeRouterRefs: [{ name: "eu" }], serviceRefs: [{ name: "web" }], semantic: "AllOf" },
  AuthPolicy: { primary: { updb: { minPasswordLength: 9 } }, secondary: { requireTotp: true } },
  PostureCheck: { mfa: { timeoutSeconds: 60 }, roleAttributes: ["x"] },
  EdgeRouter: { cost: 7, configRefs: [{ name: "host" }], tunneler: { enabled: true }, appData: { a: 1 } },
  Identity: {
    type: "Device",
    isAdmin: true,
    authPolicyRef: { name: "strict" },
    serviceHosting: [{ serviceRef: { name: "web" }, cost: 3, precedence: "required" }],
    appData: { level: 2 },
  },
};

const THERE: Readonly<Record<string, readonly { readonly id: string; readonly name: string }[]>> = {
  listIdentities: [{ id: "i1", name: "bot" }],
  listServices: [{ id: "s1", name: "web" }],
  listPostureChecks: [{ id: "c1", name: "mac" }],
  listConfigs: [{ id: "h1", name: "host" }],
  listEdgeRouters: [{ id: "r1", name: "eu" }],
  listAuthPolicies: [{ id: "p1", name: "strict" }],
  listConfigTypes: [{ id: "t1", name: "host.v1" }],
};
const KNOWN = {
  "Identity/bot": "i1",
  "OverlayService/web": "s1",
  "PostureCheck/mac": "c1",
  "ServiceConfig/host": "h1",
  "EdgeRouter/eu": "r1",
  "AuthPolicy/strict": "p1",
};

/** Lists of a network. Whatever else is called is a fault of the test. */
const clientWith = (lists: Readonly<Record<string, readonly object[]>>): ManagementClient =>
  new Proxy({} as ManagementClient, {
    get: (_target, name: string) => async () => {
      const data = lists[name] ?? [];
      if (!name.startsWith("list")) throw new Error(`${name} is no list`);
      return { data, meta: { pagination: { totalCount: data.length } } };
    },
  });

async function changesOfFile(kind: string, roleScope: "Global" | "Namespaced"): Promise<readonly Change[]> {
  const { documents } = await documentsOf(stringify(sample(kind, SPECS[kind])), "f.yml");
  const { declared, problems } = readManifests(documents);
  const state = new NetworkState(clientWith(THERE), new AbortController().signal);
  await state.load(DECLARED_KINDS.map((each) => each.kind));
  const plan = await planAll(declared, state, { roleScope, adopts: false });
  expect([...problems, ...plan.problems]).toEqual([]);
  expect(plan.steps.map(({ outcome }) => outcome)).toEqual(["create"]);
  return plan.steps[0]?.changes ?? [];
}

function changesOfOperator(kind: string, roleScope: "Global" | "Namespaced"): readonly Change[] {
  const definition = DEFINITIONS.find((each) => each.kind === kind);
  if (definition === undefined) throw new Error(`there is no kind ${kind}`);
  const { object, problems } = admit(definition, sample(kind, SPECS[kind]));
  expect(problems).toEqual([]);
  const resource = object as unknown as EntityResource;
  const wanted = kind === "EdgeRouter" ? ofOrdinal(object as unknown as EdgeRouterResource, 0) : resource;
  const { data = {} } = resource.spec as unknown as { data?: Json };
  const around = { ...surroundings(KNOWN, roleScope), configTypeId: "t1", data };
  const plan = planEntity(declaredKind(kind).entity, wanted, around, undefined);
  if (plan.action !== "create") throw new Error(`it is to be created, not ${plan.action}`);
  return fieldsOfNew(plan.body as Json);
}

describe("what is deleted", () => {
  const team = (name: string) => ({ labels: { team: name } });
  const entity = (kind: string, name: string, labels: Readonly<Record<string, string>>, ordinal?: number) => ({
    id: `${name}-${ordinal ?? 0}`,
    name: `${name}-${ordinal ?? 0}`,
    tags: tagsOf(fileOwner({ kind, namespace: "default", name }, { labels }, ordinal)),
  });
  const there: Readonly<Record<string, readonly object[]>> = {
    listEdgeRouters: [0, 1, 2].flatMap((at) => [
      entity("EdgeRouter", "eu", { team: "red" }, at),
      entity("EdgeRouter", "us", { team: "blue" }, at),
    ]),
    listServices: [
      entity("OverlayService", "old", { team: "red" }),
      entity("OverlayService", "other", { team: "blue" }),
    ],
    listServicePolicies: [
      entity("ServicePolicy", "old", { team: "red", stage: "test" }),
      { id: "hand", name: "hand", tags: null },
      {
        ...entity("ServicePolicy", "of-operator", { team: "red" }),
        tags: { "sallyport-cluster": "c", "sallyport-uid": "u" },
      },
    ],
  };

  it.each([
    [
      "routers beyond the number of an EdgeRouter, and nothing else",
      undefined,
      {},
      ["EdgeRouter/eu-1", "EdgeRouter/eu-2"],
    ],
    ["no router that is only observed", undefined, { managementPolicy: "Observe" }, []],
    [
      "with --prune also what had the labels and is not declared, first what refers to others",
      { team: "red" },
      {},
      ["ServicePolicy/old", "EdgeRouter/eu-1", "EdgeRouter/eu-2", "OverlayService/old"],
    ],
    ["only what had all of the labels", { team: "red", stage: "test" }, { replicas: 3 }, ["ServicePolicy/old"]],
    ["nothing that is declared with other labels", { team: "blue" }, { replicas: 3 }, ["OverlayService/other"]],
  ])("is %s", async (_what, selector, spec, titles) => {
    const documents = [
      { ...sample("EdgeRouter", { replicas: 1, ...spec }), metadata: { name: "eu", ...team("red") } },
      { ...sample("EdgeRouter", { replicas: 1 }), metadata: { name: "us" } },
    ];
    const { declared } = readManifests(
      (await documentsOf(documents.map((each) => stringify(each)).join("---\n"), "f")).documents,
    );
    const state = new NetworkState(clientWith(there), new AbortController().signal);
    await state.load(DECLARED_KINDS.map((each) => each.kind));
    const files = { all: declared, declared: declared.slice(0, 1) };
    expect(deletionsOf(files, state, selector).map(({ title }) => title)).toEqual(titles);
  });
});

describe("a file and an object of a cluster", () => {
  it.each(DECLARED_KINDS.map(({ kind }) => kind))("make the same of a new %s", async (kind) => {
    expect(Object.keys(SPECS)).toContain(kind);
    const fields = await changesOfFile(kind, "Global");
    expect(fields.length).toBeGreaterThan(2);
    expect(fields).toEqual(changesOfOperator(kind, "Global"));
  });

  it("make the same where namespaces are kept apart", async () => {
    const fields = await changesOfFile("OverlayService", "Namespaced");
    expect(fields).toEqual(changesOfOperator("OverlayService", "Namespaced"));
    expect(fields).toContainEqual(
      expect.objectContaining({ path: ["roleAttributes"], after: ["default.a", "default.all", "default.b"] }),
    );
  });
});
