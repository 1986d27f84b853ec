import { readFile, readlink, realpath, writeFile } from "node:fs/promises";
import { join } from "node:path";

/** What a running (or killed) PostgreSQL says about itself in `postmaster.pid`. */
export interface Postmaster {
  pid: number;
  /** Folder of its Unix socket, empty while it is still starting. */
  socketDir: string;
}

/** Reads `postmaster.pid` of a data folder; undefined when there is none. */
export async function readPostmaster(dataDir: string): Promise<Postmaster | undefined> {
  const text = await readFile(join(dataDir, "postmaster.pid"), "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return undefined;
    throw error;
  });
  const lines = text?.split("\n");
  const pid = Number(lines?.[0]);
  if (!Number.isInteger(pid) || pid <= 0) return undefined;
  return { pid, socketDir: lines?.[4]?.trim() ?? "" };
}

/**
 * Is that process alive, and this data folder's? Process numbers are used again (in a container, soon): on Linux the working
 * directory tells; elsewhere a living process of that number counts as ours.
 */
export async function isAlive(postmaster: Postmaster, dataDir: string): Promise<boolean> {
  if (!processExists(postmaster.pid)) return false;
  try {
    return (await readlink(`/proc/${postmaster.pid}/cwd`)) === (await realpath(dataDir));
  } catch {
    return process.platform !== "linux" && processExists(postmaster.pid);
  }
}

// Larger than any process number of Linux or macOS.
const NO_PROCESS = 0x7fff_fff0;

/**
 * PostgreSQL takes any living process whose number stands in `postmaster.pid` for a running server and refuses to start. Where the number has gone
 * to a stranger, it is replaced by one that no process has; the rest stays, as PostgreSQL finds orphaned backends by it.
 */
export async function forgetStranger(postmaster: Postmaster, dataDir: string): Promise<void> {
  if (!processExists(postmaster.pid) || process.platform !== "linux") return;
  // A server that has just ended has taken its file away.
  if ((await readPostmaster(dataDir))?.pid !== postmaster.pid) return;
  const path = join(dataDir, "postmaster.pid");
  const lines = (await readFile(path, "utf8")).split("\n");
  lines[0] = String(NO_PROCESS);
  await writeFile(path, lines.join("\n"));
}

export function processExists(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}
