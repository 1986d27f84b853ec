import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";

/** What the program was given cannot be used; the message says what to do. */
export class SetupError extends Error {
  override readonly name = "SetupError";
}

/** The identity files that are meant: files themselves, and the `.json` files of folders. @throws SetupError */
export async function identityFiles(given: readonly string[]): Promise<string[]> {
  const files: string[] = [];
  for (const path of given) {
    const found = await stat(path).catch((cause: unknown) => {
      throw new SetupError(`the identity ${path} cannot be read; make one with: sallyport-tunnel enroll`, { cause });
    });
    if (!found.isDirectory()) {
      files.push(path);
      continue;
    }
    const inside = (await readdir(path)).filter((name) => name.endsWith(".json")).toSorted();
    if (inside.length === 0) throw new SetupError(`there is no .json file in the folder ${path}`);
    files.push(...inside.map((name) => join(path, name)));
  }
  return [...new Set(files)];
}
