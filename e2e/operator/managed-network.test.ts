/**
 * A Network that the operator runs, from its first day to its last: a fake API server on one side, our real controller on the other, started from what was
 * rendered.
 */
import { createClient } from "@sallyport/api";
import { createCsr } from "@sallyport/wire";
import { freePorts } from "@sallyport/wire/testing/free-ports";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { networkReconciler } from "../../operator/src/kinds/network/reconcile.ts";
import { overlayServiceReconciler } from "../../operator/src/kinds/overlay-service/reconcile.ts";
import { conditionOf } from "../../operator/src/kube/conditions.ts";
import { KINDS, type KubeObject, type ResourceKind } from "../../operator/src/kube/kinds.ts";
import type { KindReconciler } from "../../operator/src/loop/kind-reconciler.ts";
import { startOperator, type TestOperator } from "../../operator/src/testing/start-operator.ts";
import { loginOfRun } from "../network/login/logins.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";
import { ControllerPods } from "./controller-pods.ts";
import { resolveServices } from "./service-names.ts";

interface Holder extends KubeObject {
  readonly data?: Readonly<Record<string, string>>;
}

const CONTROLLER = { namespace: "default", name: "main-controller" };
/** Starts of programs on a busy machine. */
const PATIENCE_MS = 120_000;
const DAY = 86_400_000;

let scratch: string;
let t: TestOperator;
let pods: ControllerPods;
let port: number;
/** Milliseconds by which the operator's clock is ahead. */
let ahead = 0;

const find = <T extends KubeObject = Holder>(kind: ResourceKind, name: string) =>
  t.server.read<T>({ kind, namespace: "default", name });
const secret = (name: string) => find(KINDS.Secret, name);
const text = (holder: Holder | undefined, key: string): string =>
  Buffer.from(holder?.data?.[key] ?? "", "base64").toString();
const times = { refusedLoginMs: 300, limitedMs: 100 };
const reconcilers = [
  networkReconciler({ controllerImage: "sallyport/controller:test", times }),
  overlayServiceReconciler,
] as unknown as KindReconciler[];

const managed = (changes: object = {}) => ({
  external: null,
  managed: {
    port,
    exposure: { type: "ClusterIP", hostname: "localhost" },
    oidc: { enabled: loginOfRun() === "oidc" },
    ...changes,
  },
});

type Management = ReturnType<typeof createClient<"management">>;

/** The Management API, with whatever the client logs in with. */
async function within<T>(
  o: { cert: string; key: string } | undefined,
  use: (client: Management) => Promise<T>,
): Promise<T> {
  const ca = find(KINDS.ConfigMap, "main-ca")?.data?.["ca.crt"] ?? "";
  const client = createClient("management", { baseUrl: `https://localhost:${port}`, ca, ...o });
  try {
    const admin = secret("main-admin");
    const body = o === undefined ? { username: text(admin, "username"), password: text(admin, "password") } : {};
    const method = o === undefined ? "password" : "cert";
    client.setToken((await client.authenticate({ query: { method }, body })).data.token);
    return await use(client);
  } finally {
    client.close();
  }
}
const asAdmin = <T>(use: (client: Management) => Promise<T>) => within(undefined, use);

beforeAll(async () => {
  resolveServices();
  scratch = makeScratch("operator-network");
  [port = 0] = await freePorts(1);
  t = await startOperator({ reconcilers, patienceMs: PATIENCE_MS, now: () => new Date(Date.now() + ahead) });
  pods = new ControllerPods(t.server, scratch);
  await t.apply("Network", "main", managed());
  await t.ready("Network", "main");
}, 300_000);

afterAll(async () => {
  vi.restoreAllMocks();
  await t?.close();
  await pods?.close();
  if (scratch !== undefined) removeScratch(scratch);
}, 60_000);

describe("a Network that the operator runs", { timeout: 200_000 }, () => {
  test("comes up from nothing: objects, controller, an administrator of the operator's own", async () => {
    const network = t.read("Network", "main");
    expect(network?.status).toMatchObject({
      serverVersion: "v1.6.20",
      endpoints: [`https://localhost:${port}/edge/management/v1`],
      adminSecretName: "main-admin",
      sessionIdentity: "Sallyport operator of default/main",
      configHash: expect.stringMatching(/^[0-9a-f]{16}$/),
      controllers: [{ name: "main-controller", ctrlAddress: `tls:localhost:${port}`, online: true }],
    });
    expect(network?.status.conditions?.map(({ type, status }) => `${type}=${status}`)).toEqual([
      "Deployed=True",
      "Available=True",
      "Connected=True",
      "VersionSupported=True",
      "Authenticated=True",
      "Ready=True",
    ]);
    expect(Buffer.from(text(secret("main-controller-key"), "secret.key"), "base64")).toHaveLength(32);
    expect(find(KINDS.ConfigMap, "main-ca")?.data?.["ca.crt"]).toMatch(/^-----BEGIN CERTIFICATE-----/);
    await expect
      .poll(() => t.events("Network", "main"))
      .toEqual(expect.arrayContaining(["SecretKeyMade", "AdminMade", "OperatorEnrolled"]));
  });

  test("serves its resources", async () => {
    await t.apply("OverlayService", "web", { networkRef: { name: "main" } });
    const service = await t.ready("OverlayService", "web");
    expect(service.status.id).toMatch(/^\S+$/);
  });

  test("another look writes nothing", async () => {
    expect(await t.writesOfAnotherLook()).toEqual([]);
  });

  test("no secret is in logs, events, status or ConfigMaps", () => {
    const password = text(secret("main-admin"), "password");
    const key = text(secret("main-controller-key"), "secret.key");
    expect(password.length).toBeGreaterThan(20);
    const told = t.server.requests
      .filter(({ path }) => !path.includes("/secrets"))
      .map(({ body }) => JSON.stringify(body ?? ""))
      .join("\n");
    for (const place of [t.logged(), told, pods.printed.join("\n")]) {
      expect(place).not.toContain(password);
      expect(place).not.toContain(key);
      expect(place).not.toContain("PRIVATE KEY");
    }
  });

  test("is one that exists to others: by its bundle and its Secrets", async () => {
    const external = (auth: object) => ({
      external: {
        endpoints: [`https://localhost:${port}/edge/management/v1`],
        caBundle: { configMapRef: { name: "main-ca", key: "ca.crt" } },
        auth: { certificateSecretRef: null, ...auth },
      },
    });
    await t.apply("Network", "password", external({ passwordSecretRef: { name: "main-admin" } }));
    await t.apply("Network", "certificate", external({ certificateSecretRef: { name: "main-operator" } }));
    expect((await t.ready("Network", "password")).status.sessionIdentity).toBe("Default Admin");
    expect((await t.ready("Network", "certificate")).status.sessionIdentity).toMatch(/^Sallyport operator/);
    for (const name of ["password", "certificate"]) {
      await t.delete("Network", name);
      await t.gone("Network", name);
    }
  });

  test("puts right what others change in its objects", async () => {
    for (const [kind, name, change] of [
      [KINDS.Service, "main-controller", { spec: { selector: { "app.kubernetes.io/name": "stolen" } } }],
      [KINDS.ConfigMap, "main-ca", { data: { "ca.crt": "nothing" } }],
    ] as const) {
      const content = () => {
        const { metadata: _, ...rest } = find(kind, name) as Holder;
        return rest;
      };
      const before = content();
      t.server.change({ kind, namespace: "default", name }, change);
      expect(content()).not.toEqual(before);
      await expect.poll(content).toEqual(before);
    }
  });

  test("is restarted when that is asked for, once", async () => {
    const before = pods.starts;
    await t.annotate("Network", "main", { "sallyport.dev/restart-requested-at": "today" });
    await t.until("Network", "main", ({ status }) => status.lastHandledRestart === "today");
    await t.ready("Network", "main");
    await t.settled();
    expect(pods.starts).toBe(before + 1);
  });

  test("a change of the file restarts the controller once, a mistake in it nothing", async () => {
    const before = { starts: pods.starts, hash: t.read("Network", "main")?.status.configHash };
    await t.apply("Network", "main", managed({ config: { overrides: { network: { cycleSeconds: 0 } } } }));
    const stalled = await t.ready("Network", "main", "False", "InvalidConfig");
    expect(conditionOf(stalled.status.conditions, "Stalled")?.message).toContain("overrides.network.cycleSeconds");
    await t.apply("Network", "main", managed({ config: { overrides: { api: { bind: ":1" } } } }));
    await t.until("Network", "main", ({ status }) =>
      /overrides\.api\.bind: the operator decides/.test(conditionOf(status.conditions, "Ready")?.message ?? ""),
    );
    expect(pods.starts).toBe(before.starts);
    await t.apply("Network", "main", managed({ config: { overrides: { network: { cycleSeconds: 30 } } } }));
    const changed = await t.until(
      "Network",
      "main",
      ({ metadata, status }) =>
        status.configHash !== before.hash &&
        status.observedGeneration === metadata.generation &&
        conditionOf(status.conditions, "Ready")?.status === "True",
    );
    expect(changed.status.configHash).toMatch(/^[0-9a-f]{16}$/);
    expect(pods.starts).toBe(before.starts + 1);
    expect(await t.writesOfAnotherLook()).toEqual([]);
  });

  test("says that its pod is away, and goes on when that is back", async () => {
    await pods.kill(CONTROLLER);
    await t.ready("Network", "main", "False", "ControllerStarting");
    await pods.start(CONTROLLER);
    await t.ready("Network", "main");
  });

  test("is never given another key", async () => {
    const key = secret("main-controller-key");
    t.server.remove({ kind: KINDS.Secret, namespace: "default", name: "main-controller-key" });
    const lost = await t.ready("Network", "main", "False", "SecretKeyLost");
    expect(conditionOf(lost.status.conditions, "Stalled")?.message).toContain("restore the Secret");
    expect(secret("main-controller-key")).toBeUndefined();
    t.server.put(KINDS.Secret, key as KubeObject);
    await t.ready("Network", "main");
  });

  test("the operator renews its certificate in time", async () => {
    const before = text(secret("main-operator"), "tls.crt");
    ahead = 350 * DAY;
    t.operator.loops.resync();
    await t.until("Network", "main", () => text(secret("main-operator"), "tls.crt") !== before);
    ahead = 0;
    await t.settled();
    t.operator.loops.resync();
    await t.settled();
    await t.ready("Network", "main");
    const { data } = await asAdmin((client) => client.listIdentities({}));
    expect(data.map(({ name }) => name).sort()).toEqual(["Default Admin", "Sallyport operator of default/main"]);
    expect(await t.writesOfAnotherLook()).toEqual([]);
  });

  test("an operator that dies before it confirms its new certificate gets in with it, without the first password, and confirms it", async () => {
    const own = secret("main-operator");
    const admin = secret("main-admin");
    const [cert, key] = [text(own, "tls.crt"), text(own, "tls.key")];
    const as = <T>(certificate: string, use: (client: Management) => Promise<T>) =>
      within({ cert: certificate, key }, use);
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
      secret("main-operator")?.metadata.annotations?.["sallyport.dev/certificate-pending"] === "false";
    t.operator.loops.resync();
    await expect.poll(isConfirmed, { timeout: 60_000 }).toBe(true);
    await t.ready("Network", "main");
    expect(text(secret("main-operator"), "tls.crt")).toBe(next);
    expect(await as(next ?? "", async () => "in")).toBe("in");
    await expect(as(cert, async () => "in")).rejects.toMatchObject({ status: 401 });
    if (admin !== undefined) t.server.put(KINDS.Secret, admin);
    await t.settled();
    expect(await t.writesOfAnotherLook()).toEqual([]);
  });

  test("an operator whose identity was deleted makes itself another one", async () => {
    const before = text(secret("main-operator"), "tls.crt");
    await asAdmin(async (client) => {
      const { data } = await client.listIdentities({});
      const own = data.find(({ name }) => name.startsWith("Sallyport operator"));
      await client.deleteIdentity({ params: { id: own?.id ?? "" } });
    });
    t.operator.loops.resync();
    await t.until("Network", "main", () => text(secret("main-operator"), "tls.crt") !== before);
    await t.ready("Network", "main");
  });

  const mistake = { config: { overrides: { nonsense: 1 } } };
  const refused = {
    template: { spec: { affinity: { nodeAffinity: {} } } },
    config: { overrides: { log: { level: "debug" } } },
  };
  test.each([
    ["its spec holds a mistake", mistake, "InvalidConfig", "overrides.nonsense"],
    ["the API server refuses what its spec asks for", refused, "ObjectRefused", "spec.affinity: Invalid value"],
  ])("is used by an operator that restarts while %s", async (_what, spec, reason, message) => {
    const ref = { namespace: "default", name: "main" };
    const { networks, loops } = t.operator;
    const fault = { kind: "status", code: 422, reason: "Invalid", message } as const;
    const isRefused = reason === "ObjectRefused";
    const rule = { method: "PATCH", path: "/statefulsets/main-controller", times: isRefused ? 1_000 : 0, fault };
    const repair = t.server.inject(rule);
    const file = find(KINDS.ConfigMap, "main-controller")?.data;
    await t.apply("Network", "main", managed(spec));
    const { status } = await t.ready("Network", "main", "False", reason);
    expect(conditionOf(status.conditions, "Stalled")?.message).toContain(message);
    // Nothing of such a spec is followed.
    expect(find(KINDS.ConfigMap, "main-controller")?.data).toEqual(file);
    // As after a start: it knows of no connection.
    await networks.remove(ref);
    expect(() => networks.forNetwork(ref)).toThrow();
    loops.resync();
    await expect
      .poll(async () => (await networks.forNetwork(ref).client.getCurrentIdentity({})).data.name, { timeout: 30_000 })
      .toBe("Sallyport operator of default/main");
    await t.ready("Network", "main", "False", reason);
    await t.apply("Network", "main", managed());
    repair();
    loops.resync();
    await t.ready("Network", "main");
  });

  test("neither uses nor overwrites a Secret of another owner that has the name of its own", async () => {
    const ref = { kind: KINDS.Secret, namespace: "default", name: "main-operator" };
    const own = secret("main-operator");
    const theirs = { metadata: { name: "main-operator", namespace: "default" }, data: { mine: "bWluZQ==" } };
    t.server.remove(ref);
    t.server.put(KINDS.Secret, { apiVersion: "v1", kind: "Secret", ...theirs });
    t.operator.loops.resync();
    await t.ready("Network", "main", "False", "NameConflict");
    expect(secret("main-operator")?.data).toEqual(theirs.data);
    t.server.remove(ref);
    if (own !== undefined) t.server.put(KINDS.Secret, own);
    await t.ready("Network", "main");
  });

  test("waits with its deletion for what refers to it, keeps its data, and takes it up again", async () => {
    await t.apply("OverlayService", "web", { networkRef: { name: "main" } });
    await t.ready("OverlayService", "web");
    const key = secret("main-controller-key")?.data;
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
      expect(secret(name)).toBeDefined();
    }
    expect(find(KINDS.PersistentVolumeClaim, "main-controller-data")).toBeDefined();
    await expect.poll(() => t.events("Network", "main")).toContain("DataRetained");

    await t.apply("Network", "main", managed());
    const again = await t.ready("Network", "main");
    expect(again.status.sessionIdentity).toBe("Sallyport operator of default/main");
    expect(secret("main-controller-key")?.data).toEqual(key);
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
    for (const name of ["main-controller-key", "main-operator"]) expect(secret(name)).toBeUndefined();
    expect(find(KINDS.PersistentVolumeClaim, "main-controller-data")).toBeUndefined();
    expect(secret("main-admin")).toBeDefined();
  });
});
