import type { Entry } from "./entry.ts";

const BLOCK = 512;
/** Ends of archives are filled up to this. */
const RECORD = 20 * BLOCK;
const TYPES = { file: "0", link: "2", folder: "5" } as const;
const EXTENDED = "x";
const NAME_BYTES = 100;

interface Header {
  readonly name: string;
  readonly type: string;
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
  readonly size: number;
  readonly target: string;
}

/**
 * The entries as a POSIX tar archive. The same entries give the same bytes: one date, no names of users, one form for every path (names
 * that do not fit are told in an extended header).
 *
 * @param changedAt date of every entry, in seconds since 1970
 */
export function tarOf(entries: readonly Entry[], changedAt = 0): Buffer {
  const pieces: Buffer[] = [];
  for (const entry of entries) {
    const header = headerOf(entry);
    const long = { path: header.name, linkpath: header.target };
    const records = Object.entries(long).filter(([, value]) => Buffer.byteLength(value) > NAME_BYTES);
    if (records.length > 0) {
      const text = Buffer.from(records.map(([key, value]) => extended(key, value)).join(""));
      const own = { ...header, name: "extended", target: "", type: EXTENDED, mode: 0o644, size: text.length };
      pieces.push(encode(own, changedAt), text, padding(text.length, BLOCK));
    }
    pieces.push(encode(header, changedAt));
    if (entry.kind === "file") pieces.push(entry.content, padding(entry.content.length, BLOCK));
  }
  const length = pieces.reduce((sum, piece) => sum + piece.length, 0);
  return Buffer.concat([...pieces, Buffer.alloc(2 * BLOCK), padding(length + 2 * BLOCK, RECORD)]);
}

function headerOf(entry: Entry): Header {
  const name = entry.path.slice(1);
  const base = { name, type: TYPES[entry.kind], uid: 0, gid: 0, size: 0, target: "" };
  if (entry.kind === "file") return { ...base, mode: entry.isExecutable ? 0o755 : 0o644, size: entry.content.length };
  if (entry.kind === "link") return { ...base, mode: 0o777, target: entry.target };
  return { ...base, name: `${name}/`, mode: entry.mode, uid: entry.uid, gid: entry.gid };
}

function encode(header: Header, changedAt: number): Buffer {
  const block = Buffer.alloc(BLOCK);
  const text = (value: string, at: number, length: number) => block.write(value.slice(0, length), at, length, "utf8");
  const octal = (value: number, at: number, length: number) =>
    text(`${value.toString(8).padStart(length - 1, "0")}\0`, at, length);
  text(header.name, 0, NAME_BYTES);
  octal(header.mode, 100, 8);
  octal(header.uid, 108, 8);
  octal(header.gid, 116, 8);
  octal(header.size, 124, 12);
  octal(changedAt, 136, 12);
  text(" ".repeat(8), 148, 8);
  text(header.type, 156, 1);
  text(header.target, 157, NAME_BYTES);
  text("ustar\u000000", 257, 8);
  const sum = block.reduce((total, byte) => total + byte, 0);
  text(`${sum.toString(8).padStart(6, "0")}\0 `, 148, 8);
  return block;
}

/** A record of an extended header says its own length first. */
function extended(key: string, value: string): string {
  const rest = ` ${key}=${value}\n`;
  const bytes = Buffer.byteLength(rest);
  let length = bytes + String(bytes).length;
  if (String(length).length > String(bytes).length) length = bytes + String(length).length;
  return `${length}${rest}`;
}

function padding(length: number, unit: number): Buffer {
  return Buffer.alloc((unit - (length % unit)) % unit);
}
