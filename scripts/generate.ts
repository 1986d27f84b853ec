/**
 * Writes every generated file again, or with `--check` fails when one differs from what is committed.
 *
 * A generator is a command that fills a folder; its output is compared with, or replaces, a folder of the repository.
 */
import { execFileSync } from "node:child_process";
import { chmodSync, cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { clientRoutes, generation2Page, referencePage } from "../packages/api/src/derived-files.ts";
import { crdFiles } from "../packages/resources/src/crd/crd.ts";
import { resourceReference } from "../packages/resources/src/crd/reference-page.ts";
import { schemaModule } from "../packages/resources/src/crd/schema-module.ts";
import { DEFINITIONS } from "../packages/resources/src/kinds/definitions.ts";
import { configReference } from "../packages/router-config/src/reference.ts";
import { chartReadme } from "./charts/chart-readme.ts";
import { networkValuesSchema } from "./charts/network-schema.ts";
import { operatorRights } from "./charts/operator-rights.ts";
import { operatorTemplates } from "./charts/operator-templates.ts";
import { kindTables } from "./cli/kind-tables.ts";
import { commandReference } from "./command-reference.ts";

interface Generator {
  readonly name: string;
  /** Folder of the repository that holds nothing but this generator's files, unless `only` names one of several. */
  readonly folder: string;
  readonly only?: string;
  /** Fills `outDir` with what belongs into `folder`. */
  generate(outDir: string): void | Promise<void>;
}

const root = join(import.meta.dirname, "..");
const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { version: string };

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
    name: "what the typed client knows of the operations",
    folder: "packages/api/src/client/generated",
    generate(outDir) {
      writeFileSync(join(outDir, "routes.ts"), clientRoutes());
    },
  },
  {
    name: "kinds of the command line",
    folder: "cli/src/kinds/generated",
    generate(outDir) {
      for (const [name, text] of kindTables()) writeFileSync(join(outDir, name), text);
    },
  },
  {
    name: "reference pages",
    folder: "docs/reference",
    async generate(outDir) {
      writeFileSync(join(outDir, "api-operations.md"), referencePage());
      writeFileSync(join(outDir, "api-2.1.md"), generation2Page());
      writeFileSync(join(outDir, "cli.md"), await commandReference());
    },
  },
  {
    name: "keys of the router's file",
    folder: "docs/router",
    only: "configuration.md",
    generate(outDir) {
      writeFileSync(join(outDir, "configuration.md"), configReference());
    },
  },
  {
    name: "resources of the operator",
    folder: "crds",
    generate(outDir) {
      for (const [name, text] of crdFiles(DEFINITIONS)) writeFileSync(join(outDir, name), text);
    },
  },
  {
    name: "schemas of the resources as data",
    folder: "packages/resources/src/generated",
    generate(outDir) {
      writeFileSync(join(outDir, "schemas.ts"), schemaModule(DEFINITIONS));
    },
  },
  {
    name: "CRDs and rights in the operator's chart",
    folder: "helm/sallyport/templates/generated",
    generate(outDir) {
      const templates = operatorTemplates(crdFiles(DEFINITIONS), join(root, "operator/deploy"));
      for (const [name, text] of templates) writeFileSync(join(outDir, name), text);
    },
  },
  {
    name: "rights that the operator checks",
    folder: "operator/src/program/generated",
    generate(outDir) {
      const [role = "", leases = ""] = ["namespaced/role.yaml", "base/leases.yaml"].map((file) =>
        readFileSync(join(root, "operator/deploy", file), "utf8")
          .split(/^---$/m, 1)
          .join(),
      );
      writeFileSync(join(outDir, "rights.ts"), operatorRights(role, leases));
    },
  },
  {
    name: "reference of the operator's resources",
    folder: "docs/operator",
    only: "resources.md",
    generate(outDir) {
      writeFileSync(join(outDir, "resources.md"), resourceReference(DEFINITIONS));
    },
  },
  {
    name: "schema of the network chart's values",
    folder: "helm/sallyport-network",
    only: "values.schema.json",
    generate(outDir) {
      writeFileSync(join(outDir, "values.schema.json"), networkValuesSchema());
    },
  },
  // Behind the schemas, with which they are compared.
  ...readdirSync(join(root, "helm")).map((chart) => ({
    name: `values of the chart ${chart}, for its users`,
    folder: `helm/${chart}`,
    only: "README.md",
    generate(outDir: string) {
      writeFileSync(join(outDir, "README.md"), chartReadme(join(root, "helm", chart), version));
    },
  })),
];

const check = process.argv.includes("--check");
let stale = 0;
for (const generator of generators) {
  const outDir = mkdtempSync(join(tmpdir(), "generate-"));
  try {
    await generator.generate(outDir);
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
