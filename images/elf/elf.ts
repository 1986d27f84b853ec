/** A file is not an ELF program or library that this can read. */
export class ElfError extends Error {
  override name = "ElfError";
}

/** What the dynamic loader needs to know of a program or library. */
export interface Elf {
  /** Kind of processor, as `process.arch` names it. */
  readonly arch: "x64" | "arm64";
  /** Path of the dynamic loader; programs have one, libraries have none. */
  readonly interpreter: string | undefined;
  /** Names of the libraries it needs. */
  readonly needed: readonly string[];
  /** Folders in which they are looked for first; may hold `$ORIGIN`. */
  readonly runPath: readonly string[];
}

const MAGIC = 0x7f454c46;
const CLASS_64 = 2;
const LITTLE_ENDIAN = 1;
const ARCHS: Readonly<Record<number, Elf["arch"]>> = { 62: "x64", 183: "arm64" };
const HEADER = {
  machine: 18,
  programs: 32,
  sections: 40,
  programSize: 54,
  programCount: 56,
  sectionCount: 60,
} as const;
const PROGRAM = { type: 0, offset: 8, address: 16, fileSize: 32 } as const;
const SegmentType = { Load: 1, Dynamic: 2, Interpreter: 3 } as const;
const Tag = { End: 0, Needed: 1, Strings: 5, RunPathOld: 15, RunPath: 29 } as const;

interface Segment {
  readonly type: number;
  readonly offset: number;
  readonly address: number;
  readonly fileSize: number;
}

export function isElf(bytes: Buffer): boolean {
  return bytes.length >= 64 && bytes.readUInt32BE(0) === MAGIC;
}

/** @throws ElfError when it is not a 64-bit little-endian ELF file for a processor that we know */
export function readElf(bytes: Buffer, path: string): Elf {
  const segments = segmentsOf(bytes, path);
  const arch = ARCHS[bytes.readUInt16LE(HEADER.machine)];
  if (arch === undefined) throw new ElfError(`${path} is for a processor other than x64 and arm64`);
  const interpreter = segments.find((segment) => segment.type === SegmentType.Interpreter);
  return {
    arch,
    interpreter: interpreter && textAt(bytes, interpreter.offset),
    ...dynamicOf(bytes, segments),
  };
}

/**
 * A copy of the file without what follows its loaded parts: symbols for debuggers and the table of sections. It runs as before; a debugger knows
 * less of it.
 */
export function withoutDebugParts(bytes: Buffer, path: string): Buffer {
  const segments = segmentsOf(bytes, path);
  const end = Math.max(...segments.map((segment) => segment.offset + segment.fileSize));
  const short = Buffer.from(bytes.subarray(0, end));
  short.writeBigUInt64LE(0n, HEADER.sections);
  short.writeUInt16LE(0, HEADER.sectionCount);
  short.writeUInt16LE(0, HEADER.sectionCount + 2);
  return short;
}

function segmentsOf(bytes: Buffer, path: string): Segment[] {
  if (!isElf(bytes)) throw new ElfError(`${path} is not an ELF file`);
  if (bytes[4] !== CLASS_64 || bytes[5] !== LITTLE_ENDIAN)
    throw new ElfError(`${path} is not a 64-bit little-endian file`);
  const start = Number(bytes.readBigUInt64LE(HEADER.programs));
  const size = bytes.readUInt16LE(HEADER.programSize);
  return Array.from({ length: bytes.readUInt16LE(HEADER.programCount) }, (_, index) => {
    const at = start + index * size;
    const number = (field: number) => Number(bytes.readBigUInt64LE(at + field));
    return {
      type: bytes.readUInt32LE(at + PROGRAM.type),
      offset: number(PROGRAM.offset),
      address: number(PROGRAM.address),
      fileSize: number(PROGRAM.fileSize),
    };
  });
}

function dynamicOf(bytes: Buffer, segments: readonly Segment[]): Pick<Elf, "needed" | "runPath"> {
  const dynamic = segments.find((segment) => segment.type === SegmentType.Dynamic);
  if (dynamic === undefined) return { needed: [], runPath: [] };
  const entries: { tag: number; value: number }[] = [];
  for (let at = dynamic.offset; at < dynamic.offset + dynamic.fileSize; at += 16) {
    const tag = Number(bytes.readBigInt64LE(at));
    if (tag === Tag.End) break;
    entries.push({ tag, value: Number(bytes.readBigUInt64LE(at + 8)) });
  }
  const address = entries.find((entry) => entry.tag === Tag.Strings)?.value ?? 0;
  const home = segments.find(
    (each) => each.type === SegmentType.Load && address >= each.address && address < each.address + each.fileSize,
  );
  if (home === undefined) return { needed: [], runPath: [] };
  const strings = address - home.address + home.offset;
  const texts = (...tags: number[]) =>
    entries.filter((entry) => tags.includes(entry.tag)).map((entry) => textAt(bytes, strings + entry.value));
  return {
    needed: texts(Tag.Needed),
    runPath: texts(Tag.RunPath, Tag.RunPathOld).flatMap((text) => text.split(":")),
  };
}

function textAt(bytes: Buffer, offset: number): string {
  return bytes.toString("latin1", offset, bytes.indexOf(0, offset));
}
