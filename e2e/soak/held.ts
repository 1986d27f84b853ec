import { readdirSync } from "node:fs";
import type { Program } from "../network/program.ts";
import { type Measure, measure } from "./measure.ts";

/** What a process holds, with its garbage collected. */
export interface Held extends Measure {
  readonly descriptors: number;
}

/** Asks a program that `probe.ts` was loaded into. */
export async function heldBy(program: Program): Promise<Held> {
  const line = program.nextLine(/^soak-probe /);
  program.signal("SIGUSR2");
  const told = JSON.parse((await line).slice("soak-probe ".length)) as Measure;
  return { ...told, descriptors: descriptorsOf(program.pid) };
}

/** What the process that asks holds. */
export function heldHere(): Held {
  return { ...measure(), descriptors: descriptorsOf("self") };
}

function descriptorsOf(pid: number | "self" | undefined): number {
  return readdirSync(`/proc/${pid}/fd`).length;
}

const MIB = 1024 * 1024;

/** What has grown by more than a process may hold more at one quiet moment than at another. */
export function growth(before: Held, after: Held): string[] {
  const allowed: Record<keyof Held, number> = {
    timers: before.timers + 25,
    sockets: before.sockets + 10,
    descriptors: before.descriptors + 10,
    heapUsed: before.heapUsed * 1.1 + 8 * MIB,
    external: before.external * 1.2 + 16 * MIB,
    rss: before.rss * 1.2 + 25 * MIB,
  };
  return (Object.keys(allowed) as (keyof Held)[])
    .filter((what) => after[what] > allowed[what])
    .map((what) => `${what}: ${before[what]} before, ${after[what]} after`);
}

/** Whether less is held than a moment ago, because something of before has just run out. */
export function hasFallen(before: Held, after: Held): boolean {
  return (["timers", "sockets", "descriptors"] as const).some((what) => after[what] < before[what] - 5);
}
