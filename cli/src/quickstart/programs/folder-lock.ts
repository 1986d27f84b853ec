/** One run at a time works in a folder. */
import { randomUUID } from "node:crypto";
import { link, readdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { CommandError } from "../../errors.ts";
import { isRunning, markOf, markText, type ProcessMark, readMark } from "./process-mark.ts";

const FILE = "running.pid";
const WRITTEN_BY_ALL = 0o002;

/**
 * Takes the folder for this process.
 *
 * @returns gives it back
 * @throws CommandError when another process has it, or another user could change it
 */
export async function lockFolder(folder: string): Promise<() => Promise<void>> {
  await checkOwner(folder);
  const lock = join(folder, FILE);
  const own = join(folder, `${FILE}.${randomUUID()}`);
  try {
    await writeFile(own, markText(markOf(process.pid)), { flag: "wx", mode: 0o600 });
    while (!(await isTaken(own, lock))) await removeStale(folder, lock);
  } catch (error) {
    if (error instanceof CommandError) throw error;
    throw new CommandError(`cannot write into ${folder}: ${(error as Error).message}`, undefined, { cause: error });
  } finally {
    await rm(own, { force: true });
  }
  return async () => await rm(lock, { force: true });
}

/** The run that has the folder. */
export async function holderOf(folder: string): Promise<ProcessMark | undefined> {
  const holder = readMark(await readFile(join(folder, FILE), "utf8").catch(() => ""));
  return holder !== undefined && isRunning(holder) ? holder : undefined;
}

/**
 * Refuses a folder with files of others, among which those of a network would be lost.
 *
 * @param own files that a run has made before all others
 * @throws CommandError
 */
export async function checkOwnFolder(folder: string, own: string): Promise<void> {
  const files = (await readdir(folder)).filter((name) => !name.startsWith(FILE));
  if (files.length === 0 || files.includes(own)) return;
  throw new CommandError(
    `${folder} has files of something else, such as ${files[0]}: choose a new folder with --dir DIR`,
  );
}

/** Who can replace files of a network chooses its keys, where its logs are written, and which processes are stopped. */
async function checkOwner(folder: string): Promise<void> {
  const own = process.getuid?.();
  if (own === undefined) return;
  const { uid, mode } = await stat(folder);
  const why =
    uid !== own
      ? `belongs to another user (${uid}), who`
      : (mode & WRITTEN_BY_ALL) !== 0
        ? "can be written by every user, each of whom"
        : undefined;
  if (why !== undefined)
    throw new CommandError(
      `${folder} ${why} could replace the files of the network: choose a folder of your own with --dir DIR`,
    );
}

async function isTaken(own: string, lock: string): Promise<boolean> {
  try {
    await link(own, lock);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw error;
  }
}

/** Removes the lock of a process that was killed. @throws CommandError when its process runs */
async function removeStale(folder: string, lock: string): Promise<void> {
  const text = await readFile(lock, "utf8").catch(() => undefined);
  if (text === undefined) return;
  const holder = readMark(text);
  if (holder !== undefined && isRunning(holder)) {
    throw new CommandError(
      `another 'sallyport quickstart' uses ${folder} (process ${holder.pid}): stop it, or choose another folder with --dir DIR`,
    );
  }
  // Another run may have replaced the lock since it was read: what was moved away by mistake is put back.
  const aside = `${lock}.${randomUUID()}`;
  await rename(lock, aside).catch(() => undefined);
  const moved = await readFile(aside, "utf8").catch(() => undefined);
  if (moved !== undefined && moved !== text) await link(aside, lock).catch(() => undefined);
  await rm(aside, { force: true });
}
