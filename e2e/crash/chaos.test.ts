import { pause } from "@sallyport/async";
import { afterAll, beforeAll, expect, it } from "vitest";
import { exchangeSome } from "../network/bytes.ts";
import { ReplicaNetwork } from "../network/replica-network.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";
import { growth, type Held, heldBy } from "../soak/held.ts";
import { Random } from "../soak/random.ts";
import { Recorder } from "../system/replicas/history/recorder.ts";
import { Workloads } from "../system/replicas/history/workloads.ts";

const SEED = Number(process.env.SALLYPORT_CHAOS_SEED ?? Math.floor(Math.random() * 1_000_000));
/** Faults begin within this time. */
const MINUTES = Number(process.env.SALLYPORT_CHAOS_MINUTES ?? 4);
const BETWEEN_MS = 1_000;
const [SHORTEST_HALT_MS, LONGEST_HALT_MS] = [5_000, 60_000];
/** The histories make entities, which controllers keep in memory. */
const MAX_GROWTH = 200_000_000;

const folder = makeScratch("chaos");
let replicas: ReplicaNetwork | undefined;
beforeAll(async () => {
  process.env.NODE_OPTIONS = `--import ${new URL("../soak/probe.ts", import.meta.url)}`;
  replicas = await ReplicaNetwork.start(folder);
}, 900_000);
afterAll(async () => {
  delete process.env.NODE_OPTIONS;
  await replicas?.stop();
  removeScratch(folder);
}, 180_000);

interface Fault {
  readonly name: string;
  run(): Promise<void>;
}

/** Every kind of fault once in random order, and again, without end. */
function* faultsOf(set: ReplicaNetwork, random: Random, token: string): Generator<Fault, never> {
  const anyOf = () => random.between(0, set.size - 1);
  const restarts = (places: readonly number[], signal: "SIGKILL" | "SIGTERM"): Fault => ({
    name: `${signal} of ${places.map((at) => set.idOf(at)).join(", ")}`,
    run: async () => {
      await Promise.all(places.map((at) => set.end(at, signal)));
      await Promise.all(places.map((at) => set.start(at)));
    },
  });
  const halts = (places: readonly number[]): Fault => {
    const ms = random.between(SHORTEST_HALT_MS, LONGEST_HALT_MS);
    return {
      name: `${places.map((at) => set.idOf(at)).join(", ")} stands still for ${ms} ms`,
      run: async () => void (await Promise.all(places.map((at) => set.halt(at, ms)))),
    };
  };
  const ofLeader = (name: string, make: (at: number) => Fault): Fault => ({
    name: `the leader: ${name}`,
    run: async () => make(await set.leader(token)).run(),
  });
  const kinds = [
    () => restarts([anyOf()], "SIGKILL"),
    () => restarts([anyOf()], "SIGTERM"),
    () => restarts([0, 1, 2], "SIGKILL"),
    () => ofLeader("SIGKILL", (at) => restarts([at], "SIGKILL")),
    () => halts([anyOf()]),
    () => ofLeader("stands still", (at) => halts([at])),
    () => ({ name: "the database starts again", run: () => set.restartDatabase() }),
    () => ({ name: "SIGKILL of the database", run: () => set.killDatabase() }),
  ];
  for (;;) {
    const left = [...kinds];
    while (left.length > 0) {
      const [kind] = left.splice(random.between(0, left.length - 1), 1);
      if (kind !== undefined) yield kind();
    }
  }
}

/** What a program holds, when it has been as it was for a while. */
async function holdings(set: ReplicaNetwork): Promise<Map<string, Held>> {
  const held = new Map<string, Held>();
  for (const [name, program] of set.programs) held.set(`${name} ${program.pid}`, await heldBy(program));
  return held;
}

it(
  `three controllers lose nothing and leave nothing behind, whatever fails (SALLYPORT_CHAOS_SEED=${SEED})`,
  async () => {
    const set = replicas as ReplicaNetwork;
    console.info(`chaos: SALLYPORT_CHAOS_SEED=${SEED} SALLYPORT_CHAOS_MINUTES=${MINUTES}`);
    const random = new Random(SEED);
    const recorder = new Recorder();
    const workloads = new Workloads(set, recorder, new Random(SEED + 1));
    await workloads.prepare();
    const { token } = workloads;
    await set.whole(token);
    const before = await holdings(set);
    const done: string[] = [];
    const open = await set.dial();
    open.setMaxListeners(0);
    let isOver = false;
    let exchanges = 0;
    // A circuit that was open before all faults is open after them.
    const steady = async (): Promise<void> => {
      while (!isOver) {
        await exchangeSome(open, ++exchanges % 256, 50_000);
        await pause(50);
      }
    };
    workloads.start();
    const carrying = steady();
    const broken = carrying.then(
      () => new Promise<never>(() => {}),
      (error: unknown) => Promise.reject(new Error("the open circuit broke", { cause: error })),
    );
    try {
      const until = performance.now() + MINUTES * 60_000;
      for (const fault of faultsOf(set, random, token)) {
        if (performance.now() > until) break;
        const began = performance.now();
        const healed = async (): Promise<void> => {
          await pause(BETWEEN_MS);
          await fault.run();
          await set.whole(token);
          await set.echoes();
        };
        console.info(`chaos: ${fault.name}`);
        done.push(fault.name);
        await Promise.race([healed(), broken]);
        console.info(`chaos: whole after ${Math.round(performance.now() - began - BETWEEN_MS)} ms`);
      }
    } finally {
      isOver = true;
      await workloads.stop();
    }
    await carrying;
    open.end();
    await workloads.readAll();
    const { answers, registerOperations, views } = recorder.counts;
    const told = `seed ${SEED}, ${answers} answers\n${done.join("\n")}`;
    console.info(
      `chaos: ${answers} answers, ${registerOperations} on registers, ${views} views, ${exchanges} exchanges`,
    );
    expect(recorder.problems(), told).toEqual([]);
    expect(registerOperations).toBeGreaterThan(20);
    expect(views).toBeGreaterThan(100);
    await set.withoutCircuits(token);
    await set.whole(token);
    const after = await holdings(set);
    // Those that were not started again have gone through all of it.
    for (const [name, held] of after) {
      const first = before.get(name);
      if (first === undefined) continue;
      console.info(`chaos: ${name} ${JSON.stringify(first)} -> ${JSON.stringify(held)}`);
      const grown = growth(first, held).filter((what) => !/^(heapUsed|rss|external):/.test(what));
      expect(grown, `${name}, ${told}`).toEqual([]);
    }
    for (const [name, { rss }] of after) {
      const id = name.split(" ")[0];
      const first = [...before].find(([of]) => of.startsWith(`${id} `))?.[1].rss ?? 0;
      expect(rss - first, `memory of ${name}, ${told}`).toBeLessThan(MAX_GROWTH);
    }
  },
  600_000 + MINUTES * 120_000,
);
