/** An image as a file, from files, without any tool: what `docker save` writes, which every runtime loads. */
import { createHash } from "node:crypto";
import { readFileSync, renameSync, writeFileSync } from "node:fs";

export interface ImageContents {
  /** With its tag. */
  readonly name: string;
  readonly entrypoint: readonly string[];
  /** Path in the image -> file of this machine; all of them may be executed. */
  readonly files: Readonly<Record<string, string>>;
}

/** Writes the archive at once, not in pieces: who finds the file finds all of it. */
export function writeImage(file: string, { name, entrypoint, files }: ImageContents): void {
  const folders = new Set<string>(["tmp/"]);
  const entries: Entry[] = [];
  for (const [path, source] of Object.entries(files)) {
    const parts = path.replace(/^\//, "").split("/");
    for (let depth = 1; depth < parts.length; depth++) folders.add(`${parts.slice(0, depth).join("/")}/`);
    entries.push({ name: parts.join("/"), mode: 0o755, data: readFileSync(source) });
  }
  const layer = tar([
    ...[...folders].map((folder) => ({ name: folder, mode: folder === "tmp/" ? 0o1777 : 0o755 })),
    ...entries,
  ]);
  const created = "2026-01-01T00:00:00Z";
  const config = Buffer.from(
    JSON.stringify({
      architecture: process.arch === "x64" ? "amd64" : process.arch,
      os: "linux",
      created,
      config: { Entrypoint: entrypoint, Env: ["PATH=/usr/local/bin:/usr/bin:/bin"], WorkingDir: "/" },
      rootfs: { type: "layers", diff_ids: [`sha256:${sha256(layer)}`] },
      history: [{ created }],
    }),
  );
  const parts = { config: `${sha256(config)}.json`, layer: `${sha256(layer)}/layer.tar` };
  const manifest = JSON.stringify([{ Config: parts.config, RepoTags: [name], Layers: [parts.layer] }]);
  const temporary = `${file}.${process.pid}`;
  writeFileSync(
    temporary,
    tar([
      { name: parts.config, mode: 0o644, data: config },
      { name: parts.layer, mode: 0o644, data: layer },
      { name: "manifest.json", mode: 0o644, data: Buffer.from(manifest) },
    ]),
  );
  renameSync(temporary, file);
}

const sha256 = (data: Buffer): string => createHash("sha256").update(data).digest("hex");

interface Entry {
  /** Ends in a slash: a folder. */
  readonly name: string;
  readonly mode: number;
  readonly data?: Buffer;
}

const BLOCK = 512;

/** Ustar: names of up to 100 characters. */
function tar(entries: readonly Entry[]): Buffer {
  const blocks: Buffer[] = [];
  for (const { name, mode, data = Buffer.alloc(0) } of entries) {
    if (Buffer.byteLength(name) > 100) throw new RangeError(`expected a name of at most 100 bytes, got ${name}`);
    const header = Buffer.alloc(BLOCK);
    const octal = (value: number, digits: number): string => `${value.toString(8).padStart(digits, "0")}\0`;
    header.write(name, 0);
    header.write(octal(mode, 7), 100);
    header.write(octal(0, 7), 108);
    header.write(octal(0, 7), 116);
    header.write(octal(data.length, 11), 124);
    header.write(octal(0, 11), 136);
    header.write(" ".repeat(8), 148);
    header.write(name.endsWith("/") ? "5" : "0", 156);
    header.write("ustar\x0000", 257, "latin1");
    const sum = header.reduce((total, byte) => total + byte, 0);
    header.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148);
    blocks.push(header, data, Buffer.alloc((BLOCK - (data.length % BLOCK)) % BLOCK));
  }
  return Buffer.concat([...blocks, Buffer.alloc(2 * BLOCK)]);
}
