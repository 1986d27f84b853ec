import { lstatSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { file, folder, link } from "@sallyport/program/archive/entry";
import { describe, expect, it } from "vitest";
import { writeFolder } from "./folder.ts";

describe("a folder of entries", () => {
  it("holds them with their rights, whatever the umask", () => {
    const target = mkdtempSync(join(tmpdir(), "sallyport-folder-"));
    const before = process.umask(0o077);
    try {
      const entries = [
        file("/bin/run", "#!", true),
        file("/etc/a", "b"),
        link("/bin/r", "run"),
        folder("/tmp", 0o1777),
      ];
      writeFolder(target, entries);
      const modes = readdirSync(target, { recursive: true }).map((path) => {
        const found = lstatSync(join(target, `${path}`));
        return [path, found.isSymbolicLink() ? "link" : (found.mode & 0o7777).toString(8)];
      });
      expect(Object.fromEntries(modes)).toEqual({
        bin: "755",
        "bin/run": "755",
        "bin/r": "link",
        etc: "755",
        "etc/a": "644",
        tmp: "1777",
      });
      expect(readFileSync(join(target, "etc/a"), "utf8")).toBe("b");
      expect(readlinkSync(join(target, "bin/r"))).toBe("run");
    } finally {
      process.umask(before);
      rmSync(target, { recursive: true, force: true });
    }
  });
});
