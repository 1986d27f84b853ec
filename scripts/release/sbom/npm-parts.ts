/** What npm brings, as the lock file of the repository has it. */
import { placeOf } from "../standalone/locked-paths.ts";
import { type Component, npmUrl } from "./cyclonedx.ts";

/** A package is not in the lock file. */
export class LockError extends Error {
  override name = "LockError";
}

interface Locked {
  readonly name?: string;
  readonly version?: string;
  readonly license?: string;
  readonly integrity?: string;
  readonly link?: boolean;
  /** Where it runs; everywhere when absent. */
  readonly os?: readonly string[];
  readonly cpu?: readonly string[];
  readonly libc?: readonly string[];
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

export type Lock = Readonly<Record<string, Locked>>;

const MODULES = "node_modules/";

/** The package of that name and version. @throws LockError */
export function lockedPackage(lock: Lock, name: string, version: string): Component {
  const found = Object.entries(lock).find(
    ([path, entry]) =>
      entry.version === version && entry.link !== true && path.includes(MODULES) && nameOf(path, entry) === name,
  );
  if (found === undefined) throw new LockError(`${name}@${version} is not in package-lock.json`);
  return componentOf(name, version, found[1]);
}

/**
 * The packages that these names stand for, with all that they ask for in turn; optional ones as well, which npm leaves out where they do not run.
 *
 * @throws LockError
 */
export function lockedTree(lock: Lock, names: readonly string[], from = ""): Component[] {
  const found = new Map<string, Component>();
  const waiting = names.map((name) => ({ name, from, isOptional: false }));
  for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
    const path = placeOf(lock, next.name, next.from);
    if (path === undefined && next.isOptional) continue;
    const entry = path === undefined ? undefined : lock[path];
    if (path === undefined || entry?.version === undefined)
      throw new LockError(
        `${next.name}, which ${next.from || "a package of the release"} asks for, is not in package-lock.json`,
      );
    if (found.has(path)) continue;
    found.set(path, componentOf(nameOf(path, entry), entry.version, entry));
    for (const name of Object.keys(entry.dependencies ?? {})) waiting.push({ name, from: path, isOptional: false });
    for (const name of Object.keys(entry.optionalDependencies ?? {}))
      waiting.push({ name, from: path, isOptional: true });
  }
  return [...found.values()];
}

function nameOf(path: string, entry: Locked): string {
  return entry.name ?? path.slice(path.lastIndexOf(MODULES) + MODULES.length);
}

function componentOf(name: string, version: string, { license, integrity }: Locked): Component {
  const [, scope, base = name] = /^(@[^/]+)\/(.+)$/.exec(name) ?? [];
  const digest = /^sha512-(.+)$/.exec(integrity ?? "")?.[1];
  return {
    type: "library",
    purl: npmUrl(name, version),
    ...(scope === undefined ? {} : { group: scope }),
    name: base,
    version,
    ...(license === undefined ? {} : { license }),
    ...(digest === undefined
      ? {}
      : { hashes: [{ alg: "SHA-512", content: Buffer.from(digest, "base64").toString("hex") }] }),
  };
}
