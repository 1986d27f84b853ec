/** What an operator and its routers go through when the API server or etcd is away; and that at rest nothing is written. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { freePort } from "@sallyport/wire/testing/free-ports";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { KINDS as KUBE, type KubeObject } from "../../../operator/src/kube/kinds.ts";
import { KINDS as RESOURCES } from "../../../packages/resources/src/group.ts";
import type { RouterStatus } from "../../../packages/resources/src/kinds/edge-router/schema.ts";
import { eventually } from "../../network/eventually.ts";
import { type Network, startNetwork } from "../../network/network.ts";
import { ClusterRouterPods } from "../../operator/cluster-router-pods.ts";
import { hasCluster } from "../tools.ts";
import { type Found, healthy, KUBERNETES_WRITES, NETWORK_WRITES, PATIENCE_MS, type Running, Scene } from "./scene.ts";

const NAMESPACE = "overlay";
/** So that every resource is looked at again and again. */
const RESYNC = "3s";

describe.skipIf(!hasCluster)("an operator with routers", { timeout: 300_000 }, () => {
  let scene: Scene;
  let network: Network;
  let pods: ClusterRouterPods;
  let operator: Running;

  beforeAll(async () => {
    scene = await Scene.open();
    network = await startNetwork(join(scene.folder, "network"));
    for (const name of ["r1", "r2"]) await network.stopProgram(name);
    pods = new ClusterRouterPods(scene.client, join(scene.folder, "pods"));
    const ca = readFileSync(join(network.folder, "r1.ca"), "utf8");
    await scene.place(NAMESPACE, { port: network.port, ca, password: network.adminPassword });
    operator = await scene.run("operator", { env: { SALLYPORT_RESYNC: RESYNC } });
    await declareEachKind();
  });
  afterAll(async () => {
    await scene?.stopAll();
    await pods?.close();
    await network?.stop();
    await scene?.close();
  });

  const declare = (kind: string, name: string, spec: object = {}): Promise<Found> =>
    scene.declare(NAMESPACE, kind, name, spec as Readonly<Record<string, unknown>>);
  const ready = (kind: string, name: string, status?: string, reason?: string): Promise<Found> =>
    scene.ready(NAMESPACE, kind, name, status, reason);
  const EACH: readonly (readonly [kind: string, name: string])[] = [
    ["Network", "main"],
    ["ServiceConfig", "host"],
    ["OverlayService", "web"],
    ["Identity", "device"],
    ["Identity", "workload"],
    ["ServicePolicy", "dial"],
    ["EdgeRouterPolicy", "everyone"],
    ["ServiceEdgeRouterPolicy", "everywhere"],
    ["AuthPolicy", "strict"],
    ["PostureCheck", "mfa"],
    ["EdgeRouter", "eu"],
  ];
  const SECRET = { apiVersion: "v1", kind: "Secret", metadata: { name: "address", namespace: NAMESPACE } };

  async function declareEachKind(): Promise<void> {
    await scene.client.create({ ...SECRET, stringData: { "host.json": hostConfig(80) } } as KubeObject);
    await declare("ServiceConfig", "host", {
      data: null,
      dataFrom: { secretRef: { name: "address", key: "host.json" } },
    });
    await declare("OverlayService", "web", { configRefs: [{ name: "host" }], roleAttributes: ["web"] });
    await declare("Identity", "device");
    await declare("Identity", "workload", { enrollment: { output: "IdentitySecret" }, roleAttributes: ["clients"] });
    await declare("ServicePolicy", "dial", { serviceRefs: [{ name: "web" }], identityRoles: ["#clients"] });
    await declare("EdgeRouterPolicy", "everyone", { edgeRouterRoles: ["#all"], identityRoles: ["#all"] });
    await declare("ServiceEdgeRouterPolicy", "everywhere", { edgeRouterRoles: ["#all"], serviceRoles: ["#all"] });
    await declare("AuthPolicy", "strict");
    await declare("PostureCheck", "mfa");
    const port = await freePort();
    await declare("EdgeRouter", "eu", {
      edge: { port },
      exposure: { type: "LoadBalancer", hostname: "localhost" },
      drainSeconds: 1,
    });
    await everythingReady();
  }
  const hostConfig = (port: number): string => JSON.stringify({ protocol: "tcp", address: "localhost", port });
  async function everythingReady(): Promise<void> {
    for (const [kind, name] of EACH) expect(healthy(await ready(kind, name)), `${kind} ${name}`).toBe("Current");
    await eventually("the router is online", async () => (await routers())[0]?.online === true, PATIENCE_MS);
  }
  const routers = async (): Promise<readonly RouterStatus[]> =>
    ((await scene.read(NAMESPACE, "EdgeRouter", "eu"))?.status.routers ?? []) as readonly RouterStatus[];
  const writes = async (): Promise<number> =>
    (await operator.count(KUBERNETES_WRITES)) + (await operator.count(NETWORK_WRITES));
  const looks = (): Promise<number> => operator.count(/^controller_runtime_reconcile_total/);
  const updated = async (): Promise<unknown> => {
    const { management } = network;
    const query = {};
    const lists = await Promise.all([
      management.listServices({ query }),
      management.listConfigs({ query }),
      management.listIdentities({ query }),
      management.listServicePolicies({ query }),
      management.listEdgeRouterPolicies({ query }),
      management.listServiceEdgeRouterPolicies({ query }),
      management.listAuthPolicies({ query }),
      management.listPostureChecks({ query }),
      management.listEdgeRouters({ query }),
    ]);
    return lists
      .flatMap(({ data }) => data as readonly unknown[])
      .map((entity) => {
        const { id, name, updatedAt } = entity as { id: string; name: string; updatedAt: Date };
        return { id, name, updatedAt };
      });
  };
  /** All pending writes of all clients are done. */
  const atRest = async (): Promise<void> => {
    let last = await scene.versions(NAMESPACE);
    await eventually("nothing changes any more", async () => {
      await delay(1_000);
      const now = await scene.versions(NAMESPACE);
      const isSame = JSON.stringify(now) === JSON.stringify(last);
      last = now;
      return isSame;
    });
  };
  /** Until everything was looked at so often. */
  async function lookedAt(times: number): Promise<void> {
    const enough = (await looks()) + EACH.length * times;
    await eventually("everything is looked at", async () => (await looks()) >= enough, PATIENCE_MS);
  }
  /** The operator reconciles everything several times, and no client writes. */
  async function expectRest(): Promise<void> {
    // What a policy selects may have come after it: that is counted when it is looked at again.
    await lookedAt(2);
    await atRest();
    const before = { versions: await scene.versions(NAMESPACE), entities: await updated(), writes: await writes() };
    await lookedAt(3);
    expect({ versions: await scene.versions(NAMESPACE), entities: await updated(), writes: await writes() }).toEqual(
      before,
    );
  }

  test("at rest nothing is written, neither here nor there; nor by another process that finds everything made", async () => {
    await expectRest();
    const before = { versions: await scene.versions(NAMESPACE), entities: await updated() };
    await scene.stopAll();
    operator = await scene.run("second", { env: { SALLYPORT_RESYNC: RESYNC } });
    await lookedAt(3);
    expect({ versions: await scene.versions(NAMESPACE), entities: await updated() }).toEqual(before);
    expect(await writes()).toBe(0);
  });

  test("whose watches are cut while the API server forgets its history sees all that it missed", async () => {
    const web = await ready("OverlayService", "web");
    await declare("OverlayService", "late");
    await ready("OverlayService", "late");
    operator.program.signal("SIGSTOP");
    await declare("OverlayService", "missed");
    await declare("OverlayService", "web", { configRefs: [{ name: "host" }], roleAttributes: ["missed"] });
    await scene.delete(NAMESPACE, "OverlayService", "late");
    await scene.client.delete({ kind: KUBE.ConfigMap, namespace: NAMESPACE, name: "eu-0-config" });
    await scene.client.delete({ kind: KUBE.Service, namespace: NAMESPACE, name: "eu-0-edge" });
    await scene.client.patch(
      { kind: KUBE.Secret, namespace: NAMESPACE, name: "address" },
      { stringData: { "host.json": hostConfig(81) } },
    );
    await scene.cluster.stopComponent("kube-apiserver");
    await scene.cluster.compact();
    await scene.cluster.startComponent("kube-apiserver");
    await apiServerReady();
    const relisted = operator.program.nextLine(/the watch is too old; listing again/);
    operator.program.signal("SIGCONT");
    await relisted;
    await ready("OverlayService", "missed");
    await scene.gone(NAMESPACE, "OverlayService", "late");
    await ready("OverlayService", "web");
    const { data } = await network.management.detailService({ params: { id: String(web.status.id) } });
    expect(data.roleAttributes).toEqual(["missed"]);
    const config = await ready("ServiceConfig", "host");
    await eventually(
      "the config has the new port",
      async () => {
        const found = await network.management.detailConfig({ params: { id: String(config.status.id) } });
        return (found.data.data as { port: number }).port === 81;
      },
      PATIENCE_MS,
    );
    for (const [kind, name] of [
      [KUBE.ConfigMap, "eu-0-config"],
      [KUBE.Service, "eu-0-edge"],
    ] as const) {
      await eventually(
        `${name} is back`,
        async () => await scene.client.get({ kind, namespace: NAMESPACE, name }),
        PATIENCE_MS,
      );
    }
    await everythingReady();
    expect(pods.starts.get(`${NAMESPACE}/eu-0-0`)).toBe(1);
    await expectRest();
  });

  test("goes on when the API server is killed, and when etcd is", async () => {
    await atRest();
    const before = await scene.versions(NAMESPACE);
    for (const component of ["kube-apiserver", "etcd"]) {
      const cut = operator.program.nextLine(/list or watch failed/);
      cut.catch(() => {});
      await scene.cluster.stopComponent(component);
      // Without etcd the API server answers what it remembers, and keeps its watches.
      if (component === "kube-apiserver") await cut;
      // It looks once a second.
      else await eventually("the API server misses etcd", async () => (await askApiServer()).code === 1);
      await scene.cluster.startComponent(component);
      await apiServerReady();
      await declare("OverlayService", `after-${component}`);
      await ready("OverlayService", `after-${component}`);
      await scene.delete(NAMESPACE, "OverlayService", `after-${component}`);
      await scene.gone(NAMESPACE, "OverlayService", `after-${component}`);
    }
    expect(operator.program.isRunning).toBe(true);
    await atRest();
    expect(await scene.versions(NAMESPACE)).toEqual(before);
    expect(pods.starts.get(`${NAMESPACE}/eu-0-0`)).toBe(1);
    // After some failures in a row a watch waits longer.
    await operator.ready(PATIENCE_MS);
  });

  test("shows no secret in all of this: not in logs, events, resources or ConfigMaps", async () => {
    const logs = ["operator", "second"].map((name) => readFileSync(join(scene.folder, `${name}.log`), "utf8"));
    const shown = await Promise.all(
      [...RESOURCES, KUBE.Event, KUBE.ConfigMap].map((kind) => scene.client.list<KubeObject>(kind, NAMESPACE)),
    );
    const told = [...logs, ...shown.flatMap(({ items }) => items.map((item) => JSON.stringify(item)))].join("\n");
    expect(told).toContain("the watch is too old; listing again");
    expect(told).not.toContain(network.adminPassword);
    expect(told).not.toMatch(/PRIVATE KEY|eyJ[A-Za-z0-9_-]{20,}\.eyJ/);
  });

  const askApiServer = async () => await scene.cluster.attempt(["get", "--raw", "/readyz"]);
  async function apiServerReady(): Promise<void> {
    await eventually("the API server is ready", async () => (await askApiServer()).stdout === "ok", PATIENCE_MS);
  }
});
