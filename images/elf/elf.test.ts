import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { ElfError, isElf, readElf, withoutDebugParts } from "./elf.ts";

const node = readFileSync(process.execPath);

interface Made {
  readonly machine?: number;
  readonly bits?: number;
  readonly order?: number;
  readonly tags?: readonly (readonly [tag: number, text: string])[];
}

/** The smallest file that has what the dynamic loader reads: one loaded part, its table, and bytes behind. */
function make({ machine = 62, bits = 2, order = 1, tags = [] }: Made): Buffer {
  const bytes = Buffer.alloc(0x400);
  bytes.writeUInt32BE(0x7f454c46, 0);
  bytes[4] = bits;
  bytes[5] = order;
  bytes.writeUInt16LE(machine, 18);
  bytes.writeBigUInt64LE(64n, 32);
  bytes.writeBigUInt64LE(0x380n, 40);
  bytes.writeUInt16LE(56, 54);
  bytes.writeUInt16LE(3, 56);
  bytes.writeUInt16LE(5, 60);
  const segment = (index: number, type: number, offset: number, size: number) => {
    const at = 64 + 56 * index;
    bytes.writeUInt32LE(type, at);
    bytes.writeBigUInt64LE(BigInt(offset), at + 8);
    bytes.writeBigUInt64LE(BigInt(offset) + 0x10000n, at + 16);
    bytes.writeBigUInt64LE(BigInt(size), at + 32);
  };
  segment(0, 1, 0, 0x300);
  segment(1, 2, 0x100, 16 * (tags.length + 2));
  segment(2, 3, 0x2e0, 0x20);
  bytes.write("/lib64/loader\0", 0x2e0);
  let text = 0x201;
  const entry = (index: number, tag: number, value: number) => {
    bytes.writeBigUInt64LE(BigInt(tag), 0x100 + 16 * index);
    bytes.writeBigUInt64LE(BigInt(value), 0x108 + 16 * index);
  };
  tags.forEach(([tag, value], index) => {
    entry(index, tag, text - 0x200);
    text += bytes.write(`${value}\0`, text);
  });
  entry(tags.length, 5, 0x10200);
  return bytes;
}

describe("an ELF file", () => {
  it("tells its loader, the libraries it needs and where they are first looked for", () => {
    const bytes = make({
      tags: [
        [1, "libone.so.1"],
        [29, "$ORIGIN/../lib:/opt/lib"],
        [1, "libtwo.so"],
      ],
    });
    expect(readElf(bytes, "made")).toEqual({
      arch: "x64",
      interpreter: "/lib64/loader",
      needed: ["libone.so.1", "libtwo.so"],
      runPath: ["$ORIGIN/../lib", "/opt/lib"],
    });
    expect(readElf(make({ machine: 183 }), "made").arch).toBe("arm64");
    expect(readElf(make({ tags: [[15, "/old"]] }), "made").runPath).toEqual(["/old"]);
  });

  it.runIf(process.platform === "linux")("is read as what it is when a compiler made it", () => {
    const { arch, interpreter, needed } = readElf(node, process.execPath);
    expect(arch).toBe(process.arch);
    expect(interpreter).toMatch(/^\/lib.*\/ld-linux/);
    expect(needed).toContain("libc.so.6");
  });

  it("is refused when it is something else", () => {
    expect(isElf(Buffer.from("#!/bin/sh"))).toBe(false);
    expect(() => readElf(Buffer.from("#!/bin/sh"), "script")).toThrow(new ElfError("script is not an ELF file"));
    expect(() => readElf(make({ bits: 1 }), "made")).toThrow("made is not a 64-bit little-endian file");
    expect(() => readElf(make({ order: 2 }), "made")).toThrow(ElfError);
    expect(() => readElf(make({ machine: 8 }), "made")).toThrow("a processor other than x64 and arm64");
  });
});

describe("a file without its debug parts", () => {
  it("ends with its loaded parts, and has no table of sections", () => {
    const bytes = make({ tags: [[1, "libone.so.1"]] });
    const short = withoutDebugParts(bytes, "made");
    expect(short.length).toBe(0x300);
    expect(short.readBigUInt64LE(40)).toBe(0n);
    expect(short.readUInt16LE(60)).toBe(0);
    expect(readElf(short, "made")).toEqual(readElf(bytes, "made"));
    expect(bytes.length).toBe(0x400);
  });

  it.runIf(process.platform === "linux")("runs as before", () => {
    const folder = mkdtempSync(join(tmpdir(), "sallyport-elf-"));
    try {
      const short = withoutDebugParts(node, process.execPath);
      expect(short.length).toBeLessThan(node.length);
      writeFileSync(join(folder, "node"), short, { mode: 0o755 });
      const printed = execFileSync(join(folder, "node"), ["-p", "process.version"], { encoding: "utf8" });
      expect(printed.trim()).toBe(process.version);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});
