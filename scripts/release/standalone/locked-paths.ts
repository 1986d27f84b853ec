import type { Lock } from "../sbom/npm-parts.ts";

export interface LockedPath {
  /** `node_modules/…`, as in the lock file. */
  readonly path: string;
  readonly name: string;
  readonly version: string;
  readonly integrity: string;
}

/** Packages and all that they ask for, as far as it runs on Linux with glibc and this processor. */
export function lockedPaths(lock: Lock, names: readonly string[], processor: string): LockedPath[] {
  const found = new Map<string, LockedPath>();
  const waiting = names.map((name) => ({ name, from: "" }));
  for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
    const path = placeOf(lock, next.name, next.from);
    const entry = path === undefined ? undefined : lock[path];
    if (path === undefined || entry === undefined || found.has(path)) continue;
    const runs = [
      [entry.os, "linux"],
      [entry.cpu, processor],
      [entry.libc, "glibc"],
    ] as const;
    if (!runs.every(([allowed, here]) => allowed === undefined || allowed.includes(here))) continue;
    const { version = "", integrity = "" } = entry;
    found.set(path, { path, name: entry.name ?? next.name, version, integrity });
    for (const name of Object.keys({ ...entry.dependencies, ...entry.optionalDependencies }))
      waiting.push({ name, from: path });
  }
  return [...found.values()];
}

/** Where Node finds it: in the folder of who asks, or above. */
export function placeOf(lock: Lock, name: string, from: string): string | undefined {
  for (let at = from; ; at = at.slice(0, Math.max(0, at.lastIndexOf("/node_modules/")))) {
    const path = `${at}${at === "" ? "" : "/"}node_modules/${name}`;
    if (lock[path] !== undefined) return path;
    if (at === "") return undefined;
  }
}
