import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { completed, EntryError, file, folder, link } from "./entry.ts";
import { tarOf } from "./tar.ts";

const LONG = `/${"a-rather-long-name/".repeat(9)}übergröße.txt`;

describe("the entries of a layer", () => {
  it("are in the order of their paths, below the folders that are missing", () => {
    const entries = completed([file("/b/c/d", "x"), folder("/b", 0o700), link("/a", "b")]);
    expect(entries.map(({ kind, path }) => `${kind} ${path}`)).toEqual([
      "link /a",
      "folder /b",
      "folder /b/c",
      "file /b/c/d",
    ]);
    expect(entries[1]).toEqual(folder("/b", 0o700));
  });

  it.each(["a", "", "/", "/a/", "/a/../b", "/./a", "//a"])("can't be at %o", (path) => {
    expect(() => completed([file(path, "")])).toThrow(EntryError);
  });

  it("are refused when one path is to be two things, and taken when it is twice the same", () => {
    expect(() => completed([file("/a", "x"), file("/a", "y")])).toThrow("/a is to be two different things");
    expect(() => completed([file("/a", "x"), file("/a", "x", true)])).toThrow(EntryError);
    expect(() => completed([link("/a", "x"), folder("/a")])).toThrow(EntryError);
    expect(() => completed([link("/a", "x"), file("/a/b", "x")])).toThrow("/a is no folder, and /a/b lies in it");
    expect(completed([file("/a", "x"), file("/a", "x"), link("/b", "a"), link("/b", "a")])).toHaveLength(2);
  });
});

describe("an archive", () => {
  let target: string;
  beforeEach(() => {
    target = mkdtempSync(join(tmpdir(), "sallyport-tar-"));
  });
  afterEach(() => rmSync(target, { recursive: true, force: true }));

  const unpack = (bytes: Buffer) => {
    writeFileSync(join(target, "archive.tar"), bytes);
    execFileSync("tar", ["-xpf", "archive.tar"], { cwd: target });
  };

  it("is unpacked by tar to what it was made of", () => {
    const content = Buffer.from(Array.from({ length: 1_025 }, (_, index) => index % 256));
    unpack(
      tarOf(
        completed([
          file("/bin/run", "#!/bin/sh\n", true),
          file("/data", content),
          file("/empty", ""),
          file(LONG, "far away"),
          link("/short", "bin/run"),
          link("/far", LONG),
          folder("/tmp", 0o1777),
        ]),
      ),
    );
    expect(readFileSync(join(target, "data")).equals(content)).toBe(true);
    expect(statSync(join(target, "data")).mode & 0o7777).toBe(0o644);
    expect(statSync(join(target, "bin/run")).mode & 0o7777).toBe(0o755);
    expect(readFileSync(join(target, "empty"), "utf8")).toBe("");
    expect(readFileSync(join(target, LONG), "utf8")).toBe("far away");
    expect(readlinkSync(join(target, "short"))).toBe("bin/run");
    expect(readlinkSync(join(target, "far"))).toBe(LONG);
    expect(statSync(join(target, "tmp")).mode & 0o7777).toBe(0o1777);
    expect(statSync(join(target, "data")).mtimeMs).toBe(0);
    expect(readdirSync(target)).not.toContain("extended");
  });

  it("is listed with the owners of the entries", () => {
    writeFileSync(join(target, "archive.tar"), tarOf([folder("/own", 0o750, { uid: 65_532, gid: 65_533 })]));
    const listed = execFileSync("tar", ["-tvf", join(target, "archive.tar")], { encoding: "utf8" });
    expect(listed).toMatch(/^drwxr-x--- 65532\/65533 /);
  });

  it.each([99, 100, 101, 254, 255, 256, 990, 991, 992, 1_000])("takes a path of %d bytes", (length) => {
    const path = `/${"x".repeat(90)}/`.repeat(12).slice(0, length).replace(/\/$/, "x");
    unpack(tarOf([file(path, "here")]));
    expect(readFileSync(join(target, path), "utf8")).toBe("here");
  });

  it("has the same bytes whatever the order in which the entries came", () => {
    const entries = [file("/a", "1"), link("/b", "a"), folder("/c"), file(LONG, "2")];
    const one = tarOf(completed(entries));
    expect(tarOf(completed([...entries].reverse())).equals(one)).toBe(true);
    expect(one.length % 10_240).toBe(0);
  });
});
