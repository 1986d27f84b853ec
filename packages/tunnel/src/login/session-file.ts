import { type FileHandle, open, rename, rm, stat } from "node:fs/promises";
import { text } from "node:stream/consumers";
import { errorText, SerialQueue } from "@sallyport/async";
import type { KeptSession, SessionStore } from "@sallyport/sdk";
import type { Logger } from "@sallyport/wire";
import { z } from "zod";

const keptSession = z.object({
  /** Whose session it is: another controller must not be shown its token. */
  controller: z.string(),
  apiSessionId: z.string(),
  identityId: z.string(),
  identityName: z.string(),
  refreshToken: z.string(),
  bound: z.object({ certPem: z.string(), keyPem: z.string() }).optional(),
});

/** Far more than a session has. */
export const MAX_SESSION_BYTES = 256 * 1024;
/** Of all users. The group's bits say nothing: Kubernetes sets them in every volume with `fsGroup`. */
const FOREIGN_MODE = 0o007;

/** Where the session of an identity file is kept. */
export function sessionFileOf(identityFile: string): string {
  return `${identityFile}.session`;
}

/** The session of an identity between two runs, in a file that only its owner reads. */
export class SessionFile implements SessionStore {
  readonly #identityFile: string;
  readonly #file: string;
  readonly #controller: string;
  readonly #log: Logger;
  /** The last one that was given is the one that stays. */
  readonly #work = new SerialQueue();

  /** @param controller `https://host:port`, of the identity file as it is now */
  constructor(identityFile: string, controller: string, log: Logger) {
    this.#identityFile = identityFile;
    this.#file = sessionFileOf(identityFile);
    this.#controller = controller;
    this.#log = log;
  }

  /** @returns undefined also for a file that cannot be read: then a login is needed, as without one */
  async read(): Promise<KeptSession | undefined> {
    return await this.#work.run(async () => {
      try {
        const { controller, ...session } = keptSession.parse(JSON.parse(await this.#ownText()));
        if (controller === this.#controller) return session;
        throw new ForeignFileError(`it is a session at ${controller}`);
      } catch (error) {
        const isMissing = error instanceof Error && "code" in error && error.code === "ENOENT";
        // What a parser says of the text may repeat it, and with it the token.
        const isTold = error instanceof ForeignFileError || (error instanceof Error && "code" in error);
        const reason = isTold ? errorText(error) : "it holds no session";
        if (!isMissing) this.#log.warn({ file: this.#file, reason }, "the kept session is not used; log in again");
        return undefined;
      }
    });
  }

  /** A file that other users made, or can read or write, may hold a session of their choice: with it, this program would go on as whom they like. */
  async #ownText(): Promise<string> {
    const handle = await open(this.#file);
    try {
      await requireOwn(handle, this.#identityFile);
      return await text(handle.createReadStream({ end: MAX_SESSION_BYTES, autoClose: false }));
    } finally {
      await handle.close();
    }
  }

  /** A reader sees the old or the new session, never a part. */
  async write(session: KeptSession | undefined): Promise<void> {
    await this.#work.run(async () => {
      if (session === undefined) await rm(this.#file, { force: true });
      else await replace(this.#file, `${JSON.stringify({ controller: this.#controller, ...session })}\n`);
    });
  }
}

/** The file holds a session, and not one to go on with. */
class ForeignFileError extends Error {}

async function requireOwn(handle: FileHandle, identityFile: string): Promise<void> {
  // Windows has neither.
  if (process.platform === "win32") return;
  const { mode, uid } = await handle.stat();
  if ((mode & FOREIGN_MODE) !== 0) {
    throw new ForeignFileError(
      `its mode is ${(mode & 0o777).toString(8)}, expected 600: end the session at the controller if another user may have read it`,
    );
  }
  // Who owns the identity file decides anyway as whom this program logs in.
  const isTrusted = uid === 0 || uid === process.geteuid?.() || uid === (await stat(identityFile)).uid;
  if (!isTrusted) throw new ForeignFileError(`it belongs to another user, with the id ${uid}`);
}

async function replace(file: string, content: string): Promise<void> {
  const beside = `${file}.${process.pid}.new`;
  await rm(beside, { force: true });
  const handle = await open(beside, "wx", 0o600);
  try {
    try {
      await handle.writeFile(content);
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
