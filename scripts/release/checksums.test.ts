import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { checksums } from "./checksums.ts";

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "sallyport-checksums-"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

it("checksums are those that sha256sum checks", () => {
  const files = new Map([
    ["b.txt", Buffer.from("b")],
    ["a.txt", Buffer.from("a")],
  ]);
  for (const [name, bytes] of files) writeFileSync(join(folder, name), bytes);
  writeFileSync(join(folder, "SHA256SUMS"), checksums(files));
  const check = () =>
    execFileSync("sha256sum", ["--check", "--strict", "SHA256SUMS"], { cwd: folder, encoding: "utf8" });
  expect(check()).toBe("a.txt: OK\nb.txt: OK\n");
  writeFileSync(join(folder, "a.txt"), `${readFileSync(join(folder, "a.txt"), "utf8")}!`);
  expect(check).toThrow();
});
