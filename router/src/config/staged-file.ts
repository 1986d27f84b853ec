import { access, constants, mkdir, open, rename, rm, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { errorText } from "@sallyport/async";

/** New content of a file that lies complete beside it, on disk. */
interface StagedFile {
  /** Puts it in place in one step: a reader sees the old or the new content, never a part. */
  commit(): Promise<void>;
  discard(): Promise<void>;
}

/**
 * Writes the content beside its file, readable by this user alone, so that a full disk is found before anything is changed.
 * A file that is itself a mount point cannot be exchanged; it is then written in place.
 */
export async function stageFile(file: string, content: string): Promise<StagedFile> {
  await mkdir(dirname(file), { recursive: true, mode: 0o700 });
  const beside = `${file}.${process.pid}.new`;
  try {
    const handle = await open(beside, "w", 0o600);
    try {
      await handle.writeFile(content);
      await handle.sync();
    } finally {
      await handle.close();
    }
  } catch (error) {
    await rm(beside, { force: true });
    throw error;
  }
  return {
    commit: async () => {
      try {
        await rename(beside, file);
      } catch (error) {
        const code = error instanceof Error && "code" in error ? error.code : undefined;
        if (code !== "EBUSY" && code !== "EXDEV") throw error;
        await writeFile(file, content, { mode: 0o600 });
        await rm(beside, { force: true });
      }
    },
    discard: () => rm(beside, { force: true }),
  };
}

/** Stages all or none, runs `then`, and puts all of them in place, in the order given. */
export async function replaceFiles(
  contents: readonly (readonly [file: string, content: string])[],
  then: () => Promise<void> = async () => {},
): Promise<void> {
  const staged: StagedFile[] = [];
  try {
    for (const [file, content] of contents) staged.push(await stageFile(file, content));
    await then();
  } catch (error) {
    for (const each of staged) await each.discard();
    throw error;
  }
  for (const each of staged) await each.commit();
}

/** Why a file cannot be replaced; undefined when it can. */
export async function whyUnwritable(file: string): Promise<string | undefined> {
  for (const path of [dirname(file), file]) {
    try {
      await access(path, constants.W_OK);
    } catch (error) {
      if (path === file && error instanceof Error && "code" in error && error.code === "ENOENT") continue;
      return errorText(error);
    }
  }
  return undefined;
}
