/**
 * The owner of a tenant's namespace tries to reach, change or take over what others have in the network. The fake API server checks no rules of the CRDs,
 * so the operator alone has to hold.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { authPolicy } from "../../controller/src/api/testing/auth-policy.ts";
import { startTestController, type TestController } from "../../controller/src/api/testing/test-controller.ts";
import { KINDS, type KubeObject } from "../../operator/src/kube/kinds.ts";
import { startOperator, type TestOperator } from "../../operator/src/testing/start-operator.ts";

type Json = Readonly<Record<string, unknown>>;
type Entity = Json & { readonly id: string };

let controller: TestController;
let operator: TestOperator;
/** Entities of others, by name. */
const ids = new Map<string, string>();
let before: unknown;

const COLLECTIONS = ["services", "identities", "configs", "service-policies", "edge-router-policies"];
const MORE = ["service-edge-router-policies", "auth-policies", "posture-checks", "edge-routers"];
const NETWORKS = ["marked", "apart"] as const;

beforeAll(async () => {
  controller = await startTestController();
  operator = await startOperator();
  await makeOthers();
  before = await others();
  // What is no "false" marks the namespace, too.
  const metadata = { name: "default", labels: { "sallyport.dev/tenant": "yes" } };
  operator.server.change({ kind: KINDS.Namespace, name: "default" }, { metadata });
  const data = { username: "YWRtaW4=", password: "YWRtaW4=" };
  const secret = { apiVersion: "v1", kind: "Secret", metadata: { name: "admin", namespace: "default" }, data };
  operator.server.put(KINDS.Secret, secret as KubeObject);
  const external = {
    endpoints: [`https://localhost:${controller.port}`],
    caBundle: { inline: controller.pki.caBundlePem, configMapRef: null },
    auth: { passwordSecretRef: { name: "admin" }, certificateSecretRef: null },
  };
  await operator.apply("Network", "marked", { external });
  await operator.apply("Network", "apart", { external, roleScope: "Namespaced" });
  for (const name of NETWORKS) await operator.ready("Network", name);
});
afterAll(async () => {
  await operator?.close();
  await controller?.close();
});

/** What the platform and another team have: some of it belongs to resources of another namespace, some to nobody. */
async function makeOthers(): Promise<void> {
  const make = async (collection: string, name: string, body: Json): Promise<string> => {
    const id = await controller.make(collection, { name, ...body });
    ids.set(name, id);
    return id;
  };
  const types = (await controller.admin("GET", "/config-types?limit=100")).json.data as (Entity & { name: string })[];
  const configTypeId = types.find(({ name }) => name === "host.v1")?.id;
  const owner = { "sallyport-cluster": "c", "sallyport-kind": "OverlayService", "sallyport-namespace": "other" };
  const tags = { ...owner, "sallyport-name": "payroll", "sallyport-uid": "u-other" };
  const config = await make("configs", "host", {
    configTypeId,
    data: { protocol: "tcp", address: "localhost", port: 1 },
  });
  const service = { encryptionRequired: true, configs: [config] };
  await make("services", "payroll", { ...service, roleAttributes: ["web", "all", "*", "default"], tags });
  await make("services", "wiki", { ...service, roleAttributes: ["other.web", "other.all"] });
  await make("identities", "clerk", { type: "Default", isAdmin: false, roleAttributes: ["staff", "all"] });
  await make("identities", "root", { type: "Default", isAdmin: true });
  const policy = { semantic: "AnyOf" };
  await make("service-policies", "dial", {
    ...policy,
    type: "Dial",
    identityRoles: ["#staff"],
    serviceRoles: ["#web"],
  });
  await make("service-policies", "bind", {
    ...policy,
    type: "Bind",
    identityRoles: ["#staff"],
    serviceRoles: ["#web"],
  });
  await make("edge-router-policies", "routers", { ...policy, identityRoles: ["#all"], edgeRouterRoles: ["#public"] });
  await make("service-edge-router-policies", "paths", {
    ...policy,
    serviceRoles: ["#web"],
    edgeRouterRoles: ["#public"],
  });
  await make("edge-routers", "eu", { roleAttributes: ["public"] });
  await make("auth-policies", "strict", authPolicy("strict"));
}

/** Everything of others, and whom it reaches. */
async function others(): Promise<unknown> {
  const get = async (path: string) => (await controller.admin("GET", path)).json.data as Entity[];
  const isOthers = ({ id }: Entity) => [...ids.values(), "default"].includes(id);
  const all = await Promise.all([...COLLECTIONS, ...MORE].map((each) => get(`/${each}?limit=100`)));
  const reached = await Promise.all(
    ["payroll", "wiki"].map(async (name) => (await get(`/services/${ids.get(name)}/identities`)).map(({ id }) => id)),
  );
  const reaching = await Promise.all(
    ["clerk", "root"].map(async (name) => (await get(`/identities/${ids.get(name)}/services`)).map(({ id }) => id)),
  );
  const routers = (await get(`/edge-routers/${ids.get("eu")}/services`)).map(({ id }) => id);
  // What changes by itself.
  const kept = ({ _links, updatedAt, ...rest }: Entity): Json => rest;
  return { entities: all.map((each) => each.filter(isOthers).map(kept)), reached, reaching, routers };
}

const id = (name: string): string => ids.get(name) ?? "";
const everyone = { identityRoles: ["#all"], serviceRoles: ["#all"] };
const takeOver = { managementPolicy: "Adopt" };

// biome-ignore format: a table
const ATTACKS: readonly (readonly [what: string, kind: string, spec: () => Json])[] = [
  ["dials everything", "ServicePolicy", () => ({ type: "Dial", ...everyone })],
  ["hosts everything", "ServicePolicy", () => ({ type: "Bind", ...everyone })],
  ["selects by the attributes of others", "ServicePolicy", () => ({ identityRoles: ["#staff"], serviceRoles: ["#web"] })],
  ["selects by nothing under AllOf", "ServicePolicy", () => ({ semantic: "AllOf", identityRoles: [], serviceRoles: [] })],
  ["selects by odd attributes", "ServicePolicy", () => ({ identityRoles: ["#", "#*", "##all", "# all", "#all\n", "#\u0000all"], serviceRoles: ["#*", "##all", "#ALL", "#.all", "#../all"] })],
  ["selects by the attributes of another namespace", "ServicePolicy", () => ({ identityRoles: ["#other.all"], serviceRoles: ["#other.web", "#other.all"] })],
  ["selects by ids in the place of attributes", "ServicePolicy", () => ({ identityRoles: [`@${id("clerk")}`], serviceRoles: [`@${id("payroll")}`] })],
  ["selects by ids", "ServicePolicy", () => ({ identityIds: [id("clerk")], serviceIds: [id("payroll")] })],
  ["refers to names with paths", "ServicePolicy", () => ({ identityRefs: [{ name: "../other/clerk" }], serviceRefs: [{ name: "other/payroll" }, { name: id("payroll") }] })],
  ["adopts a policy by its name", "ServicePolicy", () => ({ ...takeOver, name: "dial", type: "Dial" })],
  ["adopts a policy by its id", "ServicePolicy", () => ({ ...takeOver, importId: id("dial"), name: "dial", type: "Dial" })],
  ["imports a policy", "ServicePolicy", () => ({ importId: id("bind"), name: "bind", type: "Bind" })],
  ["takes the name of a service", "OverlayService", () => ({ name: "payroll" })],
  ["adopts a service of another resource", "OverlayService", () => ({ ...takeOver, name: "payroll" })],
  ["adopts a service without an owner", "OverlayService", () => ({ ...takeOver, name: "wiki", deletionPolicy: "Delete" })],
  ["imports a service", "OverlayService", () => ({ importId: id("wiki"), name: "wiki" })],
  ["watches a service", "OverlayService", () => ({ managementPolicy: "Observe", name: "wiki" })],
  ["has a service among those of others", "OverlayService", () => ({ roleAttributes: ["web"] })],
  ["has a config of others", "OverlayService", () => ({ configIds: [id("host")] })],
  ["forges the owner", "OverlayService", () => ({ name: "forged", tags: { "sallyport-uid": "u-other", "sallyport-namespace": "other", "sallyport-name": "payroll" } })],
  ["has a filter for a name", "OverlayService", () => ({ ...takeOver, name: 'x" or true or name = "' })],
  ["adopts an identity", "Identity", () => ({ ...takeOver, name: "clerk" })],
  ["adopts an administrator", "Identity", () => ({ ...takeOver, name: "root", isAdmin: true })],
  ["imports an administrator", "Identity", () => ({ importId: id("root"), name: "root" })],
  ["adopts the first administrator", "Identity", () => ({ ...takeOver, name: "Default Admin" })],
  ["makes an administrator", "Identity", () => ({ isAdmin: true })],
  ["has an identity among those of others", "Identity", () => ({ roleAttributes: ["staff"] })],
  ["takes a password login of an administrator", "Identity", () => ({ enrollment: { method: "none", username: "admin", passwordSecretRef: { name: "own", key: "password" } } })],
  ["adopts a config", "ServiceConfig", () => ({ ...takeOver, name: "host", data: { address: "evil.example", port: 2 } })],
  ["imports a config", "ServiceConfig", () => ({ importId: id("host"), name: "host", data: { address: "evil.example", port: 2 } })],
  ["opens a router to all identities", "EdgeRouterPolicy", () => ({ identityRoles: ["#all"], edgeRouterRoles: ["#all"] })],
  ["opens a router by its id", "EdgeRouterPolicy", () => ({ edgeRouterIds: [id("eu")] })],
  ["adopts a policy of routers", "EdgeRouterPolicy", () => ({ ...takeOver, name: "routers" })],
  ["lets all services through a router", "ServiceEdgeRouterPolicy", () => ({ serviceRoles: ["#all"], edgeRouterRoles: ["#all"] })],
  ["adopts a policy of paths", "ServiceEdgeRouterPolicy", () => ({ ...takeOver, importId: id("paths"), name: "paths" })],
  ["adopts the standard auth policy", "AuthPolicy", () => ({ ...takeOver, importId: "default", name: "Default" })],
  ["adopts an auth policy", "AuthPolicy", () => ({ ...takeOver, name: "strict" })],
];

describe.each(NETWORKS)("in the network %s a tenant", (network) => {
  const apply = (kind: string, name: string, spec: Json = {}) =>
    operator.apply(kind, name, { networkRef: { name: network }, ...spec });

  test(`who tries ${ATTACKS.length} ways gains nothing, and takes nothing away`, async () => {
    const attacks = ATTACKS.map(([what, kind, spec]) => ({
      kind,
      spec,
      name: what.toLowerCase().replaceAll(" ", "-"),
    }));
    for (const { kind, name, spec } of attacks) await apply(kind, name, spec());
    for (const { kind, name } of attacks) {
      await operator.until(kind, name, ({ metadata, status }) => status.observedGeneration === metadata.generation);
    }
    await operator.settled();
    expect(await others()).toEqual(before);
    for (const { kind, name } of attacks) await operator.delete(kind, name);
    for (const { kind, name } of attacks) await operator.gone(kind, name);
    expect(await others()).toEqual(before);
  });

  test("who keeps to its own dials its own", async () => {
    await apply("Identity", "me");
    await apply("OverlayService", "mine");
    await apply("ServicePolicy", "own", { identityRefs: [{ name: "me" }], serviceRefs: [{ name: "mine" }] });
    await operator.ready("ServicePolicy", "own");
    const me = operator.read("Identity", "me")?.status.id;
    const { data } = (await controller.admin("GET", `/identities/${me}/services`)).json;
    expect(data.map(({ name }: { name: string }) => name)).toEqual(["mine"]);
    expect(await others()).toEqual(before);
    for (const [kind, name] of [
      ["ServicePolicy", "own"],
      ["OverlayService", "mine"],
      ["Identity", "me"],
    ] as const) {
      await operator.delete(kind, name);
      await operator.gone(kind, name);
    }
  });
});
