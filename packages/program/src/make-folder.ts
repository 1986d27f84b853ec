import { mkdir, stat } from "node:fs/promises";
import { dirname, resolve } from "node:path";

/** A folder cannot be made. The message says which and what to do; the cause is the system's error. */
export class FolderError extends Error {
  override name = "FolderError";
  readonly folder: string;

  constructor(folder: string, cause: NodeJS.ErrnoException) {
    super(`the folder ${folder} cannot be made (${cause.code}): choose another place, or make it by hand`, { cause });
    this.folder = folder;
  }
}

/**
 * Makes a folder with this mode, and the missing ones above it, each by itself: a recursive `mkdir` never ends where nothing can be made (`/proc`). A folder
 * that exists stays as it is.
 * @param modeAbove of the missing folders above it
 * @throws FolderError
 */
export async function makeFolder(path: string, mode = 0o755, modeAbove = 0o755): Promise<void> {
  const missing: string[] = [];
  for (let at = resolve(path); !(await exists(at)); at = dirname(at)) missing.unshift(at);
  for (const folder of missing) {
    const ownMode = folder === missing.at(-1) ? mode : modeAbove;
    await mkdir(folder, { mode: ownMode }).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "EEXIST") throw new FolderError(folder, error);
    });
  }
}

async function exists(path: string): Promise<boolean> {
  try {
    if ((await stat(path)).isDirectory()) return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return false;
    throw error;
  }
  throw new Error(`${path} is not a folder: choose another place`);
}
