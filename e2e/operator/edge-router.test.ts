/** EdgeRouters on a fake API server: our real controller on one side, real routers started from what is rendered on the other. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { freePort } from "@sallyport/wire/testing/free-ports";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { FoundStatefulSet } from "../../operator/src/children/workload.ts";
import { NetworkNotReadyError } from "../../operator/src/controller-client/errors.ts";
import { edgeRouterReconciler } from "../../operator/src/kinds/edge-router/reconcile.ts";
import { healthOf, type Judged } from "../../operator/src/kube/conditions.ts";
import { KINDS, type KubeObject } from "../../operator/src/kube/kinds.ts";
import type { KindReconciler } from "../../operator/src/loop/kind-reconciler.ts";
import { startOperator, type TestOperator } from "../../operator/src/testing/start-operator.ts";
import type { RouterStatus } from "../../packages/resources/src/kinds/edge-router/schema.ts";
import { eventually } from "../network/eventually.ts";
import { type Network, startNetwork } from "../network/network.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";
import { RouterPods } from "./router-pods.ts";

const PATIENCE_MS = 60_000;
let folder: string;
let network: Network;
let ca: string;
let operator: TestOperator;
let pods: RouterPods;
let runs = 0;

beforeAll(async () => {
  folder = makeScratch("operator-routers");
  network = await startNetwork(join(folder, "network"));
  for (const name of ["r1", "r2"]) await network.stopProgram(name);
  ca = readFileSync(join(folder, "network", "r1.ca"), "utf8");
}, 240_000);
afterEach(async () => {
  // First the operator, which would create again what it misses.
  await operator?.close();
  await pods?.close();
  // Names are those of the whole network.
  for (const { id, name } of (await network.management.listEdgeRouters({ query: {} })).data) {
    if (/^(eu|taker)-/.test(name)) await network.management.deleteEdgeRouter({ params: { id } });
  }
});
afterAll(async () => {
  await network?.stop();
  if (folder !== undefined) removeScratch(folder);
});

async function start(): Promise<void> {
  operator = await startOperator({
    networks: { main: { endpoint: `https://localhost:${network.port}`, ca, password: network.adminPassword } },
    reconcilers: [edgeRouterReconciler({ image: "sallyport/router:test" }) as unknown as KindReconciler],
    patienceMs: PATIENCE_MS,
  });
  pods = new RouterPods(operator.server, join(folder, `pods-${++runs}`));
}

const routersOf = (resource: { status: object } | undefined) =>
  (resource?.status as { routers?: RouterStatus[] })?.routers ?? [];
const entity = async (id: string | undefined) =>
  (await network.management.detailEdgeRouter({ params: { id: id ?? "" } })).data;
const read = <T extends KubeObject>(kind: (typeof KINDS)[keyof typeof KINDS], name: string) =>
  operator.server.read<T>({ kind, namespace: "default", name });
const currentSpec = () => (operator.read("EdgeRouter", "eu")?.spec ?? {}) as Record<string, unknown>;
/** A router that SDKs on this machine could dial. */
const reachable = async () => {
  const port = await freePort();
  return { edge: { port }, exposure: { type: "LoadBalancer", hostname: "localhost" }, drainSeconds: 1 };
};

describe("an EdgeRouter", { timeout: 180_000 }, () => {
  test("becomes an entity, is enrolled and online by its rendered file and token, and then nothing is written", async () => {
    await start();
    await operator.apply("EdgeRouter", "eu", { ...(await reachable()), roleAttributes: ["eu"] });
    await operator.ready("EdgeRouter", "eu");
    // It is online before it has the whole data model.
    await expect
      .poll(() => routersOf(operator.read("EdgeRouter", "eu"))[0], { timeout: 60_000 })
      .toMatchObject({
        ordinal: 0,
        name: "eu-0",
        verified: true,
        online: true,
        everOnline: true,
        syncStatus: "SYNC_DONE",
      });
    const ready = await operator.ready("EdgeRouter", "eu");
    const [router] = routersOf(ready);
    expect(ready.status).toMatchObject({ replicas: 1, readyReplicas: 1, onlineReplicas: 1, observedGeneration: 1 });
    expect(healthOf(ready as Judged).health).toBe("Current");
    expect(await entity(router?.id)).toMatchObject({
      name: "eu-0",
      roleAttributes: ["eu"],
      isVerified: true,
      isOnline: true,
      tags: { "sallyport-ordinal": "0", "sallyport-uid": ready.metadata.uid },
    });
    // The token is gone once it was used, and was nowhere but in its Secret.
    expect(read(KINDS.Secret, "eu-0-enrollment")).toBeUndefined();
    expect(operator.logged()).not.toMatch(/eyJ[A-Za-z0-9_-]{20,}\.eyJ/);
    await expect
      .poll(() => operator.events("EdgeRouter", "eu"))
      .toEqual(expect.arrayContaining(["Created", "RouterVerified", "RouterOnline"]));
    expect(await operator.writesOfAnotherLook()).toEqual([]);
    const { updatedAt } = await entity(router?.id);
    expect(await operator.writesOfAnotherLook()).toEqual([]);
    expect((await entity(router?.id)).updatedAt).toBe(updatedAt);

    // What concerns the entity alone restarts nothing.
    await operator.apply("EdgeRouter", "eu", { ...currentSpec(), roleAttributes: ["eu", "public"], cost: 7 });
    await operator.until(
      "EdgeRouter",
      "eu",
      ({ metadata, status }) => metadata.generation === 2 && status.observedGeneration === 2,
    );
    expect(await entity(router?.id)).toMatchObject({ roleAttributes: ["eu", "public"], cost: 7 });
    expect(pods.starts.get("eu-0-0")).toBe(1);

    // What concerns the file restarts it.
    await operator.apply("EdgeRouter", "eu", { ...currentSpec(), metrics: { reportInterval: "30s" } });
    await operator.until(
      "EdgeRouter",
      "eu",
      ({ status }) => status.observedGeneration === 3 && routersOf({ status })[0]?.configHash !== router?.configHash,
    );
    await operator.ready("EdgeRouter", "eu");
    expect(pods.starts.get("eu-0-0")).toBe(2);
    expect(await operator.writesOfAnotherLook()).toEqual([]);

    await operator.delete("EdgeRouter", "eu");
    await operator.gone("EdgeRouter", "eu");
    await expect(entity(router?.id)).rejects.toMatchObject({ status: 404 });
    expect(read(KINDS.StatefulSet, "eu-0")).toBeUndefined();
    expect(read(KINDS.PersistentVolumeClaim, "data-eu-0-0")).toBeUndefined();
  });

  test("are rolled out one at a time, keep running with a file that can't be, and grow and shrink from the end", async () => {
    await start();
    const spec = { replicas: 2, exposure: { type: "None" }, drainSeconds: 1 };
    await operator.apply("EdgeRouter", "eu", spec);
    const [first, second] = routersOf(await operator.ready("EdgeRouter", "eu"));
    expect(read(KINDS.PodDisruptionBudget, "eu")).toMatchObject({ spec: { maxUnavailable: 1 } });

    const broken = { config: { overrides: { forwarder: { linkDialQueLength: 3 } } } };
    await operator.apply("EdgeRouter", "eu", { ...spec, ...broken, replicas: 3, cost: 7 });
    const stalled = await operator.ready("EdgeRouter", "eu", "False", "InvalidConfig");
    expect(healthOf(stalled as Judged)).toMatchObject({
      health: "Failed",
      message: expect.stringMatching(
        /spec\.config\.overrides\.forwarder\.linkDialQueLength: .*perhaps linkDialQueueLength/,
      ),
    });
    await operator.apply("EdgeRouter", "us", { ...spec, ...broken });
    await operator.ready("EdgeRouter", "us", "False", "InvalidConfig");
    // Nothing of such a spec is followed.
    expect([...pods.starts.values()]).toEqual([1, 1]);
    const made = await network.management.listEdgeRouters({
      query: { filter: 'name contains "eu-" or name contains "us-"', sort: "name" },
    });
    expect(made.data.map(({ name, cost }) => [name, cost])).toEqual([
      ["eu-0", 0],
      ["eu-1", 0],
    ]);
    expect(read(KINDS.Service, "us")).toBeUndefined();
    await operator.delete("EdgeRouter", "us");
    await operator.gone("EdgeRouter", "us");

    // What eu-0 looked like when eu-1 was touched.
    const seen: unknown[] = [];
    const stop = operator.server.store.history.onChange(({ object }) => {
      const { kind, metadata } = object as unknown as FoundStatefulSet;
      if (kind !== "StatefulSet" || metadata.name !== "eu-1" || metadata.generation !== 2 || seen.length > 0) return;
      const other = read<FoundStatefulSet>(KINDS.StatefulSet, "eu-0");
      seen.push({ ...other?.status, online: routersOf(operator.read("EdgeRouter", "eu"))[0]?.online });
    });
    await operator.apply("EdgeRouter", "eu", { ...spec, metrics: { reportInterval: "30s" } });
    const done = await operator.until("EdgeRouter", "eu", ({ metadata, status }) => {
      const hashes = new Set(routersOf({ status }).map(({ configHash }) => configHash));
      return (
        status.observedGeneration === metadata.generation &&
        hashes.size === 1 &&
        !hashes.has(first?.configHash) &&
        healthOf({ metadata, status } as Judged).health === "Current"
      );
    });
    stop();
    expect(seen).toEqual([
      expect.objectContaining({ observedGeneration: 2, readyReplicas: 1, online: expect.any(Boolean) }),
    ]);
    expect([...pods.starts.values()]).toEqual([2, 2]);
    expect(routersOf(done).map(({ id }) => id)).toEqual([first?.id, second?.id]);

    await operator.apply("EdgeRouter", "eu", { ...spec, replicas: 1, metrics: { reportInterval: "30s" } });
    await operator.until(
      "EdgeRouter",
      "eu",
      ({ metadata, status }) =>
        routersOf({ status }).length === 1 && healthOf({ metadata, status } as Judged).health === "Current",
    );
    await expect(entity(second?.id)).rejects.toMatchObject({ status: 404 });
    for (const [kind, name] of [
      [KINDS.StatefulSet, "eu-1"],
      [KINDS.ConfigMap, "eu-1-config"],
      [KINDS.PersistentVolumeClaim, "data-eu-1-0"],
      [KINDS.PodDisruptionBudget, "eu"],
    ] as const) {
      expect(read(kind, name), name).toBeUndefined();
    }
    expect(await operator.writesOfAnotherLook()).toEqual([]);
    await operator.apply("EdgeRouter", "eu", { ...spec, metrics: { reportInterval: "30s" } });
    const grown = await operator.until(
      "EdgeRouter",
      "eu",
      ({ metadata, status }) =>
        status.onlineReplicas === 2 && healthOf({ metadata, status } as Judged).health === "Current",
    );
    expect(routersOf(grown)[0]?.id).toBe(first?.id);
    expect(routersOf(grown)[1]?.id).not.toBe(second?.id);
    expect(pods.starts.get("eu-0-0")).toBe(2);
  });

  test("is enrolled again when the annotation asks for it, and when its volume is lost, and keeps its id", async () => {
    await start();
    await operator.apply("EdgeRouter", "eu", { exposure: { type: "None" }, drainSeconds: 1 });
    const [router] = routersOf(await operator.ready("EdgeRouter", "eu"));
    const { fingerprint } = await entity(router?.id);

    await operator.annotate("EdgeRouter", "eu", { "sallyport.dev/re-enroll": "0:now" });
    // The connection of the old certificate may last for a moment.
    const isBack = ({ online, verified }: RouterStatus): boolean => online === true && verified === true;
    await operator.until(
      "EdgeRouter",
      "eu",
      ({ status }) => status.lastHandledReEnroll === "0:now" && routersOf({ status }).some(isBack),
    );
    const renewed = await entity(router?.id);
    expect(renewed).toMatchObject({ isVerified: true, isOnline: true });
    expect(renewed.fingerprint).not.toBe(fingerprint);

    await operator.ready("EdgeRouter", "eu");
    pods.loseVolume("data-eu-0-0");
    operator.server.remove({ kind: KINDS.Pod, namespace: "default", name: "eu-0-0" });
    await eventually(
      "another certificate",
      async () => {
        const found = await entity(router?.id);
        return found.isVerified && found.isOnline && found.fingerprint !== renewed.fingerprint;
      },
      PATIENCE_MS,
    );
    await operator.ready("EdgeRouter", "eu");
    await operator.settled();
    expect(operator.events("EdgeRouter", "eu").filter((reason) => reason === "ReEnrolled")).toHaveLength(2);
    await operator.annotate("EdgeRouter", "eu", { "sallyport.dev/re-enroll": "7:now" });
    await operator.until("EdgeRouter", "eu", ({ status }) => status.lastHandledReEnroll === "7:now");
    expect(await operator.writesOfAnotherLook()).toEqual([]);
    expect(operator.events("EdgeRouter", "eu")).toContain("ReEnrollRefused");
  });

  test("is put back while the controller is away, and nothing that runs is touched", async () => {
    await start();
    await operator.apply("EdgeRouter", "eu", { exposure: { type: "None" }, drainSeconds: 1, replicas: 2 });
    const [first, second] = routersOf(await operator.ready("EdgeRouter", "eu"));
    await operator.settled();
    const ref = { namespace: "default", name: "main" };
    const { networks } = operator.operator;
    networks.suspend(ref, new NetworkNotReadyError("ControllerUnavailable", "away"));
    operator.server.remove({ kind: KINDS.ConfigMap, namespace: "default", name: "eu-0-config" });
    operator.server.remove({ kind: KINDS.StatefulSet, namespace: "default", name: "eu-0" });
    const isBack = () => read<FoundStatefulSet>(KINDS.StatefulSet, "eu-0")?.status?.readyReplicas === 1;
    await eventually("the workload and its pod", async () => isBack(), PATIENCE_MS);
    expect(read(KINDS.ConfigMap, "eu-0-config")).toBeDefined();
    expect(pods.starts.get("eu-1-0")).toBe(1);
    // A change that would restart a router that serves waits for the network.
    await operator.apply("EdgeRouter", "eu", { ...currentSpec(), metrics: { reportInterval: "30s" } });
    await operator.settled();
    expect(pods.starts.get("eu-1-0")).toBe(1);
    networks.use(ref);
    const done = await operator.until("EdgeRouter", "eu", ({ metadata, status }) => {
      const hashes = routersOf({ status }).map(({ configHash }) => configHash);
      return !hashes.includes(first?.configHash) && healthOf({ metadata, status } as Judged).health === "Current";
    });
    expect(routersOf(done).map(({ id }) => id)).toEqual([first?.id, second?.id]);
    await expect.poll(() => operator.events("EdgeRouter", "eu")).toContain("Repaired");
    expect(await operator.writesOfAnotherLook()).toEqual([]);
  });

  test("gets a name into its certificate before it advertises it", async () => {
    await start();
    const spec = await reachable();
    await operator.apply("EdgeRouter", "eu", spec);
    const [before] = routersOf(await operator.ready("EdgeRouter", "eu"));
    expect(before?.advertiseAddress).toBe(`localhost:${spec.edge.port}`);
    const from = operator.server.requests.length;
    await operator.apply("EdgeRouter", "eu", { ...spec, exposure: { ...spec.exposure, hostname: "router.localhost" } });
    await operator.until("EdgeRouter", "eu", ({ metadata, status }) => {
      const [router] = routersOf({ status });
      return (
        router?.advertiseAddress === `router.localhost:${spec.edge.port}` &&
        healthOf({ metadata, status } as Judged).health === "Current"
      );
    });
    const files = operator.server.requests
      .slice(from)
      .flatMap(({ method, path, body }) =>
        method === "PATCH" && path.includes("/configmaps/eu-0-config")
          ? [(body as { data: { "router.yml": string } }).data["router.yml"]]
          : [],
      );
    expect(
      files.map((text) => [
        /advertise: (\w.*)/.exec(text.slice(text.indexOf("listeners:\n  - address")))?.[1],
        text.includes("- router.localhost\n"),
      ]),
    ).toEqual([
      [`localhost:${spec.edge.port}`, true],
      [`router.localhost:${spec.edge.port}`, true],
    ]);
    expect(pods.starts.get("eu-0-0")).toBe(3);
    expect((await entity(before?.id)).id).toBe(before?.id);
  });

  test("is made once, whatever is lost on the way, and takes over one without an owner", async () => {
    await start();
    // One after the other: the finalizer, the id, the token, the file, the pod, the status; before they are done, and after.
    for (const path of [
      "/edgerouters/eu",
      "/secrets/eu-0-enrollment",
      "/configmaps/eu-0-config",
      "/statefulsets/eu-0",
    ]) {
      for (const lost of ["request", "answer"] as const) {
        operator.server.inject({ method: "PATCH", path, fault: { kind: "cut", lost } });
      }
    }
    const spec = { exposure: { type: "None" }, drainSeconds: 1, deletionPolicy: "Orphan" };
    await operator.apply("EdgeRouter", "eu", spec);
    const [router] = routersOf(await operator.ready("EdgeRouter", "eu"));
    const named = await network.management.listEdgeRouters({ query: { filter: 'name = "eu-0"' } });
    expect(named.data.map(({ id }) => id)).toEqual([router?.id]);
    expect(pods.starts.get("eu-0-0")).toBe(1);

    await operator.delete("EdgeRouter", "eu");
    await operator.gone("EdgeRouter", "eu");
    const left = await entity(router?.id);
    expect(left.tags).toEqual({});
    // Who takes it over finds its key where it was.
    const adopting = { ...spec, managementPolicy: "Adopt" };
    await operator.apply("EdgeRouter", "eu", adopting);
    expect(routersOf(await operator.ready("EdgeRouter", "eu"))[0]).toMatchObject({ id: router?.id, online: true });
    expect((await entity(router?.id)).fingerprint).toBe(left.fingerprint);
    await operator.settled();
    expect(operator.events("EdgeRouter", "eu")).not.toContain("ReEnrolled");

    await operator.delete("EdgeRouter", "eu");
    await operator.gone("EdgeRouter", "eu");
    // Without the volume, and online before: what then happens is for the one who takes it over to say.
    pods.loseVolume("data-eu-0-0");
    await operator.apply("EdgeRouter", "eu", { ...adopting, deletionPolicy: "Delete" });
    const lost = await operator.ready("EdgeRouter", "eu", "False", "IdentityLost");
    expect(healthOf(lost as Judged)).toMatchObject({
      health: "Failed",
      message: expect.stringContaining("re-enroll=0:"),
    });
    await operator.annotate("EdgeRouter", "eu", { "sallyport.dev/re-enroll": "0:mine" });
    expect(routersOf(await operator.ready("EdgeRouter", "eu"))[0]).toMatchObject({ id: router?.id, online: true });
    await expect.poll(() => operator.events("EdgeRouter", "eu")).toContain("Adopted");
  });

  test("touches nothing of another owner, and says what is in its way", async () => {
    await start();
    const metadata = { name: "eu-0-enrollment", namespace: "default" };
    const data = { "enrollment.jwt": "dGhlaXJz" };
    operator.server.put(KINDS.Secret, { apiVersion: "v1", kind: "Secret", metadata, data });
    await operator.apply("EdgeRouter", "eu", { exposure: { type: "None" }, drainSeconds: 1 });
    const stalled = await operator.ready("EdgeRouter", "eu", "False", "SecretConflict");
    expect(healthOf(stalled as Judged)).toMatchObject({
      health: "Failed",
      message: expect.stringContaining("Secret eu-0-enrollment has no owner: delete or rename it"),
    });
    expect(read(KINDS.Secret, "eu-0-enrollment")).toMatchObject({ data });
    operator.server.remove({ kind: KINDS.Secret, namespace: "default", name: "eu-0-enrollment" });
    await operator.annotate("EdgeRouter", "eu", { "sallyport.dev/reconcile-requested-at": "now" });
    const [router] = routersOf(await operator.ready("EdgeRouter", "eu"));

    // Another EdgeRouter only looks at it.
    await operator.apply("EdgeRouter", "looker", { name: "eu", managementPolicy: "Observe", cost: 9 });
    const seen = await operator.ready("EdgeRouter", "looker", "True", "Observed");
    expect(routersOf(seen)).toEqual([{ ordinal: 0, name: "eu-0", id: router?.id, verified: true, online: true }]);
    expect(seen.status.conditions).toContainEqual(
      expect.objectContaining({ type: "EntitiesSynced", status: "False", message: expect.stringContaining("cost") }),
    );
    // And one that would take its name is told whose it is.
    await operator.apply("EdgeRouter", "taker", { name: "eu" });
    const conflict = await operator.ready("EdgeRouter", "taker", "False", "NameConflict");
    expect(healthOf(conflict as Judged)).toMatchObject({
      health: "Failed",
      message: expect.stringContaining("belongs to EdgeRouter default/eu"),
    });
    for (const name of ["looker", "taker"]) {
      await operator.delete("EdgeRouter", name);
      await operator.gone("EdgeRouter", name);
    }
    expect(await entity(router?.id)).toMatchObject({ isOnline: true, cost: 0 });
  });
});
