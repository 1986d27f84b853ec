import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { build } from "rolldown";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { bundledPackages } from "./bundled-packages.ts";
import { LicenseError } from "./license-texts.ts";

describe("the packages in a packed program", () => {
  let root: string;
  beforeEach(() => {
    root = realpathSync(mkdtempSync(join(tmpdir(), "sallyport-bundle-")));
  });
  afterEach(() => rmSync(root, { recursive: true, force: true }));

  const write = (path: string, text: string) => {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
  };
  const install = (path: string, code: string) => {
    write(
      `node_modules/${path}/package.json`,
      JSON.stringify({ type: "module", main: "index.js", sideEffects: false }),
    );
    write(`node_modules/${path}/index.js`, code);
  };
  const pack = async (main: string) => {
    write("main.js", main);
    const { output } = await build({
      cwd: root,
      input: "main.js",
      external: /^outside$/,
      logLevel: "silent",
      write: false,
    });
    return bundledPackages(root, output).map((home) => home.slice(root.length + 1));
  };

  it("are those of which there is code, wherever they lie", async () => {
    install("one", 'import { b } from "@scope/two"; export const a = () => b() + "one";');
    install("@scope/two", 'import { c } from "three"; export const b = () => c() + "two";');
    install("@scope/two/node_modules/three", 'export const c = () => "three";');
    install("unused", 'export const d = () => "unused";');
    const main = 'import { a } from "one"; import { d } from "unused"; import "outside"; console.log(a());';
    expect(await pack(main)).toEqual([
      "node_modules/@scope/two",
      "node_modules/@scope/two/node_modules/three",
      "node_modules/one",
    ]);
  });

  it("are none when the program is all our own", async () => {
    write("own.js", "export const a = 1;");
    expect(await pack('import { a } from "./own.js"; console.log(a);')).toEqual([]);
  });

  it("are the packer, too, when it put code of its own in", async () => {
    write("old.cjs", "exports.a = 1;");
    expect(await pack('import old from "./old.cjs"; console.log(old);')).toEqual(["node_modules/rolldown"]);
  });

  it("have to be known", async () => {
    const elsewhere = { type: "chunk", modules: { "/elsewhere/file.js": { renderedLength: 3 } } };
    const output = [elsewhere] as unknown as Parameters<typeof bundledPackages>[1];
    expect(() => bundledPackages(root, output)).toThrow(LicenseError);
    expect(() => bundledPackages(root, output)).toThrow(/"\/elsewhere\/file\.js"/);
  });
});
