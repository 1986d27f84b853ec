import { gzipSync } from "node:zlib";
import { completed, type Entry } from "./entry.ts";
import { tarOf } from "./tar.ts";

/** A `.tgz` without folders, as npm and Helm take it. The same entries give the same bytes. */
export function tarball(entries: readonly Entry[], changedAt: number): Buffer {
  const files = completed(entries).filter((entry) => entry.kind !== "folder");
  return gzipSync(tarOf(files, changedAt), { level: 9 });
}
