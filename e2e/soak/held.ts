import { readdirSync } from "node:fs";
import type { Program } from "../network/program.ts";

/** What a process holds, with its garbage collected. Memory in bytes. */
export interface Held {
  readonly timers: number;
  readonly sockets: number;
  readonly heapUsed: number;
  readonly external: number;
  readonly rss: number;
  readonly descriptors: number;
}

/** Asks a program that `probe.ts` was loaded into. */
export async function heldBy(program: Program): Promise<Held> {
  const line = program.nextLine(/^soak-probe /);
  program.signal("SIGUSR2");
  const told = JSON.parse((await line).slice("soak-probe ".length)) as Omit<Held, "descriptors">;
  return { ...told, descriptors: readdirSync(`/proc/${program.pid}/fd`).length };
}

const MIB = 1024 * 1024;

/** What has grown by more than a process may hold more at one quiet moment than at another. */
export function growth(before: Held, after: Held): string[] {
  const allowed: Record<keyof Held, number> = {
    timers: before.timers + 10,
    sockets: before.sockets + 10,
    descriptors: before.descriptors + 15,
    heapUsed: before.heapUsed * 1.3 + 8 * MIB,
    external: before.external * 1.3 + 16 * MIB,
    rss: before.rss * 1.4 + 48 * MIB,
  };
  return (Object.keys(allowed) as (keyof Held)[])
    .filter((what) => after[what] > allowed[what])
    .map((what) => `${what}: ${before[what]} before, ${after[what]} after`);
}
