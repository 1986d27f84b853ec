/**
 * Writes every generated file again, or with `--check` fails when one differs from what is committed.
 *
 * A generator is a command that fills a folder; its output is compared with, or replaces, a folder of the repository.
 */
import { execFileSync } from "node:child_process";
import { chmodSync, cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { referencePage } from "../packages/api/src/reference.ts";
import { configReference } from "../packages/router-config/src/reference.ts";

interface Generator {
  readonly name: string;
  /** Folder of the repository that holds nothing but this generator's files, unless `only` names one of several. */
  readonly folder: string;
  readonly only?: string;
  /** Fills `outDir` with what belongs into `folder`. */
  generate(outDir: string): void;
}

const root = join(import.meta.dirname, "..");

const generators: readonly Generator[] = [
  {
    name: "protobuf messages",
    folder: "packages/wire/src/generated",
    generate(outDir) {
      execFileSync("buf", ["generate", "-o", outDir], {
        cwd: join(root, "packages/wire"),
        env: { ...process.env, PATH: `${join(root, "node_modules/.bin")}:${process.env.PATH ?? ""}` },
        stdio: "inherit",
      });
    },
  },
  {
    name: "reference pages",
    folder: "docs/reference",
    generate(outDir) {
      writeFileSync(join(outDir, "api-operations.md"), referencePage());
    },
  },
  {
    name: "keys of the router's file",
    folder: "docs",
    only: "router-config.md",
    generate(outDir) {
      writeFileSync(join(outDir, "router-config.md"), configReference());
    },
  },
];

const check = process.argv.includes("--check");
let stale = 0;
for (const generator of generators) {
  const outDir = mkdtempSync(join(tmpdir(), "generate-"));
  try {
    generator.generate(outDir);
    const folder = join(root, generator.folder);
    const differing = differences(outDir, folder).filter((name) => name === (generator.only ?? name));
    if (differing.length === 0) continue;
    if (check) {
      stale += differing.length;
      console.error(`${generator.name}: ${generator.folder} is not up to date: ${differing.join(", ")}`);
    } else {
      if (generator.only === undefined) rmSync(folder, { recursive: true, force: true });
      cpSync(outDir, folder, { recursive: true });
      // The temporary folder was closed to others, and its copy is, too.
      chmodSync(folder, 0o755);
      console.log(`${generator.name}: wrote ${differing.join(", ")}`);
    }
  } finally {
    rmSync(outDir, { recursive: true, force: true });
  }
}
if (stale > 0) {
  console.error("Run `npm run generate` and commit the result.");
  process.exitCode = 1;
}

function differences(fresh: string, committed: string): string[] {
  const [a, b] = [filesOf(fresh), filesOf(committed)];
  return [...new Set([...a.keys(), ...b.keys()])].filter((name) => a.get(name) !== b.get(name)).sort();
}

function filesOf(folder: string): Map<string, string> {
  try {
    const names = readdirSync(folder, { recursive: true, withFileTypes: true });
    return new Map(
      names
        .filter((entry) => entry.isFile())
        .map((entry) => join(entry.parentPath, entry.name))
        .map((path) => [path.slice(folder.length + 1), readFileSync(path, "utf8")]),
    );
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return new Map();
    throw error;
  }
}
