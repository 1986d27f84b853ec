import type { BuiltImage } from "./build.ts";

export interface Row extends BuiltImage {
  readonly archive: string;
  /** Largest size when pulled, in bytes. */
  readonly limit: number;
}

const MEGABYTE = 1_000_000;

/** What was made and how large it is, one image a line; sizes in millions of bytes. */
export function sizeTable(rows: readonly Row[]): string {
  const head = ["image", "pulled MB", "limit", "unpacked MB", "layers MB", "digest", "archive"];
  const body = rows.map(({ name, image, layers, archive, limit }) => [
    name,
    megabytes(image.bytes),
    megabytes(limit),
    megabytes(image.unpackedBytes),
    layers.map((layer) => megabytes(layer.blob.length)).join(" + "),
    image.digest.slice(0, 19),
    archive,
  ]);
  const widths = head.map((title, column) => Math.max(title.length, ...body.map((row) => row[column]?.length ?? 0)));
  return [head, ...body]
    .map((row) => `${row.map((text, column) => text.padEnd(widths[column] ?? 0)).join("  ")}`.trimEnd())
    .map((line) => `${line}\n`)
    .join("");
}

function megabytes(bytes: number): string {
  return (bytes / MEGABYTE).toFixed(1);
}
