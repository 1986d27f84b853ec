import { loadavg } from "node:os";
import { setTimeout as delay } from "node:timers/promises";
import type { KubeObject } from "../../operator/src/kube/kinds.ts";
import { emit, median } from "../dataplane/figure.ts";
import { type Amount, declared, declaredNetwork, declaredResources } from "./declared.ts";
import type { Work } from "./operator-program.ts";
import { isInOrder } from "./readiness.ts";
import type { Scene } from "./scene.ts";

const ALL_READY_S = 600;
/** Nothing was written for so long: what was asked for is done. */
const QUIET_MS = 3_000;
/** What a policy selects is counted again after a minute, as long as it changes: this long after the last write the operator is at rest. */
const REST_MS = 70_000;

const seconds = (ms: number): number => Math.round(ms / 10) / 100;
const object = (counts: ReadonlyMap<string, number>): Record<string, number> => Object.fromEntries(counts);
/** What the machine had to do besides. */
const load = (): number => Math.round((loadavg()[0] ?? 0) * 10) / 10;

/** Everything at once, until all of it is ready. Answers how many resources there are. */
export async function applyAll(scene: Scene, amount: Amount): Promise<number> {
  const { readiness } = scene;
  const operator = await scene.startOperator();
  await scene.apply(declaredNetwork(scene.controller));
  await operator.during(readiness.all(1, 120_000));
  const resources = await declaredResources(amount);
  const count = resources.length + 1;
  const before = scene.cpuSeconds();
  let largest = 0;
  const watching = setInterval(() => {
    if (operator.isRunning) largest = Math.max(largest, operator.memory().rss);
  }, 250);
  const began = performance.now();
  await scene.apply(resources);
  const applied = performance.now() - began;
  await operator.during(readiness.all(count, ALL_READY_S * 1000));
  const took = performance.now() - began;
  const used = difference(before, scene.cpuSeconds());
  const { network, kube, looks } = await operator.work();
  emit({
    figure: "all ready after they were applied at once",
    value: took / 1000,
    unit: "s",
    target: { atMost: 60 },
    details: {
      ...amount,
      appliedAfterS: seconds(applied),
      readyAfterS: readyByKind(scene, resources, began),
      cpuSeconds: used,
      looks,
      network: object(network),
      kube: object(kube),
      load: load(),
    },
  });
  await quiet(scene);
  clearInterval(watching);
  const { rss, pss } = operator.memory();
  emit({ figure: "memory", of: "the most", value: largest, unit: "MiB", target: { atMost: 150 } });
  emit({ figure: "memory", of: "afterwards", value: rss, unit: "MiB", target: { atMost: 150 }, details: { pss } });
  return count;
}

/** What it costs to have nothing to do. */
export async function rest(scene: Scene, forSeconds: number): Promise<void> {
  await quiet(scene, REST_MS);
  const { operator } = scene;
  const versions = scene.readiness.versions();
  const before = { cpu: scene.cpuSeconds(), work: await operator.work() };
  await delay(forSeconds * 1000);
  const used = difference(before.cpu, scene.cpuSeconds());
  const work = await operator.work();
  const written = changed(versions, scene.readiness.versions());
  const writes = kubeWrites(work) - kubeWrites(before.work);
  const { rss, pss } = operator.memory();
  emit({
    figure: "processor at rest",
    value: (100 * (used.operator ?? 0)) / forSeconds,
    unit: "% of one core",
    target: { atMost: 1 },
    details: {
      seconds: forSeconds,
      cpuSeconds: used,
      looks: work.looks - before.work.looks,
      networkRequests: total(work.network) - total(before.work.network),
      kubeReads: (work.kube.get("GET") ?? 0) - (before.work.kube.get("GET") ?? 0),
      // Of its Lease.
      leaseWrites: writes,
      load: load(),
    },
  });
  const target = { atMost: 0 };
  emit({
    figure: "writes at rest",
    of: "resources",
    value: written.length,
    unit: "",
    target,
    details: { written: written.slice(0, 5) },
  });
  emit({
    figure: "writes at rest",
    of: "Management API",
    value: work.networkWrites - before.work.networkWrites,
    unit: "",
    target,
  });
  emit({ figure: "memory", of: "at rest", value: rss, unit: "MiB", target: { atMost: 150 }, details: { pss } });
}

/** From the answer to a change until the resource says that it is carried out. */
export async function reaction(scene: Scene, rounds: number): Promise<void> {
  const kinds: Readonly<Record<string, (round: number) => KubeObject>> = {
    OverlayService: (round) => declared("OverlayService", "service-0001", { roleAttributes: ["tier-1", `r${round}`] }),
    ServicePolicy: (round) =>
      declared("ServicePolicy", "policy-0001", {
        type: "Dial",
        identityRoles: ["#site-1"],
        serviceRoles: ["#tier-1", `#r${round}`],
      }),
    Identity: (round) => declared("Identity", "identity-0001", { roleAttributes: ["site-1", `r${round}`] }),
  };
  const all: number[] = [];
  const details: Record<string, number> = {};
  for (const [kind, make] of Object.entries(kinds)) {
    const times: number[] = [];
    for (let round = 0; round < rounds; round++) {
      const wanted = make(round);
      const generation = round + 2;
      const done = scene.readiness.when(
        kind,
        wanted.metadata.name,
        (resource) => resource.metadata.generation === generation && isInOrder(resource),
      );
      const began = performance.now();
      await scene.apply([wanted]);
      times.push((await done) - began);
      await delay(50);
    }
    details[kind] = Math.round(median(times));
    all.push(...times);
  }
  const p95 = all.toSorted((a, b) => a - b)[Math.floor(all.length * 0.95)];
  emit({
    figure: "reaction to a change, p50",
    value: median(all),
    unit: "ms",
    target: { atMost: 300 },
    details: { ...details, p95: Math.round(p95 ?? 0), load: load() },
  });
}

/** Ended and started again, until it has looked at everything. */
export async function restart(scene: Scene, count: number): Promise<void> {
  await quiet(scene);
  await scene.stopOperator();
  const versions = scene.readiness.versions();
  const before = scene.cpuSeconds();
  const began = performance.now();
  const operator = await scene.startOperator();
  while (!(await operator.isReady())) await delay(20);
  const probed = performance.now() - began;
  while ((await known(scene)) < count) await delay(200);
  const took = performance.now() - began;
  const used = difference(before, scene.cpuSeconds());
  await quiet(scene);
  const work = await operator.work();
  const written = changed(versions, scene.readiness.versions());
  const target = { atMost: 0 };
  emit({
    figure: "everything looked at after a restart",
    value: took / 1000,
    unit: "s",
    target: { atMost: 5 },
    details: {
      probesReadyS: seconds(probed),
      cpuSeconds: used,
      network: object(work.network),
      kube: object(work.kube),
      load: load(),
    },
  });
  emit({
    figure: "writes after a restart",
    of: "resources",
    value: written.length,
    unit: "",
    target,
    details: { written: written.slice(0, 5) },
  });
  emit({ figure: "writes after a restart", of: "Management API", value: work.networkWrites, unit: "", target });
}

/** Resources that the operator says are ready. */
async function known(scene: Scene): Promise<number> {
  const samples = await scene.operator.samples();
  return samples.filter(({ name, value }) => name === "sallyport_operator_resource_ready" && value === 1).length;
}

/** Resolves when the operator has written nothing for a while. */
async function quiet(scene: Scene, forMs = QUIET_MS): Promise<void> {
  let last = "";
  let since = performance.now();
  while (performance.now() - since < forMs) {
    const { networkWrites, kube } = await scene.operator.work();
    // The Lease is written by PUT all the time.
    const now = JSON.stringify([networkWrites, kube.get("POST"), kube.get("PATCH")]);
    if (now !== last) since = performance.now();
    last = now;
    await delay(250);
  }
}

function readyByKind(scene: Scene, resources: readonly KubeObject[], began: number): Record<string, number> {
  const latest: Record<string, number> = {};
  for (const { kind, metadata } of resources) {
    const at = scene.readiness.readyAt.get(`${kind} ${metadata.namespace}/${metadata.name}`) ?? Number.NaN;
    latest[kind] = Math.max(latest[kind] ?? 0, seconds(at - began));
  }
  return latest;
}

const changed = (before: ReadonlyMap<string, string>, after: ReadonlyMap<string, string>): string[] =>
  [...after].filter(([key, version]) => before.get(key) !== version).map(([key]) => key);

const total = (counts: ReadonlyMap<string, number>): number =>
  [...counts.values()].reduce((sum, count) => sum + count, 0);

const kubeWrites = ({ kube }: Work): number => total(kube) - (kube.get("GET") ?? 0);

function difference(
  before: Readonly<Record<string, number>>,
  after: Readonly<Record<string, number>>,
): Record<string, number> {
  return Object.fromEntries(
    Object.entries(after).map(([name, now]) => [name, Math.round((now - (before[name] ?? 0)) * 100) / 100]),
  );
}
