import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** A folder of its own for a suite. */
export function makeScratch(name: string): string {
  return mkdtempSync(join(tmpdir(), `sallyport-${name}-`));
}

/** Removes it, unless `SALLYPORT_KEEP` is set: then the logs of a failed run stay. */
export function removeScratch(folder: string): void {
  if (process.env.SALLYPORT_KEEP) console.warn(`kept ${folder}`);
  else rmSync(folder, { recursive: true, force: true });
}
