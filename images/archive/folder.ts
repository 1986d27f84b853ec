import { chmodSync, chownSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { completed, type Entry } from "@sallyport/program/archive/entry";

/** Writes the entries into a folder that is made, with rights that no umask takes from. Owners are set by root only, which others cannot do. */
export function writeFolder(target: string, entries: readonly Entry[]): void {
  mkdirSync(target, { recursive: true });
  for (const entry of completed(entries)) {
    const path = join(target, entry.path);
    mkdirSync(dirname(path), { recursive: true });
    if (entry.kind === "link") symlinkSync(entry.target, path);
    else if (entry.kind === "file") {
      writeFileSync(path, entry.content);
      chmodSync(path, entry.isExecutable ? 0o755 : 0o644);
    } else {
      mkdirSync(path, { recursive: true });
      chmodSync(path, entry.mode);
      if (process.getuid?.() === 0) chownSync(path, entry.uid, entry.gid);
    }
  }
}
