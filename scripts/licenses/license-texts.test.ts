import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { LicenseError, licenseTexts } from "./license-texts.ts";

describe("the licences of packages", () => {
  let root: string;
  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), "sallyport-licenses-"));
    mkdirSync(join(root, "given"));
  });
  afterEach(() => rmSync(root, { recursive: true, force: true }));

  const write = (path: string, text = path) => {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
  };
  const install = (name: string, ...files: string[]): string => {
    write(`node_modules/${name}/package.json`, JSON.stringify({ name, version: "1.2.3" }));
    for (const file of files) write(`node_modules/${name}/${file}`);
    return join(root, "node_modules", name);
  };
  const texts = (...homes: string[]) =>
    licenseTexts(homes, join(root, "given")).map(({ path, content }) => [path, content.toString()]);

  it.each([
    "LICENSE",
    "license",
    "LICENSE.md",
    "LICENCE.txt",
    "LICENSE-MIT",
    "UNLICENSE",
    "COPYING",
    "NOTICE",
    "CopyrightNotice.txt",
    "THIRD-PARTY-LICENSE",
    "vendor/part/LICENSE",
  ])("are those that they bring, such as %s", (file) => {
    const home = install("one", file, "README.md", "index.js", "license.js", "copyright.d.ts", "notice.json");
    expect(texts(home)).toEqual([[`one@1.2.3/${file}`, `node_modules/one/${file}`]]);
  });

  it("are not those of packages inside, which are asked for on their own", () => {
    const outer = install("@scope/outer", "LICENSE");
    const inner = install("@scope/outer/node_modules/inner", "LICENSE");
    expect(texts(outer).map(([path]) => path)).toEqual(["@scope/outer@1.2.3/LICENSE"]);
    expect(texts(outer, inner)).toHaveLength(2);
  });

  it("are those that are given for them besides, where they do not bring the same file", () => {
    write("given/one/library.txt", "of a library in it");
    write("given/one/LICENSE", "from the time when it brought none");
    expect(texts(install("one", "LICENSE"))).toEqual([
      ["one@1.2.3/LICENSE", "node_modules/one/LICENSE"],
      ["one@1.2.3/library.txt", "of a library in it"],
    ]);
  });

  it("are those of the whole, for the part that is for one platform", () => {
    install("@scope/one", "LICENSE");
    write("given/@other/LICENSE", "given for all platforms");
    expect(texts(install("@scope/one-linux-x64-gnu"), install("@other/linux-x64"))).toEqual([
      ["@scope/one-linux-x64-gnu@1.2.3/LICENSE", "node_modules/@scope/one/LICENSE"],
      ["@other/linux-x64@1.2.3/LICENSE", "given for all platforms"],
    ]);
  });

  it("have to be there", () => {
    expect(() => texts(install("one", "README.md"))).toThrow(LicenseError);
    expect(() => texts(install("@scope/two", "index.js"))).toThrow(/^@scope\/two@1\.2\.3 .* no text of its licence/);
  });

  it("that are given for one version are those of no other", () => {
    const home = install("one");
    write("given/one@1.2.2/LICENSE");
    expect(() => texts(home)).toThrow(/^one@1\.2\.3 .*given\/one@1\.2\.3 if it is for this version only/);
    write("given/one@1.2.3/LICENSE", "the new one");
    expect(texts(home)).toEqual([["one@1.2.3/LICENSE", "the new one"]]);
  });
});
