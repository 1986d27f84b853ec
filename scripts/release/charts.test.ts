import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ChartError, chartEntries } from "./charts.ts";
import { VersionError } from "./versions.ts";

describe("a chart that is packed", () => {
  let root: string;
  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), "sallyport-chart-"));
    write("Chart.yaml", "apiVersion: v2\nname: net\nversion: 1.0.0 # as the repository\nappVersion: 1.0.0\n");
  });
  afterEach(() => rmSync(root, { recursive: true, force: true }));

  const write = (path: string, text: string) => {
    mkdirSync(dirname(join(root, "net", path)), { recursive: true });
    writeFileSync(join(root, "net", path), text);
  };
  const packed = (version = "2.0.0") =>
    new Map(
      chartEntries(join(root, "net"), "1.0.0", version).map((entry) => [
        entry.path,
        entry.kind === "file" ? entry.content.toString() : "",
      ]),
    );

  it("has the version of the release, and our images with it", () => {
    write("values.yaml", "image: sallyport/router:1.0.0\nother: busybox:1.0.0\n");
    expect(packed().get("/net/Chart.yaml")).toContain("version: 2.0.0 # as the repository\nappVersion: 2.0.0\n");
    expect(packed().get("/net/values.yaml")).toBe("image: sallyport/router:2.0.0\nother: busybox:1.0.0\n");
  });

  it("leaves out what .helmignore lists", () => {
    for (const path of ["templates/a.yaml", "templates/a.orig", "examples/b.yaml", "templates/examples/c.yaml"])
      write(path, "{}\n");
    write(".helmignore", "# comments\n*.orig\n/examples/\n");
    // Helm leaves the list itself in.
    expect([...packed().keys()].sort()).toEqual([
      "/net/.helmignore",
      "/net/Chart.yaml",
      "/net/templates/a.yaml",
      "/net/templates/examples/c.yaml",
    ]);
    write(".helmignore", "examples\n");
    expect([...packed().keys()]).not.toContain("/net/templates/examples/c.yaml");
  });

  it.each(["!kept", "a/b", "[ab]"])("is refused with the pattern %s, which is not done here", (pattern) => {
    write(".helmignore", `${pattern}\n`);
    expect(() => packed()).toThrow(ChartError);
  });

  it("is refused when it has another version than the repository", () => {
    write("Chart.yaml", "name: net\nversion: 1.0.0\nappVersion: 0.9.0\n");
    expect(() => packed()).toThrow("net/Chart.yaml: appVersion must be 1.0.0, found 0.9.0");
    write("Chart.yaml", "name: net\nversion: 1.0.0\nappVersion: 1.0.0\n");
    write("templates/a.yaml", "image: sallyport/router:0.9.0\n");
    expect(() => packed()).toThrow(VersionError);
  });
});
