import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { changesOf } from "./changelog.ts";
import { checkedVersion, VersionError, withImagesOf } from "./versions.ts";

const ROOT = join(import.meta.dirname, "../..");
const manifest = (path: string) => JSON.parse(readFileSync(join(ROOT, path), "utf8")) as Record<string, unknown>;
const version = String(manifest("package.json").version);

describe("a version", () => {
  it.each(["0.1.0", "1.2.3", "10.0.0-rc.1", "1.0.0-0a.b-c"])("may be %s", (text) => {
    expect(checkedVersion(text)).toBe(text);
  });
  it.each(["v1.2.3", "1.2", "01.2.3", "1.2.3+build", "", "1.2.3-", "latest"])("may not be %j", (text) => {
    expect(() => checkedVersion(text)).toThrow(VersionError);
  });
});

describe("images in a manifest", () => {
  it("get the version of the release, and others stay", () => {
    const text = "a: sallyport/router:0.1.0\nb: registry/sallyport/tunnel:0.1.0\nc: sallyport/other:0.1.0\n";
    expect(withImagesOf(text, "0.1.0", "2.0.0-rc.1")).toBe(
      "a: sallyport/router:2.0.0-rc.1\nb: registry/sallyport/tunnel:2.0.0-rc.1\nc: sallyport/other:0.1.0\n",
    );
  });
  it("must have that of the repository", () => {
    expect(() => withImagesOf("image: sallyport/router:0.0.9", "0.1.0", "2.0.0")).toThrow(
      "expected sallyport/router:0.1.0 in the repository, found sallyport/router:0.0.9",
    );
  });
});

describe("the repository", () => {
  it("has one version everywhere", () => {
    const paths = globSync("{packages/*,controller,router,operator,cli}/package.json", { cwd: ROOT });
    expect(paths.length).toBeGreaterThan(7);
    for (const path of paths) {
      const { version: own, dependencies = {} } = manifest(path);
      expect(own, path).toBe(version);
      for (const [name, range] of Object.entries(dependencies as Record<string, string>))
        if (name.startsWith("@sallyport/")) expect([version, `^${version}`], `${path}: ${name}`).toContain(range);
    }
    for (const path of globSync("{operator/deploy,examples}/**/*.yaml", { cwd: ROOT }))
      expect(() => withImagesOf(readFileSync(join(ROOT, path), "utf8"), version, version), path).not.toThrow();
  });
  it("tells of its version in the changelog", () => {
    expect(changesOf(readFileSync(join(ROOT, "CHANGELOG.md"), "utf8"), version)).toContain("### ");
  });
});
