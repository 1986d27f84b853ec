import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import type { Lock } from "../sbom/npm-parts.ts";
import { lockedPaths } from "./locked-paths.ts";

const ROOT = join(import.meta.dirname, "../../..");

it("packages for a processor are those that run there, and what they ask for, where Node looks for it", () => {
  const lock: Lock = {
    "node_modules/a": {
      version: "1",
      integrity: "x",
      dependencies: { b: "*" },
      optionalDependencies: { "a-arm": "*", "a-x": "*", "a-musl": "*" },
    },
    "node_modules/a/node_modules/b": { version: "2", integrity: "y" },
    "node_modules/b": { version: "1", integrity: "z" },
    "node_modules/a-arm": { version: "1", integrity: "x", os: ["linux"], cpu: ["arm64"], libc: ["glibc"] },
    "node_modules/a-x": { version: "1", integrity: "x", os: ["linux"], cpu: ["x64"] },
    "node_modules/a-musl": { version: "1", integrity: "x", os: ["linux"], cpu: ["arm64"], libc: ["musl"] },
  };
  const paths = (processor: string) => lockedPaths(lock, ["a", "missing"], processor).map(({ path }) => path);
  expect(paths("arm64")).toEqual(["node_modules/a", "node_modules/a/node_modules/b", "node_modules/a-arm"]);
  expect(paths("x64")).toContain("node_modules/a-x");
});

it("the checksums of Node are those of the version that the repository has", () => {
  const read = (path: string) => JSON.parse(readFileSync(join(ROOT, path), "utf8"));
  expect(read("scripts/release/standalone/node-packages.json").version).toBe(read("package.json").dependencies.node);
});
