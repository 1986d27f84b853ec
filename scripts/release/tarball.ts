import { gzipSync } from "node:zlib";
import { completed, type Entry } from "../../images/archive/entry.ts";
import { tarOf } from "../../images/archive/tar.ts";

/** A `.tgz` as npm and Helm take it. The same entries give the same bytes. */
export function tarball(entries: readonly Entry[], changedAt: number): Buffer {
  // Neither of them wants folders.
  const files = completed(entries).filter((entry) => entry.kind !== "folder");
  return gzipSync(tarOf(files, changedAt), { level: 9 });
}
