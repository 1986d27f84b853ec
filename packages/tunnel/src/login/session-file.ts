import { open, readFile, rename, rm } from "node:fs/promises";
import { errorText, SerialQueue } from "@sallyport/async";
import type { KeptSession, SessionStore } from "@sallyport/sdk";
import type { Logger } from "@sallyport/wire";
import { z } from "zod";

const keptSession = z.object({
  apiSessionId: z.string(),
  identityId: z.string(),
  identityName: z.string(),
  refreshToken: z.string(),
  bound: z.object({ certPem: z.string(), keyPem: z.string() }).optional(),
});

/** Where the session of an identity file is kept. */
export function sessionFileOf(identityFile: string): string {
  return `${identityFile}.session`;
}

/** The session of an identity between two runs, in a file that only its owner reads. */
export class SessionFile implements SessionStore {
  readonly #file: string;
  readonly #log: Logger;
  /** The last one that was given is the one that stays. */
  readonly #work = new SerialQueue();

  constructor(identityFile: string, log: Logger) {
    this.#file = sessionFileOf(identityFile);
    this.#log = log;
  }

  /** @returns undefined also for a file that cannot be read: then a login is needed, as without one */
  async read(): Promise<KeptSession | undefined> {
    return await this.#work.run(async () => {
      try {
        return keptSession.parse(JSON.parse(await readFile(this.#file, "utf8")));
      } catch (error) {
        const isMissing = error instanceof Error && "code" in error && error.code === "ENOENT";
        // What a parser says of the text may repeat it, and with it the token.
        const reason = error instanceof Error && "code" in error ? errorText(error) : "it holds no session";
        if (!isMissing) this.#log.warn({ file: this.#file, reason }, "the kept session cannot be read");
        return undefined;
      }
    });
  }

  /** A reader sees the old or the new session, never a part. */
  async write(session: KeptSession | undefined): Promise<void> {
    await this.#work.run(async () => {
      if (session === undefined) await rm(this.#file, { force: true });
      else await replace(this.#file, `${JSON.stringify(session)}\n`);
    });
  }
}

async function replace(file: string, text: string): Promise<void> {
  const beside = `${file}.${process.pid}.new`;
  await rm(beside, { force: true });
  const handle = await open(beside, "wx", 0o600);
  try {
    try {
      await handle.writeFile(text);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(beside, file);
  } catch (error) {
    await rm(beside, { force: true });
    throw error;
  }
}
