/**
 * Makes a release: `node scripts/release/main.ts [options]`, `make release`. What is in it: docs/releases.md.
 *
 *   --version VERSION   instead of the one in package.json, everywhere in the release; the tree stays as it is
 *   --out FOLDER        where it goes (dist/release)
 *   --layers FOLDER     image layers that were compressed before (dist/images/layers)
 *   --key FILE          secret key of minisign, without a password, that signs SHA256SUMS
 *
 * The same commit on the same system gives the same bytes. SOURCE_DATE_EPOCH is the date of everything; the time of the commit when it is not set.
 */
import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { changesOf } from "./changelog.ts";
import { checksums } from "./checksums.ts";
import { charts, images, manifests, npmPackages, PACKED, type Plan } from "./parts.ts";
import { minisign, readSigningKey } from "./proof/minisign.ts";
import { provenance } from "./proof/provenance.ts";
import { billOfMaterials } from "./sbom/cyclonedx.ts";
import type { Origins } from "./sbom/image-parts.ts";
import type { Lock } from "./sbom/npm-parts.ts";
import { systemName, systemVersions } from "./sbom/system-versions.ts";
import { standalone } from "./standalone/parts.ts";
import { checkedVersion } from "./versions.ts";

const ROOT = join(import.meta.dirname, "..", "..");
/** What says which packages of others are in it. */
const PINS = ["package-lock.json", "scripts/release/standalone/node-packages.json"];
const ARCHITECTURES: Readonly<Record<string, string>> = { x64: "amd64", arm64: "arm64" };

const { values } = parseArgs({
  options: {
    version: { type: "string" },
    out: { type: "string", default: join(ROOT, "dist", "release") },
    key: { type: "string" },
    layers: { type: "string", default: join(ROOT, "dist", "images", "layers") },
  },
});

const startedAt = performance.now();
const out = resolve(values.out);
mkdirSync(dirname(out), { recursive: true });
const work = mkdtempSync(`${out}-work-`);
try {
  const files = await release(work);
  const staged = join(work, "release");
  for (const [path, bytes] of files) {
    mkdirSync(dirname(join(staged, path)), { recursive: true });
    writeFileSync(join(staged, path), bytes);
  }
  rmSync(out, { recursive: true, force: true });
  renameSync(staged, out);
  for (const [path, bytes] of files) console.log(`${(bytes.length / 1e6).toFixed(2).padStart(8)} MB  ${path}`);
  console.log(`${out}: ${files.size} files in ${Math.round((performance.now() - startedAt) / 1_000)} s`);
} finally {
  rmSync(work, { recursive: true, force: true });
}

async function release(work: string): Promise<Map<string, Buffer>> {
  const own = (JSON.parse(read("package.json")) as { version: string }).version;
  const version = checkedVersion(values.version ?? own);
  const changelog = read("CHANGELOG.md");
  changesOf(changelog, own);
  const madeAt = epoch();
  const plan: Plan = { root: ROOT, own, version, madeAt, work, layers: resolve(values.layers) };
  const known = origins();
  const key = values.key === undefined ? undefined : readSigningKey(readFileSync(values.key, "utf8"));
  // The programs of the images are those for npm.
  const containers = await images(plan, known);
  const parts = [
    await npmPackages(plan, known),
    containers,
    await standalone(plan, known, join(work, PACKED)),
    charts(plan),
    manifests(plan),
  ];
  const files = new Map(parts.flatMap((part) => [...part.files]));
  const artifacts = parts.flatMap((part) => part.artifacts);
  const commit = source();
  const json = (value: object) => Buffer.from(`${JSON.stringify(value, undefined, 2)}\n`);
  files.set("sbom.cdx.json", json(billOfMaterials(version, commit, madeAt, artifacts)));
  files.set("CHANGELOG.md", Buffer.from(changelog));
  files.set("LICENSE", Buffer.from(read("LICENSE")));
  const pins = new Map(PINS.map((path) => [path, readFileSync(join(ROOT, path))]));
  const making = { version, source: commit, madeAt, node: known.inNode.node ?? "", pins };
  files.set("provenance.json", json(provenance(files, making)));
  const sums = Buffer.from(checksums(files));
  files.set("SHA256SUMS", sums);
  if (key !== undefined) files.set("SHA256SUMS.minisig", Buffer.from(minisign(sums, key, `Sallyport ${version}`)));
  return files;
}

function origins(): Origins {
  const node = join(ROOT, "node_modules", ".bin", "node");
  const inNode = execFileSync(node, ["--print", "JSON.stringify(process.versions)"], { encoding: "utf8" });
  return {
    lock: (JSON.parse(read("package-lock.json")) as { packages: Lock }).packages,
    systemVersions,
    system: systemName(),
    architecture: ARCHITECTURES[process.arch] ?? process.arch,
    inNode: JSON.parse(inNode) as Record<string, string>,
  };
}

/** The commit that it is made of; said aloud when there is more than that. */
function source(): string {
  const commit = git("rev-parse", "HEAD");
  if (commit === undefined) return "unknown";
  if (git("status", "--porcelain") === "") return commit;
  process.stderr.write(
    `*** The tree has changes that are not in commit ${commit}: this release cannot be built again.\n`,
  );
  return `${commit} with changes`;
}

function epoch(): number {
  const text = process.env.SOURCE_DATE_EPOCH || git("log", "-1", "--format=%ct") || "0";
  if (/^\d{1,11}$/.test(text)) return Number(text);
  throw new Error(`SOURCE_DATE_EPOCH must be seconds since 1970, found ${text}`);
}

function git(...args: string[]): string | undefined {
  const { status, stdout } = spawnSync("git", args, { cwd: ROOT, encoding: "utf8" });
  return status === 0 ? stdout.trim() : undefined;
}

function read(path: string): string {
  return readFileSync(join(ROOT, path), "utf8");
}
