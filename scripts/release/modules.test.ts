import { describe, expect, it } from "vitest";
import { ModuleError, neighbourOf, reachedModules, type Target } from "./modules.ts";

const resolve = (specifier: string, from: string): Target => {
  if (specifier.startsWith(".")) return { module: neighbourOf(specifier, from) };
  return specifier === "@own/wire" ? { module: "lib/wire/index.js" } : { specifier };
};
const reached = (files: Readonly<Record<string, string>>, ...entries: string[]) =>
  reachedModules(entries, (path) => files[path], resolve);

describe("the modules of a package", () => {
  it("are those that are reached, and the packages those that are named", () => {
    const { modules, packages } = reached(
      {
        "lib/index.js":
          'import { a } from "./deep/a.js";\nimport "side-effect";\nimport { z } from "@scope/name/sub";\n',
        "lib/deep/a.js": 'export * from "../b.js";\nconst c = await import("lazy");\n',
        "lib/b.js": 'import { x } from "node:fs";\nimport { w } from "@own/wire";\n',
        "lib/wire/index.js": "export const w = 1;\n",
        "lib/unused.js": 'import "nobody";',
      },
      "lib/index.js",
    );
    expect([...modules.keys()].sort()).toEqual(["lib/b.js", "lib/deep/a.js", "lib/index.js", "lib/wire/index.js"]);
    expect(packages).toEqual(["@scope/name", "lazy", "side-effect"]);
    expect(modules.get("lib/b.js")).toBe('import { x } from "node:fs";\nimport { w } from "./wire/index.js";\n');
    expect(modules.get("lib/deep/a.js")).toContain('export * from "../b.js"');
  });

  it("name JavaScript in declarations, which stand for the declarations beside it", () => {
    const { modules } = reached(
      {
        "index.d.ts": 'export type { A } from "./a.ts";\nexport declare const b: import("./b.ts").B;\n',
        "a.d.ts": "export type A = 1;\n",
        "b.d.ts": "export type B = 1;\n",
      },
      "index.d.ts",
    );
    expect(modules.get("index.d.ts")).toBe(
      'export type { A } from "./a.js";\nexport declare const b: import("./b.js").B;\n',
    );
    expect([...modules.keys()]).toEqual(["index.d.ts", "a.d.ts", "b.d.ts"]);
  });

  it("leave comments alone", () => {
    const text = '/**\n * import { Context } from "@own/nothing";\n */\nexport {};\n';
    expect(reached({ "a.js": text }, "a.js").modules.get("a.js")).toBe(text);
  });

  it("have to be there", () => {
    expect(() => reached({ "a.js": 'import "./b.js";' }, "a.js")).toThrow(ModuleError);
    expect(() => reached({ "a.js": 'import "./b.js";' }, "a.js")).toThrow("b.js is not there, and a.js names it");
  });
});
