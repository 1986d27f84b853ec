/** What becomes of a managed Network: its operator's login, its objects in other hands, its deletion; with the real controller where one is needed. */
import { createClient } from "@sallyport/api";
import { createCsr } from "@sallyport/wire";
import { TestAuthority } from "@sallyport/wire/testing";
import { freePorts } from "@sallyport/wire/testing/free-ports";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { KINDS, type KubeObject, type ResourceKind } from "../../operator/src/kube/kinds.ts";
import { conditionOf } from "../../operator/src/kube/status/condition.ts";
import { overlayServiceReconciler } from "../../operator/src/reconcile/entity/simple-kinds.ts";
import type { KindReconciler } from "../../operator/src/reconcile/loop/kind-reconciler.ts";
import { networkReconciler } from "../../operator/src/reconcile/network/network.ts";
import { startOperator, type TestOperator } from "../../operator/src/testing/start-operator.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";
import { ControllerPods } from "./controller-pods.ts";

interface Holder extends KubeObject {
  readonly data?: Readonly<Record<string, string>>;
}

const times = { refusedLoginMs: 300, limitedMs: 100 };
const reconcilers = [
  networkReconciler({ controllerImage: "sallyport/controller:test", reach: "advertised", times }),
  overlayServiceReconciler,
] as unknown as KindReconciler[];

let t: TestOperator;
/** Milliseconds by which the operator's clock is ahead. */
let ahead = 0;

const find = <T extends KubeObject = Holder>(kind: ResourceKind, name: string) =>
  t.server.read<T>({ kind, namespace: "default", name });
const text = (holder: Holder | undefined, key: string): string =>
  Buffer.from(holder?.data?.[key] ?? "", "base64").toString();

beforeAll(async () => {
  const now = () => new Date(Date.now() + ahead);
  t = await startOperator({ reconcilers, patienceMs: 100_000, now });
});

afterAll(async () => await t?.close());

describe("a managed Network, from its first day to its last", { timeout: 200_000 }, () => {
  let scratch: string;
  let pods: ControllerPods;
  let port: number;

  beforeAll(async () => {
    scratch = makeScratch("operator-network-life");
    [port = 0] = await freePorts(1);
    pods = new ControllerPods(t.server, scratch);
    await t.apply("Network", "main", managed());
    await t.ready("Network", "main");
  }, 300_000);

  afterAll(async () => {
    await pods?.close();
    if (scratch !== undefined) removeScratch(scratch);
  }, 60_000);

  const managed = (changes: object = {}) => ({
    external: null,
    managed: { port, exposure: { type: "ClusterIP", hostname: "localhost" }, ...changes },
  });

  /** The Management API as the first administrator. */
  async function asAdmin<T>(use: (client: ReturnType<typeof createClient<"management">>) => Promise<T>): Promise<T> {
    const admin = find(KINDS.Secret, "main-admin");
    const ca = find(KINDS.ConfigMap, "main-ca")?.data?.["ca.crt"] ?? "";
    const client = createClient("management", { baseUrl: `https://localhost:${port}`, ca });
    try {
      const body = { username: text(admin, "username"), password: text(admin, "password") };
      client.setToken((await client.authenticate({ query: { method: "password" }, body })).data.token);
      return await use(client);
    } finally {
      client.close();
    }
  }

  test("the first administrator's Secret opens it, with the bundle in its ConfigMap", async () => {
    const { data } = await asAdmin((client) => client.listIdentities({}));
    expect(data.map(({ name }) => name).sort()).toEqual(["Default Admin", "Sallyport operator of default/main"]);
  });

  test("the operator renews its certificate in time", async () => {
    const before = text(find(KINDS.Secret, "main-operator"), "tls.crt");
    ahead = 350 * 86_400_000;
    t.operator.loops.lookAtAll();
    await t.until("Network", "main", () => text(find(KINDS.Secret, "main-operator"), "tls.crt") !== before);
    ahead = 0;
    await t.settled();
    t.operator.loops.lookAtAll();
    await t.settled();
    await t.ready("Network", "main");
    const { data } = await asAdmin((client) => client.listIdentities({}));
    expect(data).toHaveLength(2);
    expect(await t.writesOfAnotherLook()).toEqual([]);
  });

  test("an operator that dies before it confirms its new certificate gets in with it, without the first password, and confirms it", async () => {
    const secret = find(KINDS.Secret, "main-operator");
    const admin = find(KINDS.Secret, "main-admin");
    const [cert, key] = [text(secret, "tls.crt"), text(secret, "tls.key")];
    const as = async <T>(
      certificate: string,
      use: (client: ReturnType<typeof createClient<"management">>) => Promise<T>,
    ) => {
      const ca = find(KINDS.ConfigMap, "main-ca")?.data?.["ca.crt"] ?? "";
      const client = createClient("management", { baseUrl: `https://localhost:${port}`, ca, cert: certificate, key });
      try {
        client.setToken((await client.authenticate({ query: { method: "cert" }, body: {} })).data.token);
        return await use(client);
      } finally {
        client.close();
      }
    };
    const next = await as(cert, async (client) => {
      const { id = "" } = (await client.listCurrentIdentityAuthenticators({})).data[0] ?? {};
      const clientCertCsr = await createCsr({ commonName: id, keyPem: key });
      const params = { id };
      return (await client.extendCurrentIdentityAuthenticator({ params, body: { clientCertCsr, overlap: true } })).data
        .clientCert;
    });
    t.server.remove({ kind: KINDS.Secret, namespace: "default", name: "main-admin" });
    t.server.change(
      { kind: KINDS.Secret, namespace: "default", name: "main-operator" },
      {
        metadata: { annotations: { "sallyport.dev/certificate-pending": "true" } },
        data: { "tls.crt": Buffer.from(next ?? "").toString("base64") },
      },
    );
    const isConfirmed = () =>
      find(KINDS.Secret, "main-operator")?.metadata.annotations?.["sallyport.dev/certificate-pending"] === "false";
    t.operator.loops.lookAtAll();
    await expect.poll(isConfirmed, { timeout: 60_000 }).toBe(true);
    await t.ready("Network", "main");
    expect(text(find(KINDS.Secret, "main-operator"), "tls.crt")).toBe(next);
    expect(await as(next ?? "", async () => "in")).toBe("in");
    await expect(as(cert, async () => "in")).rejects.toMatchObject({ status: 401 });
    if (admin !== undefined) t.server.put(KINDS.Secret, admin);
    await t.settled();
    expect(await t.writesOfAnotherLook()).toEqual([]);
  });

  test("an operator whose identity was deleted makes itself another one", async () => {
    const before = text(find(KINDS.Secret, "main-operator"), "tls.crt");
    await asAdmin(async (client) => {
      const { data } = await client.listIdentities({});
      const own = data.find(({ name }) => name.startsWith("Sallyport operator"));
      await client.deleteIdentity({ params: { id: own?.id ?? "" } });
    });
    t.operator.loops.lookAtAll();
    await t.until("Network", "main", () => text(find(KINDS.Secret, "main-operator"), "tls.crt") !== before);
    await t.ready("Network", "main");
  });

  test("is used by an operator that is started anew while its spec holds a mistake", async () => {
    const ref = { namespace: "default", name: "main" };
    const { networks, loops } = t.operator;
    await t.apply("Network", "main", managed({ config: { overrides: { nonsense: 1 } } }));
    await t.ready("Network", "main", "False", "InvalidConfig");
    // As after a start: it knows of no connection.
    await networks.remove(ref);
    expect(() => networks.forNetwork(ref)).toThrow();
    loops.lookAtAll();
    await expect
      .poll(async () => (await networks.forNetwork(ref).client.getCurrentIdentity({})).data.name, { timeout: 30_000 })
      .toBe("Sallyport operator of default/main");
    await t.ready("Network", "main", "False", "InvalidConfig");
    await t.apply("Network", "main", managed());
    await t.ready("Network", "main");
  });

  test("is used by an operator that is started anew while the API server refuses what its spec asks for", async () => {
    const ref = { namespace: "default", name: "main" };
    const { networks, loops } = t.operator;
    const message = "spec.template.spec.affinity: Invalid value";
    const fault = { kind: "status", code: 422, reason: "Invalid", message } as const;
    const mend = t.server.inject({ method: "PATCH", path: "/statefulsets/main-controller", times: 1_000, fault });
    const file = find(KINDS.ConfigMap, "main-controller")?.data;
    const template = { spec: { affinity: { nodeAffinity: {} } } };
    await t.apply("Network", "main", managed({ template, config: { overrides: { log: { level: "debug" } } } }));
    const refused = await t.ready("Network", "main", "False", "ObjectRefused");
    expect(conditionOf(refused.status.conditions, "Stalled")?.message).toContain(message);
    // Nothing of such a spec is followed.
    expect(find(KINDS.ConfigMap, "main-controller")?.data).toEqual(file);
    await networks.remove(ref);
    loops.lookAtAll();
    await expect
      .poll(async () => (await networks.forNetwork(ref).client.getCurrentIdentity({})).data.name, { timeout: 30_000 })
      .toBe("Sallyport operator of default/main");
    mend();
    await t.apply("Network", "main", managed());
    await t.ready("Network", "main");
  });

  test("neither uses nor overwrites a Secret of the name of its own that is somebody else's", async () => {
    const secret = { kind: KINDS.Secret, namespace: "default", name: "main-operator" };
    const own = find(KINDS.Secret, "main-operator");
    const theirs = { metadata: { name: "main-operator", namespace: "default" }, data: { mine: "bWluZQ==" } };
    t.server.remove(secret);
    t.server.put(KINDS.Secret, { apiVersion: "v1", kind: "Secret", ...theirs });
    t.operator.loops.lookAtAll();
    await t.ready("Network", "main", "False", "NameConflict");
    expect(find(KINDS.Secret, "main-operator")?.data).toEqual(theirs.data);
    t.server.remove(secret);
    if (own !== undefined) t.server.put(KINDS.Secret, own);
    await t.ready("Network", "main");
  });

  test("waits with its deletion for what refers to it, keeps its data, and takes it up again", async () => {
    await t.apply("OverlayService", "web", { networkRef: { name: "main" } });
    await t.ready("OverlayService", "web");
    const key = find(KINDS.Secret, "main-controller-key")?.data;
    await t.delete("Network", "main");
    const blocked = await t.until("Network", "main", ({ status }) =>
      Boolean(conditionOf(status.conditions, "DeletionBlocked")),
    );
    expect(conditionOf(blocked.status.conditions, "DeletionBlocked")?.message).toContain("OverlayService web");
    await t.delete("OverlayService", "web");
    await t.gone("OverlayService", "web");
    await t.gone("Network", "main");
    t.server.store.collectGarbage();
    expect(find(KINDS.StatefulSet, "main-controller")).toBeUndefined();
    expect(find(KINDS.ConfigMap, "main-controller")).toBeUndefined();
    for (const name of ["main-controller-key", "main-admin", "main-operator"]) {
      expect(find(KINDS.Secret, name)).toBeDefined();
    }
    expect(find(KINDS.PersistentVolumeClaim, "main-controller-data")).toBeDefined();
    await expect.poll(() => t.events("Network", "main")).toContain("DataRetained");

    await t.apply("Network", "main", managed());
    const again = await t.ready("Network", "main");
    expect(again.status.sessionIdentity).toBe("Sallyport operator of default/main");
    expect(find(KINDS.Secret, "main-controller-key")?.data).toEqual(key);
  });

  test("takes its data with it when that is asked for, but nothing that is the user's", async () => {
    t.server.put(KINDS.Secret, {
      apiVersion: "v1",
      kind: "Secret",
      metadata: { name: "main-admin", namespace: "default" },
      data: {},
    });
    await t.apply("Network", "main", managed({ retention: "Delete" }));
    await t.delete("Network", "main");
    await t.gone("Network", "main");
    t.server.store.collectGarbage();
    for (const name of ["main-controller-key", "main-operator"]) expect(find(KINDS.Secret, name)).toBeUndefined();
    expect(find(KINDS.PersistentVolumeClaim, "main-controller-data")).toBeUndefined();
    expect(find(KINDS.Secret, "main-admin")).toBeDefined();
  });
});

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

  test("a database's URL is read from its Secret, and shown to nobody", async () => {
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
    t.operator.loops.lookAtAll();
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

  test("a volume that somebody has made larger stays so", async () => {
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
