/** Files with secrets, which only their owner can read. */
import { randomUUID } from "node:crypto";
import { open, readFile, rename, rm, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { FolderError, makeFolder } from "@sallyport/program/make-folder";
import { CommandError } from "../errors.ts";

const FOLDER_MODE = 0o700;
const FILE_MODE = 0o600;
const FOREIGN_MODE = 0o077;

/** The text of a file; undefined when there is none. @throws CommandError when it cannot be read */
export async function readOwn(file: string): Promise<string | undefined> {
  try {
    return await readFile(file, "utf8");
  } catch (error) {
    if (codeOf(error) === "ENOENT" || codeOf(error) === "ENOTDIR") return undefined;
    throw cannot("read", file, error);
  }
}

/** Whether other users may read or write the file. */
export async function isForeign(file: string): Promise<boolean> {
  if (process.platform === "win32") return false;
  return ((await stat(file)).mode & FOREIGN_MODE) !== 0;
}

/** Replaces the file as a whole: a reader sees the old or the new text. @throws CommandError when it cannot be written */
export async function writeOwn(file: string, text: string): Promise<void> {
  const beside = `${file}.${randomUUID()}.new`;
  try {
    await makeFolder(dirname(file), FOLDER_MODE, FOLDER_MODE);
    const handle = await open(beside, "wx", FILE_MODE);
    try {
      await handle.writeFile(text);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(beside, file);
  } catch (error) {
    await rm(beside, { force: true }).catch(() => undefined);
    throw error instanceof FolderError
      ? cannot("make the folder", error.folder, error.cause)
      : cannot("write", file, error);
  }
}

/** Removes the file, if there is one. */
export async function removeOwn(file: string): Promise<void> {
  await rm(file, { force: true }).catch((error: unknown) => {
    throw cannot("remove", file, error);
  });
}

/** A path below a folder of the user's settings. @throws CommandError when the environment names none */
export function settingsFolder(env: Readonly<Record<string, string | undefined>>): string {
  const { SALLYPORT_CONFIG_DIR: own, XDG_CONFIG_HOME: shared, HOME: home } = env;
  if (own) return own;
  if (shared?.startsWith("/")) return join(shared, "sallyport");
  if (home) return join(home, ".config", "sallyport");
  throw new CommandError(
    "there is no folder for the logins: HOME is not set; set SALLYPORT_CONFIG_DIR to a folder of your own",
  );
}

function codeOf(error: unknown): string | undefined {
  return (error as NodeJS.ErrnoException).code;
}

function cannot(what: string, path: string, error: unknown): CommandError {
  const { code, message } = error as NodeJS.ErrnoException;
  const reason =
    code === "EACCES" || code === "EPERM"
      ? "the user of this program has no right to"
      : code === "ENOSPC"
        ? "the disk is full"
        : message;
  return new CommandError(`cannot ${what} ${path}: ${reason}`, undefined, { cause: error });
}
