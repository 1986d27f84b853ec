/** The operator's loop with the simple kinds: a fake API server on one side, a real controller on the other. */
import { describe, expect, test } from "vitest";
import { conditionOf, healthOf } from "../../../operator/src/kube/conditions.ts";
import { startApiServer } from "../../../operator/src/testing/start-operator.ts";
import { FINALIZER } from "../../../packages/resources/src/group.ts";
import { DRIFT_CASES } from "../../operator/drift-cases.ts";
import { SIMPLE_PATHS } from "../../operator/entity-paths.ts";
import { OperatorScene } from "../../operator/operator-scene.ts";

const PATIENT = { timeout: 20_000 };

const scene = OperatorScene.ofThisFile();

const SYNC_NOW = "sallyport.dev/reconcile-requested-at";

test.each(DRIFT_CASES)(
  "$kind becomes an entity, is put right when an administrator changes that, rests, and goes with it",
  async ({ kind, path, spec = {}, change }) => {
    const name = `${kind.toLowerCase()}-a`;
    const operator = await scene.start();
    await operator.apply(kind, name, { ...spec });
    const ready = await operator.ready(kind, name);
    expect(ready.metadata.finalizers).toEqual([FINALIZER]);
    expect(healthOf(ready)).toMatchObject({ health: "Current" });
    const { id } = ready.status;
    const made = await scene.entity(kind, id);
    expect(made).toMatchObject({ name, tags: { "sallyport-uid": ready.metadata.uid } });
    expect(await operator.writesOfAnotherLook()).toEqual([]);
    expect((await scene.entity(kind, id))?.updatedAt).toBe(made?.updatedAt);

    expect((await scene.controller.admin("PATCH", `/${path}/${id}`, change)).status).toBe(200);
    await operator.annotate(kind, name, { [SYNC_NOW]: "now" });
    await operator.until(kind, name, ({ status }) => status.lastHandledReconcileAt === "now");
    const declared = ["name", "tags", ...Object.keys(change)].map((field) => [field, made?.[field]]);
    expect(await scene.entity(kind, id)).toMatchObject(Object.fromEntries(declared));

    await operator.delete(kind, name);
    await operator.gone(kind, name);
    expect(await scene.entity(kind, id)).toBeUndefined();
    const told = () => operator.events(kind, name).filter((reason) => /^(Created|Updated|Deleted)$/.test(reason));
    await expect.poll(told, PATIENT).toEqual(["Created", "Updated", "Deleted"]);
  },
);

// Each kind does the same in entities.test.ts.
test("takes over what it is asked to, looks only where it is asked to, and lets go", async () => {
  const kind = "OverlayService";
  const name = "overlayservice-a";
  const operator = await scene.start();
  await operator.apply(kind, "left", { deletionPolicy: "Orphan", name: `${name}-left` });
  const { id } = (await operator.ready(kind, "left")).status;
  await operator.delete(kind, "left");
  await operator.gone(kind, "left");
  expect((await scene.entity(kind, id))?.tags).toEqual({});

  await operator.apply(kind, "next", { name: `${name}-left` });
  const conflict = await operator.ready(kind, "next", "False", "NameConflict");
  expect(healthOf(conflict)).toMatchObject({ health: "Failed", message: expect.stringContaining("importId") });
  expect(conflict.status.id).toBeUndefined();
  await operator.apply(kind, "next", { name: `${name}-left`, managementPolicy: "Observe" });
  expect((await operator.ready(kind, "next", "True", "Observed")).status.id).toBe(id);
  expect((await scene.entity(kind, id))?.tags).toEqual({});
  expect(await operator.writesOfAnotherLook()).toEqual([]);
  await operator.apply(kind, "next", { name: `${name}-left`, managementPolicy: "Manage" });
  await operator.ready(kind, "next", "False", "NameConflict");
  await operator.apply(kind, "next", { name: `${name}-left`, managementPolicy: "Adopt" });
  expect((await operator.ready(kind, "next", "True", "Synced")).status.id).toBe(id);
  await expect.poll(() => operator.events(kind, "next"), PATIENT).toContain("Adopted");
  await operator.delete(kind, "next");
  await operator.gone(kind, "next");
  expect(await scene.entity(kind, id)).toBeUndefined();
});

test("drift is found without being asked for", async () => {
  const operator = await scene.start({ resyncMs: 300 });
  await operator.apply("OverlayService", "drifting");
  const { id } = (await operator.ready("OverlayService", "drifting")).status;
  await scene.controller.admin("DELETE", `/services/${id}`);
  const again = await operator.until(
    "OverlayService",
    "drifting",
    ({ status }) => status.id !== id && status.id !== undefined,
  );
  expect(await scene.entity("OverlayService", again.status.id)).toMatchObject({ name: "drifting" });
  await expect
    .poll(() => operator.events("OverlayService", "drifting"), PATIENT)
    .toEqual(["Created", "DeletedExternally", "Created"]);
});

test("nothing is changed while it is paused, and everything afterwards; it is deleted all the same", async () => {
  const operator = await scene.start();
  await operator.apply("OverlayService", "paused", { roleAttributes: ["a"] });
  const { id } = (await operator.ready("OverlayService", "paused")).status;
  await operator.annotate("OverlayService", "paused", { "sallyport.dev/pause-reconciliation": "true" });
  await operator.until(
    "OverlayService",
    "paused",
    ({ status }) => status.conditions?.some(({ type }) => type === "ReconciliationPaused") ?? false,
  );
  await operator.apply("OverlayService", "paused", { roleAttributes: ["b"] });
  await operator.settled();
  expect(await scene.entity("OverlayService", id)).toMatchObject({ roleAttributes: ["a"] });
  expect(operator.read("OverlayService", "paused")?.status.observedGeneration).toBe(1);
  await operator.annotate("OverlayService", "paused", { "sallyport.dev/pause-reconciliation": null });
  const on = await operator.ready("OverlayService", "paused");
  expect(on.status.conditions?.map(({ type }) => type)).toEqual(["Synced", "Ready", "Hosted"]);
  expect(await scene.entity("OverlayService", id)).toMatchObject({ roleAttributes: ["b"] });
  await operator.annotate("OverlayService", "paused", { "sallyport.dev/pause-reconciliation": "true" });
  await operator.delete("OverlayService", "paused");
  await operator.gone("OverlayService", "paused");
  expect(await scene.entity("OverlayService", id)).toBeUndefined();
});

test("one that begins paused says so, and its entity is not made", async () => {
  const operator = await scene.start();
  await operator.apply(
    "OverlayService",
    "never",
    {},
    { annotations: { "sallyport.dev/pause-reconciliation": "true" } },
  );
  const paused = await operator.until("OverlayService", "never", ({ status }) => status.conditions !== undefined);
  expect(paused.status.conditions).toMatchObject([
    { type: "Ready", status: "Unknown", reason: "Paused" },
    { type: "ReconciliationPaused", status: "True" },
  ]);
  expect(paused.metadata.finalizers).toBeUndefined();
  expect(await scene.named("OverlayService", "never")).toEqual([]);
});

describe("another operator", () => {
  test("after the first finds everything as it is and writes nothing", async () => {
    const server = await startApiServer();
    const first = await scene.start({ server });
    for (const kind of Object.keys(SIMPLE_PATHS)) await first.apply(kind, `${kind.toLowerCase()}-kept`);
    for (const kind of Object.keys(SIMPLE_PATHS)) await first.ready(kind, `${kind.toLowerCase()}-kept`);
    await first.settled();
    await first.stop();
    const from = server.requests.length;
    const second = await scene.start({ server });
    await second.settled();
    expect(server.requests.slice(from).filter(({ method }) => method !== "GET")).toEqual([]);
    for (const kind of Object.keys(SIMPLE_PATHS)) {
      await second.delete(kind, `${kind.toLowerCase()}-kept`);
      await second.gone(kind, `${kind.toLowerCase()}-kept`);
    }
    await scene.clear();
    await server.close();
  });

  test("after one that died between the creation and the status finds the entity, and makes no second one", async () => {
    const server = await startApiServer();
    const first = await scene.start({ server });
    server.inject({
      path: "/overlayservices/half/status",
      method: "PATCH",
      times: 1_000,
      fault: { kind: "cut", lost: "request" },
    });
    await first.apply("OverlayService", "half");
    await expect.poll(async () => (await scene.named("OverlayService", "half")).length, PATIENT).toBe(1);
    await first.stop();
    server.faults.clear();
    const second = await scene.start({ server });
    const { id } = (await second.ready("OverlayService", "half")).status;
    const found = await scene.named("OverlayService", "half");
    expect(found.map((entity) => entity.id)).toEqual([id]);
    await second.delete("OverlayService", "half");
    await second.gone("OverlayService", "half");
    await scene.clear();
    await server.close();
  });
});

test("an operator of some namespaces leaves the others alone", async () => {
  const operator = await scene.start({ namespaces: ["default"] });
  const other = {
    apiVersion: "sallyport.dev/v1alpha1",
    kind: "OverlayService",
    metadata: { name: "foreign", namespace: "other" },
    spec: { networkRef: { name: "main" } },
  };
  await operator.user.apply(other);
  await operator.apply("OverlayService", "own");
  await operator.ready("OverlayService", "own");
  await operator.settled();
  expect(operator.read("OverlayService", "foreign", "other")?.metadata.finalizers).toBeUndefined();
  const lists = operator.server.requests.filter(
    ({ method, path }) => method === "GET" && path.startsWith("/apis/sallyport.dev/"),
  );
  expect(lists.every(({ path }) => path.includes("/namespaces/default/"))).toBe(true);
});

const hostedOf = (operator: Awaited<ReturnType<OperatorScene["start"]>>, name: string) =>
  conditionOf(operator.read("OverlayService", name)?.status.conditions, "Hosted");

test("a service shows in a moment that it is hosted, and that it is not any more", async () => {
  const operator = await scene.start();
  await operator.apply("OverlayService", "hosted");
  await operator.apply("OverlayService", "other");
  const { status } = await operator.ready("OverlayService", "hosted");
  await operator.ready("OverlayService", "other");
  await operator.settled();
  expect(status).toMatchObject({ hosted: false, terminators: 0 });
  expect(hostedOf(operator, "other")).toMatchObject({
    ...{ status: "False", reason: "NoBindPolicy" },
    message: expect.stringMatching(/no service policy of type Bind selects it: Create/),
  });
  const router = await scene.controller.make("edge-routers", { name: "r1" });
  const terminator = { service: status.id, router, binding: "edge_transport", address: "hosted:1" };
  const id = await scene.controller.make("terminators", terminator);
  await operator.until("OverlayService", "hosted", ({ status: { hosted } }) => hosted === true);
  expect(hostedOf(operator, "hosted")).toMatchObject({ status: "True", message: "hosted by 1 terminator" });
  expect((await scene.controller.admin("DELETE", `/terminators/${id}`)).status).toBe(200);
  await operator.until("OverlayService", "hosted", ({ status: { hosted } }) => hosted === false);
  expect(operator.read("OverlayService", "other")?.status).toMatchObject({ hosted: false });
  expect(await operator.writesOfAnotherLook()).toEqual([]);
});
