import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { replaceFiles, stageFile, whyUnwritable } from "./staged-file.ts";

const run = promisify(execFile);
let dir: string;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "sallyport-staged-"));
  await writeFile(join(dir, "a"), "old a");
});
afterEach(() => rm(dir, { recursive: true }));

describe("replacing files", () => {
  it("changes nothing until everything is on disk and the step between succeeded", async () => {
    const files = [
      [join(dir, "a"), "new a"],
      [join(dir, "sub", "b"), "new b"],
    ] as const;
    const failing = replaceFiles(files, async () => {
      expect(await readFile(join(dir, "a"), "utf8")).toBe("old a");
      throw new Error("not confirmed");
    });
    await expect(failing).rejects.toThrow("not confirmed");
    expect([await readdir(dir), await readdir(join(dir, "sub"))]).toEqual([["a", "sub"], []]);
    await replaceFiles(files);
    expect(await readFile(join(dir, "a"), "utf8")).toBe("new a");
    expect((await stat(join(dir, "sub", "b"))).mode & 0o777).toBe(0o600);
    expect(await readdir(dir)).toEqual(["a", "sub"]);
  });

  it.skipIf(process.getuid?.() !== 0)("leaves the old files when the disk is full", async () => {
    const disk = join(dir, "disk");
    await mkdir(disk);
    await run("mount", ["-t", "tmpfs", "-o", "size=64k", "none", disk]);
    try {
      await writeFile(join(disk, "cert"), "old");
      const full = replaceFiles([
        [join(dir, "a"), "new a"],
        [join(disk, "cert"), "x".repeat(128 * 1024)],
      ]);
      await expect(full).rejects.toMatchObject({ code: "ENOSPC" });
      expect([await readFile(join(dir, "a"), "utf8"), await readFile(join(disk, "cert"), "utf8")]).toEqual([
        "old a",
        "old",
      ]);
      expect([await readdir(dir), await readdir(disk)]).toEqual([["a", "disk"], ["cert"]]);
    } finally {
      await run("umount", [disk]);
    }
  });

  it("says why a file cannot be written", async () => {
    expect(await whyUnwritable(join(dir, "a"))).toBeUndefined();
    expect(await whyUnwritable(join(dir, "new"))).toBeUndefined();
    expect(await whyUnwritable(join(dir, "no", "where"))).toMatch(/ENOENT/);
    const staged = await stageFile(join(dir, "a"), "new a");
    await staged.discard();
    expect(await readdir(dir)).toEqual(["a"]);
  });
});
