import { mkdir, stat } from "node:fs/promises";
import { dirname, resolve } from "node:path";

/**
 * Makes a folder with this mode, and the missing ones above it, each by itself: a recursive `mkdir` never ends where nothing can be made (`/proc`). A folder
 * that exists stays as it is.
 */
export async function makeFolder(path: string, mode = 0o755): Promise<void> {
  const missing: string[] = [];
  for (let at = resolve(path); !(await exists(at)); at = dirname(at)) missing.unshift(at);
  for (const folder of missing) {
    await mkdir(folder, { mode: folder === missing.at(-1) ? mode : 0o755 }).catch((error: NodeJS.ErrnoException) => {
      if (error.code === "EEXIST") return;
      throw new Error(`the folder ${folder} cannot be made (${error.code}): choose another place, or make it by hand`, {
        cause: error,
      });
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
