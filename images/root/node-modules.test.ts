import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ModulesError, nodeModules } from "./node-modules.ts";

describe("the modules of a program", () => {
  let root: string;
  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), "sallyport-modules-"));
  });
  afterEach(() => rmSync(root, { recursive: true, force: true }));

  const write = (path: string, text = path) => {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
  };
  const install = (path: string, manifest: object = {}) =>
    write(`node_modules/${path}/package.json`, JSON.stringify(manifest));
  const paths = (manifest: Parameters<typeof nodeModules>[1]) =>
    nodeModules(root, manifest, "/opt").entries.map(({ path }) => path);

  it("are the packages that it needs, what these need, and what is there of the optional ones", () => {
    install("one", { dependencies: { two: "*" }, optionalDependencies: { absent: "*", three: "*" } });
    install("two");
    install("three");
    install("unlisted");
    expect(paths({ dependencies: { one: "*" } }).sort()).toEqual([
      "/opt/node_modules/one/package.json",
      "/opt/node_modules/three/package.json",
      "/opt/node_modules/two/package.json",
    ]);
  });

  it("lie where Node finds them from those that need them", () => {
    install("one", { dependencies: { two: "1" } });
    install("two", { version: "2.0.0" });
    install("one/node_modules/two", { version: "1.0.0" });
    expect(paths({ dependencies: { one: "*", two: "2" } }).sort()).toEqual([
      "/opt/node_modules/one/node_modules/two/package.json",
      "/opt/node_modules/one/package.json",
      "/opt/node_modules/two/package.json",
    ]);
  });

  it("may need one another", () => {
    install("one", { dependencies: { two: "*" } });
    install("two", { dependencies: { one: "*" } });
    expect(paths({ dependencies: { one: "*" } })).toHaveLength(2);
  });

  it("are without sources, types, documentation, licences and parts for other systems, processors and C libraries", () => {
    install("one", { dependencies: { "one-linux-x64-musl": "*" } });
    install("one-linux-x64-musl");
    const other = process.arch === "x64" ? "arm64" : "x64";
    for (const path of [
      "index.js",
      "LICENSE",
      `prebuilds/linux-${process.arch}/one.node`,
      `linux_${process.arch}/one.node`,
      "index.d.ts",
      "README.md",
      "src/one.cc",
      "binding.gyp",
      "index.js.map",
      `prebuilds/linux-${other}/one.node`,
      `prebuilds/darwin-${process.arch}/one.node`,
      `prebuilds/win32-${process.arch}/one.node`,
      `musl_${process.arch}/one.node`,
    ])
      write(`node_modules/one/${path}`);
    const found = paths({ dependencies: { one: "*" } });
    expect(found.map((path) => path.slice("/opt/node_modules/one/".length)).sort()).toEqual(
      ["index.js", `linux_${process.arch}/one.node`, "package.json", `prebuilds/linux-${process.arch}/one.node`].sort(),
    );
  });

  it("must be installed when they are needed", () => {
    install("one", { dependencies: { two: "*" } });
    expect(() => paths({ dependencies: { one: "*" } })).toThrow(ModulesError);
    expect(() => paths({ dependencies: { one: "*" } })).toThrow(/two, which .*one needs, is not installed/);
  });
});
