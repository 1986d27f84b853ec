import { createHash } from "node:crypto";
import { mkdir, readFile, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { formatAddress, parseAddress } from "@sallyport/wire";
import { writeEndpointsFile } from "../control/controllers/endpoints-file.ts";
import { replaceFiles, stageFile, whyUnwritable } from "./staged-file.ts";

/** An enrollment that cannot be done, or was not; `code` says which. */
export class RouterEnrollError extends Error {
  override readonly name = "RouterEnrollError";
  readonly code: string;

  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** Everything that an enrollment gives: a token works once, so that it must not get lost between two files. */
export interface IssuedIdentity {
  readonly routerId: string;
  readonly cert: string;
  readonly serverCert: string;
  readonly ca: string;
  /** Control addresses, `tls:host:port`; left out where those of the configuration are to count. */
  readonly endpoints?: readonly string[] | undefined;
  /** Which token it was, as `tokenMark` has it. */
  readonly token?: string | undefined;
}

/** Files that an enrollment writes. */
export interface EnrolledFiles {
  readonly cert: string;
  readonly key: string;
  readonly serverCert: string;
  readonly ca: string;
  readonly endpoints: string;
}

/** More than two certificates with their chains and the bundle take, twice over. */
const RESERVED_BYTES = 256 * 1024;
const PARTS = ["routerId", "cert", "serverCert", "ca"] as const;

export const journalOf = (files: EnrolledFiles): string => `${files.cert}.enrolled`;

/** Remembers which token gave the certificates: another one that is there later asks for others. */
const usedTokenOf = (files: EnrolledFiles): string => `${files.cert}.token`;

/** Tells tokens apart without keeping them. */
export const tokenMark = (jwt: string): string => createHash("sha256").update(jwt.trim()).digest("hex");

/** Mark of the token that gave the certificates; undefined when that was not remembered. */
export async function usedToken(files: EnrolledFiles): Promise<string | undefined> {
  return (await readFile(usedTokenOf(files), "utf8").catch(() => undefined))?.trim();
}

/** Finds out that the disk is full, or the folder is not to be written to, while the token is still good. */
export async function reserveJournal(files: EnrolledFiles): Promise<void> {
  for (const file of [files.cert, files.serverCert, files.ca, files.endpoints]) {
    await mkdir(dirname(file), { recursive: true, mode: 0o700 });
    const reason = await whyUnwritable(file);
    if (reason !== undefined) throw new RouterEnrollError("NOT_WRITABLE", `${file} cannot be written: ${reason}`);
  }
  await (await stageFile(journalOf(files), " ".repeat(RESERVED_BYTES))).discard();
}

/** Puts what was issued on disk in one step, before any of the files is touched. */
export async function writeJournal(files: EnrolledFiles, issued: IssuedIdentity): Promise<void> {
  await replaceFiles([[journalOf(files), JSON.stringify(issued)]]);
}

/** What an enrollment that was interrupted has left; undefined when none was. */
export async function readJournal(files: EnrolledFiles): Promise<IssuedIdentity | undefined> {
  const file = journalOf(files);
  let text: string;
  try {
    text = await readFile(file, "utf8");
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
    throw new RouterEnrollError("JOURNAL_UNREADABLE", `${file} cannot be read`, { cause: error });
  }
  try {
    const { endpoints, token, ...parts } = JSON.parse(text) as Record<keyof IssuedIdentity, unknown>;
    const [routerId, cert, serverCert, ca] = PARTS.map((name) => parts[name]);
    const texts = [routerId, cert, serverCert, ca].every((part) => typeof part === "string" && part !== "");
    if (!texts || !(endpoints === undefined || Array.isArray(endpoints))) throw new TypeError("a part is missing");
    return {
      ...({ routerId, cert, serverCert, ca } as IssuedIdentity),
      token: typeof token === "string" ? token : undefined,
      endpoints: endpoints?.map((each) => formatAddress(parseAddress(String(each)))),
    };
  } catch (cause) {
    throw new RouterEnrollError("JOURNAL_UNREADABLE", `${file} is no record of an enrollment; remove it`, { cause });
  }
}

/**
 * Writes the files. The client certificate, by which the next start knows that the router is enrolled, comes last; the
 * record goes when all is done, so that a crash anywhere between is made good by doing it again.
 */
export async function finishEnrollment(files: EnrolledFiles, issued: IssuedIdentity): Promise<void> {
  if (issued.endpoints !== undefined) await writeEndpointsFile(files.endpoints, issued.endpoints.map(parseAddress));
  const used: [string, string][] = issued.token === undefined ? [] : [[usedTokenOf(files), issued.token]];
  await replaceFiles([
    [files.ca, issued.ca],
    [files.serverCert, issued.serverCert],
    ...used,
    [files.cert, issued.cert],
  ]);
  await rm(journalOf(files), { force: true });
}
