import { open, readFile, rm } from "node:fs/promises";
import { enroll } from "@sallyport/sdk";
import { SetupError } from "./identity-files.ts";

/**
 * Redeems a token and writes the identity file, readable by its owner only. The file is made first: a token counts once,
 * and must not be used up for an identity that cannot be kept.
 */
export async function enrollCommand(jwtFile: string, output: string): Promise<void> {
  const jwt = await readFile(jwtFile, "utf8").catch((cause: unknown) => {
    throw new SetupError(`the token file of --jwt cannot be read: ${textOf(cause)}`, { cause });
  });
  const file = await open(output, "wx", 0o600).catch((cause: unknown) => {
    throw new SetupError(`the identity file cannot be made: ${textOf(cause)}; name another one with -o`, { cause });
  });
  try {
    const identity = await enroll(jwt.trim());
    await file.writeFile(`${JSON.stringify(identity, null, 2)}\n`);
    await file.sync();
    await file.close();
  } catch (error) {
    await file.close();
    await rm(output, { force: true });
    throw error;
  }
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
