/** References between resources in both directions, and deletion: in every order, and whatever is in its way. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { KINDS } from "../../../operator/src/kube/kinds.ts";
import type { FakeApiServer } from "../../../operator/src/kube/testing/fake-api-server.ts";
import {
  kindNamed,
  startApiServer,
  startOperator,
  type TestOperator,
} from "../../../operator/src/testing/start-operator.ts";
import { OperatorScene } from "../../operator/operator-scene.ts";

const PATIENT = { timeout: 20_000 };

const scene = OperatorScene.ofThisFile();

const FORCE_ORPHAN = { "sallyport.dev/force-orphan": "true" };

describe("references", () => {
  test("a policy waits for what it refers to, in whatever order that comes, and follows what is made again", async () => {
    const main = { ...scene.network, settings: { roleScope: "Namespaced" } } as const;
    const operator = await scene.start({ networks: { main } });
    await operator.apply("ServicePolicy", "dial", { serviceRefs: [{ name: "web" }], identityRoles: ["#all"] });
    const waits = await operator.ready("ServicePolicy", "dial", "False", "ReferenceNotFound");
    expect(waits.status.conditions).toContainEqual(
      expect.objectContaining({ type: "Reconciling", message: "OverlayService web does not exist" }),
    );
    await operator.apply("OverlayService", "web", { configRefs: [{ name: "host" }] });
    await operator.ready("OverlayService", "web", "False", "ReferenceNotFound");
    await operator.apply("ServiceConfig", "host");
    const { id } = (await operator.ready("OverlayService", "web")).status;
    const policy = (await operator.ready("ServicePolicy", "dial")).status;
    expect(policy.matched).toMatchObject({ services: 1 });
    expect(await scene.entity("ServicePolicy", policy.id)).toMatchObject({
      serviceRoles: [`@${id}`],
      identityRoles: ["#default.all"],
    });

    await scene.controller.admin("DELETE", `/services/${id}`);
    await operator.annotate("OverlayService", "web", { "sallyport.dev/reconcile-requested-at": "1" });
    const again = await operator.until(
      "OverlayService",
      "web",
      ({ status }) => status.id !== undefined && status.id !== id,
    );
    await expect
      .poll(async () => (await scene.entity("ServicePolicy", policy.id))?.serviceRoles, PATIENT)
      .toEqual([`@${again.status.id}`]);

    await operator.delete("OverlayService", "web");
    await operator.gone("OverlayService", "web");
    await operator.ready("ServicePolicy", "dial", "False", "ReferenceNotFound");
    expect(await scene.entity("ServicePolicy", policy.id)).toMatchObject({ serviceRoles: null });
    expect(await operator.writesOfAnotherLook()).toEqual([]);
  });
});

const PARTS = {
  config: (operator: TestOperator) => operator.apply("ServiceConfig", "config"),
  service: (operator: TestOperator) =>
    operator.apply("OverlayService", "service", { configRefs: [{ name: "config" }] }),
  policy: (operator: TestOperator) =>
    operator.apply("ServicePolicy", "policy", { serviceRefs: [{ name: "service" }], identityRoles: ["#all"] }),
} as const;
const KIND_OF = { config: "ServiceConfig", service: "OverlayService", policy: "ServicePolicy" } as const;
type Part = keyof typeof PARTS;
const ORDERS: readonly (readonly Part[])[] = [
  ["config", "service", "policy"],
  ["config", "policy", "service"],
  ["service", "config", "policy"],
  ["service", "policy", "config"],
  ["policy", "config", "service"],
  ["policy", "service", "config"],
];

test.each(ORDERS)(
  "made and deleted in the order %s, %s, %s: all go, and nothing stays in the network",
  async (...order) => {
    const operator = await scene.start();
    for (const part of order) await PARTS[part](operator);
    for (const part of order) await operator.ready(KIND_OF[part], part);
    for (const part of order) await operator.delete(KIND_OF[part], part);
    for (const part of order) await operator.gone(KIND_OF[part], part);
    for (const part of order) expect(await scene.named(KIND_OF[part], part)).toEqual([]);
  },
);

describe("the deletion of a resource", () => {
  test("whose entity others use says so and ends when they let go of it", async () => {
    const operator = await scene.start();
    await operator.apply("AuthPolicy", "used");
    const { id } = (await operator.ready("AuthPolicy", "used")).status;
    const identity = { name: "user", type: "User", isAdmin: false, authPolicyId: id };
    const userId = await scene.controller.make("identities", identity);
    await operator.delete("AuthPolicy", "used");
    const blocked = await operator.ready("AuthPolicy", "used", "False", "DeletionBlocked");
    const condition = blocked.status.conditions?.find(({ type }) => type === "DeletionBlocked");
    expect(condition).toMatchObject({ status: "True", reason: "InUse", message: expect.stringContaining(userId) });
    expect(condition?.message).toContain("kubectl annotate authpolicy used -n default sallyport.dev/force-orphan=true");
    await expect.poll(() => operator.events("AuthPolicy", "used"), PATIENT).toContain("DeletionBlocked");
    await scene.controller.admin("DELETE", `/identities/${userId}`);
    await operator.gone("AuthPolicy", "used");
    expect(await scene.entity("AuthPolicy", id)).toBeUndefined();
  });

  test("whose network does not answer waits, and ends when that answers again", async () => {
    const operator = await scene.start();
    await operator.apply("OverlayService", "waiting");
    const { id } = (await operator.ready("OverlayService", "waiting")).status;
    scene.way.reset();
    await operator.delete("OverlayService", "waiting");
    const blocked = await operator.ready("OverlayService", "waiting", "False", "DeletionBlocked");
    expect(blocked.status.conditions).toContainEqual(
      expect.objectContaining({ type: "DeletionBlocked", reason: "ControllerUnavailable" }),
    );
    expect(blocked.status.id).toBe(id);
    scene.way.heal();
    await operator.gone("OverlayService", "waiting");
    expect(await scene.entity("OverlayService", id)).toBeUndefined();
  });

  test("that leaves everything in the network ends at once", async () => {
    const operator = await scene.start();
    await operator.apply("OverlayService", "forced");
    const { id } = (await operator.ready("OverlayService", "forced")).status;
    scene.way.reset();
    await operator.delete("OverlayService", "forced");
    await operator.ready("OverlayService", "forced", "False", "DeletionBlocked");
    await operator.annotate("OverlayService", "forced", FORCE_ORPHAN);
    await operator.gone("OverlayService", "forced");
    await expect.poll(() => operator.events("OverlayService", "forced"), PATIENT).toContain("ForceOrphan");
    scene.way.heal();
    expect(await scene.entity("OverlayService", id)).toMatchObject({ name: "forced" });
    await scene.controller.admin("DELETE", `/services/${id}`);
  });

  test("whose Network is gone ends, and reports what stays", async () => {
    const operator = await scene.start();
    await operator.apply("OverlayService", "alone");
    const { id } = (await operator.ready("OverlayService", "alone")).status;
    operator.server.remove({ kind: kindNamed("Network"), namespace: "default", name: "main" });
    await operator.ready("OverlayService", "alone", "False", "NetworkNotFound");
    await operator.delete("OverlayService", "alone");
    await operator.gone("OverlayService", "alone");
    await expect.poll(() => operator.events("OverlayService", "alone"), PATIENT).toContain("NetworkGone");
    await scene.controller.admin("DELETE", `/services/${id}`);
  });

  test("whose Network only the watch does not know stays until that is certain", async () => {
    const operator = await scene.start();
    await operator.ready("OverlayService", (await operator.apply("OverlayService", "first")).metadata.name);
    const heal = operator.server.inject({ path: "/networks?", times: 10_000, fault: { kind: "status", code: 500 } });
    operator.server.cutWatches();
    const main = operator.read("Network", "main");
    operator.server.put(kindNamed("Network"), { ...main, metadata: { name: "late", namespace: "default" } });
    await operator.apply("OverlayService", "early", { networkRef: { name: "late" } });
    await operator.ready("OverlayService", "early", "False", "NetworkNotFound");
    await operator.delete("OverlayService", "early");
    await expect.poll(operator.logged, PATIENT).toContain("the watch does not know the resource's Network yet");
    expect(operator.read("OverlayService", "early")?.metadata.finalizers).toHaveLength(1);
    operator.server.remove({ kind: kindNamed("Network"), namespace: "default", name: "late" });
    await operator.gone("OverlayService", "early");
    heal();
    await operator.delete("OverlayService", "first");
    await operator.gone("OverlayService", "first");
  });

  test("whose managed Network is deleted, too, does not wait for a controller that is gone", async () => {
    const operator = await scene.start();
    const network = { kind: kindNamed("Network"), namespace: "default", name: "main" };
    await operator.apply("OverlayService", "last");
    const { id } = (await operator.ready("OverlayService", "last")).status;
    operator.server.put(network.kind, {
      apiVersion: "sallyport.dev/v1alpha1",
      kind: "Network",
      metadata: { name: "main", namespace: "default", finalizers: ["test/held"] },
      spec: { managed: {} },
    });
    scene.way.reset();
    operator.server.remove(network);
    await operator.delete("OverlayService", "last");
    await operator.gone("OverlayService", "last");
    await expect.poll(() => operator.events("OverlayService", "last"), PATIENT).toContain("NetworkDeleting");
    scene.way.heal();
    await scene.controller.admin("DELETE", `/services/${id}`);
  });

  test("which others hold by finalizers of theirs takes ours away only", async () => {
    const operator = await scene.start();
    await operator.apply("OverlayService", "held", {}, { finalizers: ["example.org/other"] });
    const { id } = (await operator.ready("OverlayService", "held")).status;
    await operator.delete("OverlayService", "held");
    const left = await operator.until("OverlayService", "held", ({ metadata }) => metadata.finalizers?.length === 1);
    expect(left.metadata.finalizers).toEqual(["example.org/other"]);
    expect(await scene.entity("OverlayService", id)).toBeUndefined();
    expect(await operator.writesOfAnotherLook()).toEqual([]);
  });
});

describe("an external Network", () => {
  const SECRET = { kind: KINDS.Secret, namespace: "default", name: "admin" };
  const NETWORK = { kind: kindNamed("Network"), namespace: "default", name: "main" };

  /** With the reconciler of Networks, and one service in order. */
  async function declare(server: FakeApiServer): Promise<{ operator: TestOperator; id: unknown }> {
    const operator = await startOperator({ server });
    const external = scene.asExternal(server);
    await operator.apply("Network", "main", { external });
    await operator.apply("OverlayService", "leaving");
    return { operator, id: (await operator.ready("OverlayService", "leaving")).status.id };
  }

  let server: FakeApiServer;
  let running: TestOperator | undefined;
  beforeEach(async () => {
    server = await startApiServer();
  });
  afterEach(async () => {
    await running?.close();
    await server.close();
  });

  test("whose Secret goes first, as in a namespace that is deleted, is used for the clean-up all the same", async () => {
    const { operator, id } = await declare(server);
    running = operator;
    server.remove(SECRET);
    await operator.ready("Network", "main", "False", "SecretNotFound");
    await operator.delete("OverlayService", "leaving");
    await operator.ready("OverlayService", "leaving", "False", "DeletionBlocked");
    await operator.delete("Network", "main");
    await operator.gone("OverlayService", "leaving");
    await operator.gone("Network", "main");
    expect(await scene.entity("OverlayService", id)).toBeUndefined();
  });

  test("that is deleted first waits for the rest, also for another operator that begins meanwhile", async () => {
    const first = await declare(server);
    await first.operator.delete("Network", "main");
    const waits = await first.operator.ready("Network", "main", "False", "DeletionBlocked");
    expect(JSON.stringify(waits.status.conditions)).toContain("OverlayService leaving");
    await first.operator.close();
    running = await startOperator({ server });
    await running.settled();
    await running.delete("OverlayService", "leaving");
    await running.gone("OverlayService", "leaving");
    await running.gone("Network", "main");
    expect(await scene.entity("OverlayService", first.id)).toBeUndefined();
  });

  test("that no client can get into any more holds nothing up", async () => {
    const first = await declare(server);
    await first.operator.close();
    for (const ref of [SECRET, NETWORK, { ...NETWORK, kind: kindNamed("OverlayService"), name: "leaving" }])
      server.remove(ref);
    running = await startOperator({ server });
    await running.gone("OverlayService", "leaving");
    await running.gone("Network", "main");
    await expect.poll(() => running?.events("OverlayService", "leaving"), PATIENT).toContain("NetworkLost");
    await scene.controller.admin("DELETE", `/services/${first.id}`);
  });
});
