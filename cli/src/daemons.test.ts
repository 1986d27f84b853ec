import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { becomeDaemon, DAEMONS, daemonFile, isDaemon } from "./daemons.ts";
import { main } from "./main.ts";
import { testContext } from "./testing/test-context.ts";

describe("the programs of a network", () => {
  let root: string;
  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), "sallyport-daemons-"));
  });
  afterEach(() => rmSync(root, { recursive: true, force: true }));

  const put = (...path: string[]): string => {
    const file = join(root, ...path);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, "#!/bin/sh\n", { mode: 0o755 });
    return file;
  };

  it("are found beside the program, as installed packages, in this repository, and on the PATH", () => {
    const start = put("node_modules", "@sallyport", "cli", "lib", "main.js");
    expect(daemonFile("router", start, { PATH: join(root, "bin") })).toBeUndefined();
    const onPath = put("bin", "sallyport-router");
    expect(daemonFile("router", start, { PATH: `:${join(root, "bin")}` })).toBe(onPath);
    const installed = put("node_modules", "@sallyport", "router", "lib", "main.js");
    expect(daemonFile("router", start, { PATH: join(root, "bin") })).toBe(installed);
    mkdirSync(join(root, "links"));
    symlinkSync(start, join(root, "links", "sallyport"));
    expect(daemonFile("router", join(root, "links", "sallyport"), {})).toBe(installed);
    const beside = put("links", "sallyport-router");
    expect(daemonFile("router", join(root, "links", "sallyport"), {})).toBe(beside);
    const source = join(import.meta.dirname, "main.ts");
    for (const { name } of DAEMONS) expect(daemonFile(name, source, {})).toMatch(/\/src\/main\.ts$/);
  });

  it("are named when they are not there", () => {
    const start = put("lib", "main.js");
    expect(() => becomeDaemon("operator", [], start, testContext())).toThrow(
      "sallyport-operator is not installed: install the package @sallyport/operator beside this one",
    );
  });

  it("are in the help", async () => {
    const context = testContext();
    await main(["--help"], context);
    for (const { name, summary } of DAEMONS) expect(context.output()).toMatch(new RegExp(`${name} +${summary}`));
    expect(isDaemon("get")).toBe(false);
  });
});
