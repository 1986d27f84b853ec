import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startFile } from "./start-file.ts";

const PROGRAM = { program: "sallyport-router", source: "#!/usr/bin/env node\nrun();\n", main: "./program.js" };
const [MAJOR = ""] = process.versions.node.split(".");

describe("the start file of a packed program", () => {
  let folder: string;
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), "sallyport-start-"));
    writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
    writeFileSync(join(folder, "program.js"), "console.log(process.argv.slice(2).join()); process.exitCode = 3;\n");
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  const run = (needed: number) => {
    writeFileSync(join(folder, "main.js"), startFile({ ...PROGRAM, engines: { node: `>=${needed}` } }));
    return spawnSync(process.execPath, [join(folder, "main.js"), "a", "b"], { encoding: "utf8" });
  };

  it("starts the program on the Node that it needs", () => {
    expect(run(Number(MAJOR))).toMatchObject({ status: 3, stdout: "a,b\n", stderr: "" });
  });

  it("says in one line what it needs on an older one, and exits with 1", () => {
    expect(run(Number(MAJOR) + 1)).toMatchObject({
      status: 1,
      stdout: "",
      stderr: `sallyport-router needs Node ${Number(MAJOR) + 1}.x or later; this is ${process.version} (${process.execPath}); get it from https://nodejs.org, or for one project by: npm install node@${Number(MAJOR) + 1}\n`,
    });
  });

  it("has the flags of the program, but those that an older Node refuses before it", () => {
    const firstLine = (source: string) => startFile({ ...PROGRAM, source, engines: { node: ">=26" } }).split("\n")[0];
    expect(firstLine(PROGRAM.source)).toBe("#!/usr/bin/env node");
    expect(firstLine("#!/usr/bin/env -S node --max-opt=1 --max-semi-space-size=4\n")).toBe(
      "#!/usr/bin/env -S node --max-semi-space-size=4",
    );
  });

  it("is not made for engines that it could not check", () => {
    expect(() => startFile({ ...PROGRAM, engines: { node: ">=26.1 <30" } })).toThrow("found >=26.1 <30");
  });
});
