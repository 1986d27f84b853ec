import { createHash } from "node:crypto";

/** Lines that `sha256sum --check` takes, in the order of the paths. */
export function checksums(files: ReadonlyMap<string, Buffer>): string {
  return [...files]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([path, bytes]) => `${createHash("sha256").update(bytes).digest("hex")}  ${path}\n`)
    .join("");
}
