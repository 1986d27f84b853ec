/** A managed Network whose controller can't be started: what it waits for, and what it leaves alone. */
import { TestAuthority } from "@sallyport/wire/testing";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { conditionOf } from "../../operator/src/kube/conditions.ts";
import { KINDS, type KubeObject, type ResourceKind } from "../../operator/src/kube/kinds.ts";
import { startOperator, type TestOperator } from "../../operator/src/testing/start-operator.ts";

interface Holder extends KubeObject {
  readonly data?: Readonly<Record<string, string>>;
}

let t: TestOperator;
const find = <T extends KubeObject = Holder>(kind: ResourceKind, name: string) =>
  t.server.read<T>({ kind, namespace: "default", name });

beforeAll(async () => {
  t = await startOperator({ patienceMs: 100_000 });
});

afterAll(async () => await t?.close());

describe("a managed Network whose controller can't be started yet", { timeout: 120_000 }, () => {
  const failing = (name: string, reason: string) => t.ready("Network", name, "False", reason);
  const spec = (managed: object) => ({ external: null, managed });

  test("an object of its name in other hands is left alone", async () => {
    const service = { apiVersion: "v1", kind: "Service", metadata: { name: "a-controller", namespace: "default" } };
    t.server.put(KINDS.Service, { ...service, spec: { ports: [] } });
    await t.apply("Network", "a", spec({}));
    const { status } = await failing("a", "NameConflict");
    expect(conditionOf(status.conditions, "Deployed")?.message).toContain("Service a-controller");
    expect(find(KINDS.Service, "a-controller")?.metadata.labels).toBeUndefined();
    expect(find(KINDS.StatefulSet, "a-controller")).toBeUndefined();
  });

  test("a load balancer is waited for", async () => {
    await t.apply("Network", "b", spec({ exposure: { type: "LoadBalancer" } }));
    await failing("b", "WaitingForLoadBalancer");
    expect(find(KINDS.StatefulSet, "b-controller")).toBeUndefined();
    const ref = { kind: KINDS.Service, namespace: "default", name: "b-controller" };
    t.server.change(ref, { status: { loadBalancer: { ingress: [{ ip: "192.0.2.7" }] } } }, "status");
    await failing("b", "ControllerStarting");
    expect(find(KINDS.ConfigMap, "b-controller")?.data?.["controller.yml"]).toContain("advertise: 192.0.2.7:1280");
  });

  test("a database's URL is read from its Secret, and never shown", async () => {
    await t.apply("Network", "c", spec({ database: { urlSecretRef: { name: "db", key: "uri" } } }));
    await failing("c", "SecretNotFound");
    const put = (uri: string) =>
      t.server.put(KINDS.Secret, {
        apiVersion: "v1",
        kind: "Secret",
        metadata: { name: "db", namespace: "default" },
        data: { uri: Buffer.from(uri).toString("base64") },
      });
    put("mysql://u:geheim@h/d");
    await failing("c", "InvalidDatabaseUrl");
    put("postgres://u:geheim@h/d");
    await failing("c", "ControllerStarting");
    const hashOf = () => JSON.stringify(find(KINDS.StatefulSet, "c-controller"));
    const before = hashOf();
    put("postgres://u:geheim2@h/d");
    await t.until("Network", "c", () => hashOf() !== before);
    expect(find(KINDS.PersistentVolumeClaim, "c-controller-data")).toBeUndefined();
    const told = t.server.requests.map(({ body }) => JSON.stringify(body ?? "")).join("\n");
    expect(`${told}${t.logged()}`).not.toContain("geheim");
  });

  test("an issuer needs cert-manager; its certificate is served once it is there", async () => {
    const exposure = { type: "ClusterIP", hostname: "ctrl.example" };
    const fault = { kind: "status", code: 404, reason: "NotFound" } as const;
    const install = t.server.inject({ path: /cert-manager\.io/, times: 1_000, fault });
    await t.apply("Network", "d", spec({ exposure, certificates: { issuerRef: { name: "le" } } }));
    await failing("d", "CertManagerMissing");
    install();
    t.operator.loops.resync();
    await failing("d", "CertificateNotReady");
    expect(find<KubeObject & { spec: object }>(KINDS.Certificate, "d-controller-certificate")?.spec).toMatchObject({
      dnsNames: ["ctrl.example"],
      issuerRef: { name: "le", kind: "Issuer" },
    });
    const { certPem, keyPem } = await (await TestAuthority.create()).issue({ dns: ["ctrl.example"] });
    const data = { "tls.crt": certPem, "tls.key": keyPem };
    t.server.put(KINDS.Secret, {
      apiVersion: "v1",
      kind: "Secret",
      metadata: { name: "d-controller-certificate", namespace: "default" },
      data: Object.fromEntries(
        Object.entries(data).map(([key, value]) => [key, Buffer.from(value).toString("base64")]),
      ),
    });
    await failing("d", "ControllerStarting");
    expect(find(KINDS.ConfigMap, "d-controller")?.data?.["controller.yml"]).toContain("serverCertificates:");
  });

  test("a volume that a user has made larger stays so", async () => {
    await t.apply("Network", "f", spec({}));
    await failing("f", "ControllerStarting");
    const ref = { kind: KINDS.PersistentVolumeClaim, namespace: "default", name: "f-controller-data" };
    t.server.change(ref, { spec: { resources: { requests: { storage: "5Gi" } } } });
    await t.annotate("Network", "f", { "sallyport.dev/reconcile-requested-at": "1" });
    await t.until("Network", "f", ({ status }) => status.lastHandledReconcileAt === "1");
    expect(t.server.read(ref)).toMatchObject({ spec: { resources: { requests: { storage: "5Gi" } } } });
    await t.apply("Network", "f", spec({ database: { embedded: { size: "6Gi" } } }));
    await t.until("Network", "f", ({ metadata, status }) => status.observedGeneration === metadata.generation);
    expect(t.server.read(ref)).toMatchObject({ spec: { resources: { requests: { storage: "6Gi" } } } });
  });

  test("more controllers wait until the first one is ready, and has the id with which others may join it", async () => {
    t.server.put(KINDS.Secret, {
      ...{ apiVersion: "v1", kind: "Secret", metadata: { name: "db-g", namespace: "default" } },
      data: { uri: Buffer.from("postgres://u:p@h/d").toString("base64") },
    });
    const database = { urlSecretRef: { name: "db-g", key: "uri" } };
    await t.apply("Network", "g", spec({ database, replicas: 3 }));
    await failing("g", "ControllerStarting");
    interface Workload extends KubeObject {
      readonly spec: {
        readonly replicas: number;
        readonly template: { readonly metadata: { readonly labels: object; readonly annotations: object } };
      };
    }
    const workload = () => find<Workload>(KINDS.StatefulSet, "g-controller");
    const ref = { kind: KINDS.StatefulSet, namespace: "default", name: "g-controller" };
    expect(workload()?.spec.replicas).toBe(1);
    // As an operator that knew one controller only has left it.
    const { labels, annotations } = workload()?.spec.template.metadata ?? {};
    const pod = (own: object | undefined) => ({
      ...{ apiVersion: "v1", kind: "Pod", spec: {} },
      metadata: { name: "g-controller-0", namespace: "default", labels, annotations: own },
    });
    t.server.put(KINDS.Pod, pod({}));
    const looked = async (at: string) => {
      await t.annotate("Network", "g", { "sallyport.dev/reconcile-requested-at": at });
      await t.until("Network", "g", ({ status }) => status.lastHandledReconcileAt === at);
    };
    const ready = { observedGeneration: 9, readyReplicas: 1, updatedReplicas: 1 };
    t.server.change(ref, { status: ready }, "status");
    await looked("1");
    expect(workload()?.spec.replicas).toBe(1);
    t.server.put(KINDS.Pod, pod(annotations));
    await t.until("Network", "g", () => workload()?.spec.replicas === 3);
    // A controller that is away for a moment is no reason to stop the others.
    t.server.change(ref, { status: { ...ready, readyReplicas: 0 } }, "status");
    await looked("2");
    expect(workload()?.spec.replicas).toBe(3);

    // One that is left keeps its address, and its pod its template; the others' Services go with their pods.
    const template = JSON.stringify(workload()?.spec.template);
    const service = (ordinal: number) => find(KINDS.Service, `g-controller-${ordinal}`);
    for (const ordinal of [0, 1, 2]) expect(service(ordinal)).toBeDefined();
    expect(find(KINDS.PodDisruptionBudget, "g-controller")).toBeDefined();
    const second = pod(annotations);
    t.server.put(KINDS.Pod, { ...second, metadata: { ...second.metadata, name: "g-controller-1" } });
    await t.settled();
    await t.apply("Network", "g", spec({ database, replicas: 1 }));
    await t.until("Network", "g", () => workload()?.spec.replicas === 1 && service(2) === undefined);
    await t.until("Network", "g", () => find(KINDS.PodDisruptionBudget, "g-controller") === undefined);
    expect(service(1)).toBeDefined();
    t.server.remove({ kind: KINDS.Pod, namespace: "default", name: "g-controller-1" });
    await t.until("Network", "g", () => service(1) === undefined);
    expect(service(0)).toBeDefined();
    expect(JSON.stringify(workload()?.spec.template)).toBe(template);
  });

  test("a pod has the time to stop that its controller's file takes", async () => {
    interface Workload extends KubeObject {
      readonly spec: { readonly template: { readonly spec: { readonly terminationGracePeriodSeconds: number } } };
    }
    await t.apply("Network", "h", spec({ config: { overrides: { api: { drain: "90s" } } } }));
    await failing("h", "ControllerStarting");
    const grace = find<Workload>(KINDS.StatefulSet, "h-controller")?.spec.template.spec.terminationGracePeriodSeconds;
    expect(grace).toBe(135);
  });

  test("a pod that can't run says why", async () => {
    await t.apply("Network", "e", spec({}));
    await failing("e", "ControllerStarting");
    const { metadata } = find(KINDS.StatefulSet, "e-controller") as KubeObject;
    const state = { waiting: { reason: "ImagePullBackOff", message: "no such image" } };
    t.server.put(KINDS.Pod, {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name: "e-controller-0", namespace: "default", labels: metadata.labels },
      spec: { containers: [] },
      status: { phase: "Pending", initContainerStatuses: [{ name: "init", state }] },
    });
    const { status } = await failing("e", "ControllerFailing");
    expect(conditionOf(status.conditions, "Stalled")?.message).toContain("kubectl logs e-controller-0 -c init");
  });
});
