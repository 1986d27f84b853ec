/** What somebody else changes is put right, in the network and in the cluster; what others made is adopted or only looked at. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startTestController, type TestController } from "../../../controller/src/api/testing/test-controller.ts";
import { KINDS as KUBE, type KubeObject } from "../../../operator/src/kube/kinds.ts";
import { conditionOf } from "../../../operator/src/kube/status/condition.ts";
import type { RouterStatus } from "../../../operator/src/resources/edge-router.ts";
import { ANNOTATIONS } from "../../../operator/src/resources/group.ts";
import { eventually } from "../../network/eventually.ts";
import { DRIFT_CASES } from "../../operator/drift-cases.ts";
import type { Entity } from "../../operator/operator-scene.ts";
import { hasCluster } from "../tools.ts";
import { type Found, healthy, PATIENCE_MS, type Running, readyOf, Scene } from "./scene.ts";

describe.skipIf(!hasCluster)("what somebody else changes", { timeout: 240_000 }, () => {
  const NAMESPACE = "drift";
  let scene: Scene;
  let controller: TestController;
  let operator: Running;
  let configType: string;

  beforeAll(async () => {
    [scene, controller] = await Promise.all([Scene.open(), startTestController()]);
    await scene.place(NAMESPACE, { port: controller.port, ca: controller.pki.caBundlePem, password: "admin" });
    operator = await scene.run();
    const types = (await controller.admin("GET", "/config-types?limit=100")).json.data as Entity[];
    configType = types.find(({ name }) => name === "host.v1")?.id ?? "";
  });
  afterAll(async () => {
    await scene?.close();
    await controller?.close();
  });

  const nameOf = (kind: string): string => `drift-${kind.toLowerCase()}`;
  const entity = async (path: string, id: unknown): Promise<Entity | undefined> => {
    const { status, json } = await controller.admin("GET", `/${path}/${id}`);
    return status === 200 ? json.data : undefined;
  };
  /** What of an entity somebody could have changed. */
  const essence = (found: Entity | undefined): object => {
    const { updatedAt: _, id: __, createdAt: ___, _links, ...rest } = found ?? ({} as Entity);
    return rest;
  };

  describe.each(DRIFT_CASES)("of $kind", ({ kind, path, spec = {}, change, foreign }) => {
    const declare = (name: string, more: object = {}): Promise<Found> =>
      scene.declare(NAMESPACE, kind, name, { ...spec, ...more } as Readonly<Record<string, unknown>>);

    test("is put right, and comes back when it is deleted", async () => {
      await declare(nameOf(kind));
      const { status } = await scene.ready(NAMESPACE, kind, nameOf(kind));
      const before = await entity(path, status.id);
      expect((await controller.admin("PATCH", `/${path}/${status.id}`, change)).status).toBe(200);
      expect(essence(await entity(path, status.id))).not.toEqual(essence(before));
      await scene.lookAgain(NAMESPACE, kind, nameOf(kind));
      const mended = await entity(path, status.id);
      for (const field of Object.keys(change)) expect(mended?.[field], field).toEqual(before?.[field]);
      expect(mended?.tags).toEqual(before?.tags);

      expect((await controller.admin("DELETE", `/${path}/${status.id}`)).status).toBe(200);
      await scene.lookAgain(NAMESPACE, kind, nameOf(kind));
      const again = await scene.ready(NAMESPACE, kind, nameOf(kind));
      expect(again.status.id).not.toBe(status.id);
      expect(healthy(again)).toBe("Current");
      expect(await entity(path, again.status.id)).toMatchObject({ name: nameOf(kind) });
      await scene.delete(NAMESPACE, kind, nameOf(kind));
      await scene.gone(NAMESPACE, kind, nameOf(kind));
      expect(await entity(path, again.status.id)).toBeUndefined();
    });

    test("that was there before is refused, looked at, adopted, and left behind, as the spec says", async () => {
      const name = `${nameOf(kind)}-foreign`;
      const body =
        kind === "ServiceConfig"
          ? { configTypeId: configType, data: { protocol: "tcp", address: "a", port: 1 } }
          : foreign;
      const id = await controller.make(path, { name, ...body });
      const told = (reason: string) =>
        eventually(`an event ${reason}`, async () => (await scene.events(NAMESPACE, kind, name)).includes(reason));
      const before = await entity(path, id);
      await declare(name);
      const refused = await scene.ready(NAMESPACE, kind, name, "False", "NameConflict");
      expect(healthy(refused)).toBe("Failed");
      expect(readyOf(refused)?.message).toMatch(/adopt/i);
      await told("NameConflict");
      expect(await entity(path, id)).toEqual(before);

      await declare(name, { managementPolicy: "Observe" });
      const observed = await scene.ready(NAMESPACE, kind, name, "True", "Observed");
      expect(healthy(observed)).toBe("Current");
      expect(observed.status.id).toBe(id);
      expect(await entity(path, id)).toEqual(before);

      await declare(name, { managementPolicy: "Adopt", deletionPolicy: "Orphan" });
      const adopted = await scene.ready(NAMESPACE, kind, name, "True");
      expect(adopted.status.id).toBe(id);
      expect((await entity(path, id))?.tags).toMatchObject({ "sallyport-uid": adopted.metadata.uid });
      await told("Adopted");

      await scene.delete(NAMESPACE, kind, name);
      await scene.gone(NAMESPACE, kind, name);
      expect((await entity(path, id))?.tags).toEqual({});
      await controller.admin("DELETE", `/${path}/${id}`);
    });
  });

  test("of the entity of an EdgeRouter is put right, and comes back when it is deleted", async () => {
    const exposure = { type: "LoadBalancer", hostname: "localhost" };
    await scene.declare(NAMESPACE, "EdgeRouter", "us", { exposure, roleAttributes: ["public"] });
    const idOf = ({ status }: Found) => ((status.routers ?? []) as RouterStatus[])[0]?.id;
    const made = await scene.until(NAMESPACE, "EdgeRouter", "us", (found) => idOf(found) !== undefined);
    const at = `/edge-routers/${idOf(made)}`;
    const stolen = { name: "stolen", roleAttributes: ["stolen"], noTraversal: true };
    expect((await controller.admin("PATCH", at, stolen)).status).toBe(200);
    await scene.lookAgain(NAMESPACE, "EdgeRouter", "us");
    const mended = { name: "us-0", roleAttributes: ["public"], noTraversal: false };
    expect(await entity("edge-routers", idOf(made))).toMatchObject(mended);
    expect((await controller.admin("DELETE", at)).status).toBe(200);
    await scene.lookAgain(NAMESPACE, "EdgeRouter", "us");
    const isAnother = (found: Found) => idOf(found) !== undefined && idOf(found) !== idOf(made);
    const again = await scene.until(NAMESPACE, "EdgeRouter", "us", isAnother);
    expect(await entity("edge-routers", idOf(again))).toMatchObject(mended);
    await scene.delete(NAMESPACE, "EdgeRouter", "us");
    await scene.gone(NAMESPACE, "EdgeRouter", "us");
    expect(await entity("edge-routers", idOf(again))).toBeUndefined();
  });

  test("of the children of an EdgeRouter is put right at once, and what others added stays", async () => {
    await scene.declare(NAMESPACE, "EdgeRouter", "eu", {
      replicas: 2,
      exposure: { type: "LoadBalancer", hostname: "r{ordinal}.localhost" },
      networkPolicy: { enabled: true },
    });
    await scene.until(
      NAMESPACE,
      "EdgeRouter",
      "eu",
      ({ status }) => ((status.routers ?? []) as RouterStatus[])[0]?.id !== undefined,
    );
    const at = (kind: (typeof KUBE)[keyof typeof KUBE], name: string) => ({ kind, namespace: NAMESPACE, name });
    const parts = [
      { ref: at(KUBE.ConfigMap, "eu-0-config"), change: { data: { "router.yml": "v: 3\n" } } },
      { ref: at(KUBE.Service, "eu-0-edge"), change: { spec: { selector: { app: "stolen" } } } },
      { ref: at(KUBE.StatefulSet, "eu-0"), change: { spec: { template: { spec: { serviceAccountName: "stolen" } } } } },
      { ref: at(KUBE.PodDisruptionBudget, "eu"), change: { spec: { maxUnavailable: 3 } } },
      { ref: at(KUBE.NetworkPolicy, "eu"), change: { spec: { ingress: null } } },
      { ref: at(KUBE.ServiceAccount, "eu"), change: { automountServiceAccountToken: true } },
      { ref: at(KUBE.Secret, "eu-0-enrollment"), change: { stringData: { "enrollment.jwt": "stolen" } } },
    ];
    type Part = KubeObject & Readonly<Record<string, unknown>>;
    const content = (object: Part | undefined): object => {
      const { metadata, status, ...rest } = object ?? ({} as Part);
      return JSON.parse(
        JSON.stringify(rest, (key, value) =>
          key === "clusterIP" || key === "clusterIPs" || key === "nodePort" || key === "healthCheckNodePort"
            ? undefined
            : value,
        ),
      );
    };
    for (const { ref, change } of parts) {
      const what = `${ref.kind.kind}/${ref.name}`;
      const before = await eventually(`${what} is made`, async () => await scene.client.get<Part>(ref), PATIENCE_MS);
      await scene.client.patch(ref, { metadata: { annotations: { "example.org/by": "somebody" } } });
      const changed = await scene.client.patch<Part>(ref, change);
      expect(content(changed), what).not.toEqual(content(before));
      await eventually(
        `${what} is put right`,
        async () => {
          expect(content(await scene.client.get<Part>(ref)), what).toEqual(content(before));
          return true;
        },
        PATIENCE_MS,
      );
      const mended = await scene.client.get<Part>(ref);
      expect(mended?.metadata.annotations?.["example.org/by"], what).toBe("somebody");
      await scene.client.delete(ref);
      await eventually(
        `${what} is back`,
        async () => {
          const again = await scene.client.get<Part>(ref);
          return again !== undefined && again.metadata.uid !== changed.metadata.uid;
        },
        PATIENCE_MS,
      );
    }
    await scene.delete(NAMESPACE, "EdgeRouter", "eu");
    await scene.gone(NAMESPACE, "EdgeRouter", "eu");
  });

  test("of an EdgeRouter of an earlier version stays, and its volume loses the label that other tools go by", async () => {
    const INSTANCE = "app.kubernetes.io/instance";
    const set = { kind: KUBE.StatefulSet, namespace: NAMESPACE, name: "old-0" };
    const claim = { kind: KUBE.PersistentVolumeClaim, namespace: NAMESPACE, name: "data-old-0-0" };
    type Workload = KubeObject & {
      readonly spec: {
        readonly selector: { readonly matchLabels: Readonly<Record<string, string>> };
        readonly volumeClaimTemplates: readonly { readonly metadata: object; readonly spec: object }[];
      };
    };
    await scene.declare(NAMESPACE, "EdgeRouter", "old", { exposure: { type: "ClusterIP" } });
    const claimMade = async () => (await scene.client.get(claim))?.metadata;
    const fresh = await eventually("the claim is made", claimMade, PATIENCE_MS);
    expect(fresh.labels).toMatchObject({ "sallyport.dev/owner-name": "old", "sallyport.dev/ordinal": "0" });
    expect(fresh.labels).not.toHaveProperty([INSTANCE]);
    expect(fresh.annotations).toMatchObject({ "argocd.argoproj.io/sync-options": "Prune=false,Delete=false" });

    await scene.annotate(NAMESPACE, "EdgeRouter", "old", { [ANNOTATIONS.pause]: "true" });
    const isPaused = ({ status }: Found) => conditionOf(status.conditions, "ReconciliationPaused")?.status === "True";
    await scene.until(NAMESPACE, "EdgeRouter", "old", isPaused);
    const made = await scene.client.get<Workload>(set);
    if (made === undefined) throw new Error("there is no StatefulSet");
    await scene.client.delete(set, { propagation: "Foreground" });
    await eventually("it is gone", async () => (await scene.client.get(set)) === undefined, PATIENCE_MS);
    await scene.client.patch(claim, { metadata: { finalizers: null } });
    await scene.client.delete(claim);
    await eventually("its claim is gone", async () => (await claimMade()) === undefined, PATIENCE_MS);
    const selector = { "app.kubernetes.io/name": "edge-router", [INSTANCE]: "old", "sallyport.dev/ordinal": "0" };
    const { name, labels, annotations, ownerReferences } = made.metadata;
    const former = await scene.client.create({
      apiVersion: made.apiVersion,
      kind: made.kind,
      metadata: { name, namespace: NAMESPACE, labels, annotations, ownerReferences },
      spec: {
        ...made.spec,
        selector: { matchLabels: selector },
        volumeClaimTemplates: made.spec.volumeClaimTemplates.map(({ spec }) => ({
          metadata: { name: "data", labels },
          spec,
        })),
      },
    } as KubeObject);
    const before = await eventually("the former claim is made", claimMade, PATIENCE_MS);
    expect(before.labels).toMatchObject({ [INSTANCE]: "old" });

    await scene.annotate(NAMESPACE, "EdgeRouter", "old", { [ANNOTATIONS.pause]: null });
    await eventually(
      "the claim has lost the label",
      async () => (await claimMade())?.labels?.[INSTANCE] === undefined,
      PATIENCE_MS,
    );
    const marked = await claimMade();
    expect(marked?.uid).toBe(before.uid);
    expect(marked?.labels).toMatchObject({ "sallyport.dev/owner-name": "old" });
    expect(marked?.annotations).toMatchObject({ "argocd.argoproj.io/sync-options": "Prune=false,Delete=false" });
    // The next change of the pod reaches the StatefulSet that there is.
    await scene.declare(NAMESPACE, "EdgeRouter", "old", { exposure: { type: "ClusterIP" }, drainSeconds: 7 });
    type Changed = KubeObject & {
      readonly spec: { readonly template: { readonly spec: { readonly terminationGracePeriodSeconds?: number } } };
    };
    const grace = async () => {
      const found = await scene.client.get<Changed>(set);
      expect(found?.metadata.uid).toBe(former.metadata.uid);
      return found?.spec.template.spec.terminationGracePeriodSeconds === 22;
    };
    await eventually("the change is in the StatefulSet", grace, PATIENCE_MS);
    await scene.delete(NAMESPACE, "EdgeRouter", "old");
    await scene.gone(NAMESPACE, "EdgeRouter", "old");
  });

  test("in a status is put right, and a pause leaves everything alone", async () => {
    await scene.declare(NAMESPACE, "OverlayService", "told");
    const { status } = await scene.ready(NAMESPACE, "OverlayService", "told");
    const ref = scene.refTo(NAMESPACE, "OverlayService", "told");
    await scene.client.patch(ref, { status: { id: "nonsense", conditions: [] } }, { status: true });
    await eventually(
      "the status is as it was",
      async () => {
        const found = await scene.read(NAMESPACE, "OverlayService", "told");
        return found?.status.id === status.id && readyOf(found)?.status === "True";
      },
      PATIENCE_MS,
    );
    await scene.annotate(NAMESPACE, "OverlayService", "told", { [ANNOTATIONS.pause]: "true" });
    await scene.until(
      NAMESPACE,
      "OverlayService",
      "told",
      (found) => conditionOf(found.status.conditions, "ReconciliationPaused")?.status === "True",
    );
    const before = await entity("services", status.id);
    const from = await operator.count(/^controller_runtime_reconcile_total\{controller="overlayservice"/);
    await scene.declare(NAMESPACE, "OverlayService", "told", { roleAttributes: ["later"] });
    await eventually(
      "it was looked at",
      async () => (await operator.count(/^controller_runtime_reconcile_total\{controller="overlayservice"/)) > from,
    );
    expect(await entity("services", status.id)).toEqual(before);
    await scene.annotate(NAMESPACE, "OverlayService", "told", { [ANNOTATIONS.pause]: null });
    await scene.ready(NAMESPACE, "OverlayService", "told");
    expect(await entity("services", status.id)).toMatchObject({ roleAttributes: ["later"] });
  });
});
