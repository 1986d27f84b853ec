import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { file } from "./entry.ts";
import { tarball } from "./tarball.ts";

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "sallyport-tarball-"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const ENTRIES = [file("/package/lib/main.js", "run();\n", true), file("/package/package.json", "{}\n")];

it("a tarball holds files with their rights and one date, and is the same for the same", () => {
  const bytes = tarball(ENTRIES, 1_700_000_000);
  writeFileSync(join(folder, "a.tgz"), bytes);
  const listed = execFileSync("tar", ["-tzvf", join(folder, "a.tgz"), "--full-time", "--utc"], { encoding: "utf8" });
  const lines = listed.trim().split("\n");
  expect(lines.map((line) => line.replaceAll(/ +/g, " "))).toEqual([
    "-rwxr-xr-x 0/0 7 2023-11-14 22:13:20 package/lib/main.js",
    "-rw-r--r-- 0/0 3 2023-11-14 22:13:20 package/package.json",
  ]);
  expect(tarball(ENTRIES.toReversed(), 1_700_000_000).equals(bytes)).toBe(true);
  expect(tarball(ENTRIES, 1_700_000_001).equals(bytes)).toBe(false);
});
