import type { Random } from "../../../soak/random.ts";
import type { ReplicaSet } from "./replica-set.ts";

export interface Fault {
  readonly name: string;
  /** Resolves when it is over. */
  run(): Promise<void>;
}

/** So many kinds of faults, each once in random order, then again. */
export function faultsOf(set: ReplicaSet, random: Random, count: number): Fault[] {
  const faults: Fault[] = [];
  while (faults.length < count) {
    const left = [...KINDS];
    while (left.length > 0) {
      const [kind] = left.splice(random.between(0, left.length - 1), 1);
      if (kind !== undefined) faults.push(kind(set, random));
    }
  }
  return faults.slice(0, count);
}

const KINDS: readonly ((set: ReplicaSet, random: Random) => Fault)[] = [
  (set, random) => {
    const at = random.between(0, set.size - 1);
    return { name: `SIGKILL of ${set.idOf(at)}`, run: () => set.kill(at) };
  },
  (set, random) => {
    const at = random.between(0, set.size - 1);
    const ms = random.between(500, 5_000);
    return { name: `${set.idOf(at)} stands still for ${ms} ms`, run: () => set.halt(at, ms) };
  },
  (set, random) => {
    const at = random.between(0, set.size - 1);
    const ms = random.between(200, 3_000);
    return { name: `${set.idOf(at)} without database for ${ms} ms`, run: () => set.cut(at, ms) };
  },
  (set, random) => {
    const at = random.between(0, set.size - 1);
    return { name: `${set.idOf(at)} loses its connections to the database`, run: () => set.reset(at) };
  },
  (set, random) => {
    const at = random.between(0, set.size - 1);
    return { name: `${set.idOf(at)} loses its lease`, run: () => set.loseLease(at) };
  },
  (set) => ({ name: "the database starts again", run: () => set.restartDatabase() }),
];
