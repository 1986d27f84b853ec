/** On a real API server: the operator corrects changed children of an EdgeRouter, and leaves those of an earlier version as they are. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startTestController, type TestController } from "../../../controller/src/api/testing/test-controller.ts";
import { conditionOf } from "../../../operator/src/kube/conditions.ts";
import { KINDS as KUBE, type KubeObject } from "../../../operator/src/kube/kinds.ts";
import { ANNOTATIONS } from "../../../packages/resources/src/group.ts";
import type { RouterStatus } from "../../../packages/resources/src/kinds/edge-router/schema.ts";
import { eventually } from "../../network/eventually.ts";
import { hasCluster } from "../tools.ts";
import { type Found, PATIENCE_MS, Scene } from "./scene.ts";

describe.skipIf(!hasCluster)("what another client changes", { timeout: 240_000 }, () => {
  const NAMESPACE = "drift";
  let scene: Scene;
  let controller: TestController;

  beforeAll(async () => {
    [scene, controller] = await Promise.all([Scene.open(), startTestController()]);
    await scene.place(NAMESPACE, { port: controller.port, ca: controller.pki.caBundlePem, password: "admin" });
    await scene.run();
  });
  afterAll(async () => {
    await scene?.close();
    await controller?.close();
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
      await scene.client.patch(ref, { metadata: { annotations: { "example.org/by": "another" } } });
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
      const corrected = await scene.client.get<Part>(ref);
      expect(corrected?.metadata.annotations?.["example.org/by"], what).toBe("another");
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
});
