/** Networks on a fake API server with our real controller: one that the operator runs, started from what it rendered, and the same one as an existing network. */
import { freePorts } from "@sallyport/wire/testing/free-ports";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { KINDS, type KubeObject } from "../../operator/src/kube/kinds.ts";
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

const CONTROLLER = { namespace: "default", name: "main-controller" };
/** Starts of programs on a busy machine. */
const PATIENCE_MS = 120_000;

let scratch: string;
let t: TestOperator;
let pods: ControllerPods;
let port: number;

const secret = (name: string) => t.server.read<Holder>({ kind: KINDS.Secret, namespace: "default", name });
const configMap = (name: string) => t.server.read<Holder>({ kind: KINDS.ConfigMap, namespace: "default", name });
const text = (holder: Holder | undefined, key: string): string =>
  Buffer.from(holder?.data?.[key] ?? "", "base64").toString();
const times = { refusedLoginMs: 300, limitedMs: 100 };
const reconcilers = [
  networkReconciler({ controllerImage: "sallyport/controller:test", reach: "advertised", times }),
  overlayServiceReconciler,
] as unknown as KindReconciler[];

const managed = (changes: object = {}) => ({
  external: null,
  managed: { port, exposure: { type: "ClusterIP", hostname: "localhost" }, ...changes },
});

beforeAll(async () => {
  scratch = makeScratch("operator-network");
  [port = 0] = await freePorts(1);
  t = await startOperator({ reconcilers, patienceMs: PATIENCE_MS });
  pods = new ControllerPods(t.server, scratch);
  await t.apply("Network", "main", managed());
  await t.ready("Network", "main");
}, 300_000);

afterAll(async () => {
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
    expect(configMap("main-ca")?.data?.["ca.crt"]).toMatch(/^-----BEGIN CERTIFICATE-----/);
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

  test("goes on when the first administrator's password is taken away, and when the pod is away for a while", async () => {
    t.server.remove({ kind: KINDS.Secret, namespace: "default", name: "main-admin" });
    await pods.kill(CONTROLLER);
    await t.ready("Network", "main", "False", "ControllerStarting");
    await pods.start(CONTROLLER);
    await t.ready("Network", "main");
    expect(secret("main-admin")).toBeUndefined();
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
});
