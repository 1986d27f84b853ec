import { pause } from "@sallyport/async";
import { afterAll, beforeAll, expect, it } from "vitest";
import { makeScratch, removeScratch } from "../../../network/scratch.ts";
import { Random } from "../../../soak/random.ts";
import { faultsOf } from "./faults.ts";
import { Recorder } from "./recorder.ts";
import { ReplicaSet } from "./replica-set.ts";
import { Workloads } from "./workloads.ts";

const SEED = Number(process.env.SALLYPORT_REPLICA_SEED ?? Math.floor(Math.random() * 1_000_000));
const FAULTS = Number(process.env.SALLYPORT_REPLICA_FAULTS ?? 4);
/** Between two faults the workloads run undisturbed. */
const BETWEEN_MS = 500;
/** What a replica may have gained after many faults, in MB. */
const MAX_GROWTH_MB = 200;

const folder = makeScratch("histories");
let set: ReplicaSet | undefined;
beforeAll(async () => {
  set = await ReplicaSet.start(folder, 3);
}, 240_000);
afterAll(async () => {
  await set?.stop();
  removeScratch(folder);
}, 120_000);

it(
  `three controllers answer as one, whatever fails (SALLYPORT_REPLICA_SEED=${SEED})`,
  async () => {
    const replicas = set as ReplicaSet;
    const random = new Random(SEED);
    const recorder = new Recorder();
    const workloads = new Workloads(replicas, recorder, new Random(SEED + 1));
    await workloads.prepare();
    const before = replicas.memory();
    workloads.start();
    const done: string[] = [];
    try {
      await pause(BETWEEN_MS);
      for (const fault of faultsOf(replicas, random, FAULTS)) {
        done.push(`${(performance.now() / 1_000).toFixed(1)} s: ${fault.name}`);
        await fault.run();
        await replicas.answering(workloads.token);
        await pause(BETWEEN_MS);
      }
    } finally {
      await workloads.stop();
    }
    await workloads.readAll();
    const { answers, registerOperations, views } = recorder.counts;
    const problems = recorder.problems();
    const told = `seed ${SEED}, ${answers} answers\n${done.join("\n")}`;
    if (process.env.SALLYPORT_REPLICA_FAULTS)
      console.warn(told, { registerOperations, views }, before, replicas.memory());
    expect(problems, told).toEqual([]);
    expect(registerOperations).toBeGreaterThan(20);
    expect(views).toBeGreaterThan(100);
    for (const [at, mb] of replicas.memory().entries()) expect(mb - (before[at] ?? 0)).toBeLessThan(MAX_GROWTH_MB);
  },
  120_000 + FAULTS * 60_000,
);
