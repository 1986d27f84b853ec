import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import type { Entry } from "@sallyport/program/archive/entry";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type Library, libraryEntries } from "./library-package.ts";
import { ModuleError } from "./modules.ts";
import { programEntries } from "./program-package.ts";

const LIBRARY: Library = {
  name: "one",
  title: "The first.",
  holds: ["held"],
  threads: [],
  guide: "docs/sdk.md",
};

describe("packages of npm", () => {
  let root: string;
  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), "sallyport-packages-"));
    write("LICENSE", "free");
    const one = { exports: { ".": "./src/index.ts" }, bin: { "sallyport-one": "src/main.ts" } };
    manifest("one", {
      ...one,
      dependencies: { pino: "^1.0.0", unused: "1" },
      optionalDependencies: { koffi: "^3.0.0" },
    });
    manifest("held", { exports: { ".": "./src/index.ts" }, dependencies: { zod: "^4.0.0" } });
    emitted(
      "one",
      "index",
      'export * from "./a.js";\nexport { h } from "@sallyport/held";\n',
      'export * from "./a.ts";\nexport { h } from "@sallyport/held";\n',
    );
    emitted("one", "a", 'import "pino";\n', "export type A = 1;\n");
    emitted("one", "main", '#!/usr/bin/env node\nawait import("koffi");\n', "export {};\n");
    emitted("held", "index", "export const h = 1;\n", 'import type { z } from "zod";\nexport declare const h: z;\n');
  });
  afterEach(() => rmSync(root, { recursive: true, force: true }));

  const write = (path: string, text: string) => {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
  };
  const manifest = (name: string, more: object) =>
    write(
      `packages/${name}/package.json`,
      JSON.stringify({ name: `@sallyport/${name}`, license: "Apache-2.0", private: true, ...more }),
    );
  const emitted = (name: string, module: string, javascript: string, declaration: string) => {
    write(`compiled/packages/${name}/src/${module}.js`, javascript);
    write(`compiled/packages/${name}/src/${module}.d.ts`, declaration);
  };
  const library = (more: Partial<Library> = {}) =>
    filesOf(libraryEntries(root, { ...LIBRARY, ...more }, join(root, "compiled"), "1.2.3"));

  it("of libraries hold what is reached, with the parts of the repository in them", () => {
    const files = library();
    expect([...files.keys()].sort()).toEqual(
      [
        ...["LICENSE", "README.md", "package.json"],
        ...["lib/index", "lib/a", "lib/main", "parts/held/index"].flatMap((name) => [`${name}.js`, `${name}.d.ts`]),
        "lib/program.js",
      ].sort(),
    );
    expect(files.get("lib/index.js")).toContain('from "../parts/held/index.js"');
    expect(files.get("lib/main.js")).toMatch(
      /^#!\/usr\/bin\/env node\n[\s\S]*>= 22\b[\s\S]*import\("\.\/program\.js"\)/,
    );
    expect(files.get("lib/program.js")).toContain('await import("koffi")');
    expect(JSON.parse(files.get("package.json") ?? "")).toMatchObject({
      name: "@sallyport/one",
      version: "1.2.3",
      bin: { "sallyport-one": "lib/main.js" },
      exports: {
        ".": { types: "./lib/index.d.ts", default: "./lib/index.js" },
      },
      dependencies: { pino: "^1.0.0", zod: "^4.0.0" },
      optionalDependencies: { koffi: "^3.0.0" },
    });
    expect(JSON.parse(files.get("package.json") ?? "").dependencies).not.toHaveProperty("unused");
  });

  it("of libraries are refused with a part that they cannot have", () => {
    expect(() => library({ holds: [] })).toThrow(ModuleError);
    emitted("one", "a", 'import "undeclared";\n', "export {};\n");
    expect(() => library()).toThrow("asks for undeclared, which is a dependency of none of its parts");
  });

  it("of programs are what was packed, with the program to be started", () => {
    write(
      "packed/package.json",
      JSON.stringify({
        name: "@sallyport/router",
        version: "1.2.3",
        engines: { node: ">=26" },
        bin: { "sallyport-router": "lib/main.js" },
      }),
    );
    for (const path of ["lib/main.js", "lib/tls-worker.js", "licenses/ws@1.0.0/LICENSE"]) write(`packed/${path}`, path);
    const entries = programEntries(root, { name: "router", title: "A router." }, join(root, "packed"));
    const files = filesOf(entries);
    expect([...files.keys()].sort()).toEqual(
      ["LICENSE", "README.md", "lib/main.js", "lib/tls-worker.js", "licenses/ws@1.0.0/LICENSE", "package.json"].sort(),
    );
    expect(JSON.parse(files.get("package.json") ?? "")).toMatchObject({ version: "1.2.3", engines: { node: ">=26" } });
    const executable = entries.filter((entry) => entry.kind === "file" && entry.isExecutable);
    expect(executable.map(({ path }) => path)).toEqual(["/package/lib/main.js"]);
  });
});

function filesOf(entries: readonly Entry[]): Map<string, string> {
  return new Map(
    entries.map((entry) => [
      entry.path.replace("/package/", ""),
      entry.kind === "file" ? entry.content.toString() : "",
    ]),
  );
}
