import { chmodSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** A folder of its own for a suite. Others may pass through it: as root, a controller's embedded database runs under another user. */
export function makeScratch(name: string): string {
  const folder = mkdtempSync(join(tmpdir(), `sallyport-${name}-`));
  chmodSync(folder, 0o711);
  return folder;
}

/** Removes it, unless `SALLYPORT_KEEP` is set: then the logs of a failed run stay. */
export function removeScratch(folder: string): void {
  if (process.env.SALLYPORT_KEEP) console.warn(`kept ${folder}`);
  else rmSync(folder, { recursive: true, force: true });
}
