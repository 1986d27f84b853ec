/** The control groups that nodes hold their pods in: one tree for a cluster, in every hierarchy of the machine. */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";

const ROOT = "/sys/fs/cgroup";
const IS_UNIFIED = existsSync(join(ROOT, "cgroup.controllers"));

/** The roots of the hierarchies: several of version 1, the one of version 2, or both. */
function hierarchies(): string[] {
  if (IS_UNIFIED) return [ROOT];
  return readdirSync(ROOT, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && existsSync(join(ROOT, entry.name, "cgroup.procs")))
    .map((entry) => join(ROOT, entry.name));
}

export function makeControlGroups(group: string, nodes: number): void {
  for (const root of hierarchies()) {
    for (let node = 1; node <= nodes; node++) {
      const folder = join(root, group, `node${node}`);
      mkdirSync(folder, { recursive: true });
      for (const each of [dirname(folder), folder]) inherit(each);
    }
  }
}

function inherit(folder: string): void {
  const parent = dirname(folder);
  if (IS_UNIFIED) {
    const controllers = readFileSync(join(parent, "cgroup.controllers"), "utf8").trim().split(" ");
    writeFileSync(join(parent, "cgroup.subtree_control"), controllers.map((name) => `+${name}`).join(" "));
    return;
  }
  // Nothing may run in a set of no processors.
  for (const file of ["cpuset.cpus", "cpuset.mems"]) {
    if (existsSync(join(folder, file))) writeFileSync(join(folder, file), readFileSync(join(parent, file)));
  }
}

/** Removes the tree, whose processes have ended: the kernel may need a moment to see that. */
export async function removeControlGroups(group: string): Promise<void> {
  const until = performance.now() + 10_000;
  for (const root of hierarchies()) {
    const folder = join(root, group);
    while (existsSync(folder)) {
      try {
        removeTree(folder);
      } catch (error) {
        if (performance.now() > until) throw new Error(`control group ${folder} cannot be removed`, { cause: error });
        await delay(50);
      }
    }
  }
}

/** What is in there besides folders belongs to the kernel, and goes with them. */
function removeTree(folder: string): void {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    if (entry.isDirectory()) removeTree(join(folder, entry.name));
  }
  rmdirSync(folder);
}
