import { type FileHandle, open, readdir, readFile, rm, stat } from "node:fs/promises";
import { join, resolve } from "node:path";
import { errorText } from "@sallyport/async";
import { enroll, enrollByToken } from "@sallyport/sdk";
import { parseCertificates } from "@sallyport/wire";
import { externalToken } from "../login/external-login.ts";
import { joinedFileOf } from "../login/joined-identity.ts";
import { sessionFileOf } from "../login/session-file.ts";
import type { User } from "../login/terminal.ts";
import type { ProgramCommand } from "./command-line.ts";

export type JoinCommand = Extract<ProgramCommand, { name: "join" }>;

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

/** More than an identity takes: key, certificates, and the authorities of a network. */
const RESERVED_BYTES = 64 * 1024;

/** Redeems a token and writes the identity file. */
export async function enrollCommand(
  jwtFile: string,
  output: string,
  redeem: (jwt: string) => Promise<unknown> = enroll,
): Promise<void> {
  const jwt = await readFile(jwtFile, "utf8").catch((cause: unknown) => {
    throw new SetupError(`the token file of --jwt cannot be read: ${errorText(cause)}`, { cause });
  });
  await writeIdentityFile(output, () => redeem(jwt.trim()));
}

/**
 * Writes the file of an identity without a key, which logs in by tokens of a provider; or logs in there at once, and becomes an identity
 * with a certificate.
 *
 * @throws SetupError, AuthenticationError, EnrollmentError, or the signal's reason
 */
export async function joinCommand(command: JoinCommand, user: User, stop: AbortSignal): Promise<void> {
  const { controller, caFile, output, signer, tokenFile, isDevice } = command;
  const ca = await readAuthorities(caFile);
  const login = {
    signer,
    tokenFile: tokenFile === undefined ? undefined : resolve(tokenFile),
    device: isDevice || undefined,
  };
  const joined = { controller, ca, login };
  if (command.toCertificate) {
    // A user must not log in for a file that cannot be made.
    if (await exists(output)) throw new SetupError(`there is a file ${output}; name another one with -o`);
    const { token, signerId } = await externalToken(joined, { user, file: output, signal: stop });
    await writeIdentityFile(output, () => enrollByToken({ controller, ca, token, signerId, signal: stop }));
  } else await writeIdentityFile(output, async () => joinedFileOf(joined));
  // One of a former file with this name would be the session of another user.
  await rm(sessionFileOf(output), { force: true });
}

async function readAuthorities(file: string): Promise<string> {
  try {
    const pem = await readFile(file, "utf8");
    if (parseCertificates(pem).length > 0) return pem;
    throw new Error("expected certificates in PEM, found none");
  } catch (cause) {
    throw new SetupError(`the file ${file} of --ca cannot be used: ${errorText(cause)}`, { cause });
  }
}

async function exists(file: string): Promise<boolean> {
  return await stat(file).then(
    () => true,
    () => false,
  );
}

/**
 * Writes an identity file, readable by its owner only. The file and its room on the disk are made first: a token counts once, and must not
 * be used up for an identity that cannot be kept.
 */
async function writeIdentityFile(output: string, make: () => Promise<unknown>): Promise<void> {
  const file = await open(output, "wx", 0o600).catch((cause: unknown) => {
    throw new SetupError(`the identity file cannot be made: ${errorText(cause)}; name another one with -o`, { cause });
  });
  try {
    await file.writeFile(Buffer.alloc(RESERVED_BYTES)).catch(unwritable);
    await file.sync().catch(unwritable);
    const identity = await make();
    const text = Buffer.from(`${JSON.stringify(identity, null, 2)}\n`);
    // Into the room that is there already; what is behind it is cut off only then.
    await writeAtStart(file, text);
    await file.truncate(text.length);
    await file.sync();
    await file.close();
  } catch (error) {
    await file.close().catch(() => {});
    await rm(output, { force: true });
    throw error;
  }
}

/**
 * Whether there is an identity file. One that is blank is taken away: an enrollment that was killed has left it, before the network
 * answered.
 */
export async function isEnrolled(output: string): Promise<boolean> {
  const content = await readFile(output).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return undefined;
    throw new SetupError(`the identity file cannot be read: ${errorText(error)}`, { cause: error });
  });
  if (content === undefined) return false;
  if (content.some((byte) => byte !== 0)) return true;
  await rm(output);
  return false;
}

/** By the file itself: its name may be another file's by now, which others can read. */
async function writeAtStart(file: FileHandle, bytes: Buffer): Promise<void> {
  for (let at = 0; at < bytes.length; ) at += (await file.write(bytes, at, bytes.length - at, at)).bytesWritten;
}

function unwritable(cause: unknown): never {
  throw new SetupError(`the identity file cannot be written, and the token was not used: ${errorText(cause)}`, {
    cause,
  });
}
