import { readFile } from "node:fs/promises";
import { errorText } from "@sallyport/async";
import { loadIdentity } from "@sallyport/wire";
import { enrolledFiles, enrollRouter, type RouterEnrollOptions } from "./enroll.ts";
import { RouterEnrollError } from "./enroll-error.ts";
import { type EnrolledFiles, finishEnrollment, readJournal, tokenMark, usedToken } from "./enrollment-journal.ts";

export interface IfNeededOptions extends Omit<RouterEnrollOptions, "jwt"> {
  /** The file with the token; need not exist when the router is enrolled. */
  readonly jwtFile: string | undefined;
}

/**
 * Enrolls unless the router has valid certificates for the id, so that it may be called before every start. The id is
 * `expectId`, else any. A token that is another than the one that gave the certificates asks for new ones: the controller takes the old ones
 * no longer. An enrollment that was interrupted after its token was used is finished without one.
 *
 * @throws RouterEnrollError `NO_TOKEN` when one is needed and not there; as `enrollRouter`
 */
export async function enrollIfNeeded(o: IfNeededOptions): Promise<{ routerId: string; enrolled: boolean }> {
  const { config, baseDir, expectId, log } = o;
  const files = enrolledFiles(config, baseDir, o.endpointsFile);
  const interrupted = await readJournal(files);
  if (interrupted !== undefined && (expectId === undefined || interrupted.routerId === expectId)) {
    await finishEnrollment(files, interrupted);
    log.info({ routerId: interrupted.routerId }, "an enrollment that was interrupted is finished");
  }
  const known = (await isReplaced(o, files)) ? "there is another token" : await enrolledAs(o);
  if (typeof known === "object") return { routerId: known.id, enrolled: false };
  log.info({ reason: known }, "the router has to be enrolled");
  return { ...(await enrollRouter({ ...o, jwt: await token(o.jwtFile, known) })), enrolled: true };
}

async function isReplaced({ jwtFile }: IfNeededOptions, files: EnrolledFiles): Promise<boolean> {
  const used = await usedToken(files);
  if (used === undefined || jwtFile === undefined) return false;
  const jwt = await readFile(jwtFile, "utf8").catch(() => undefined);
  return jwt !== undefined && jwt.trim() !== "" && tokenMark(jwt) !== used;
}

/** The id of the identity on disk, or why it does not do. */
async function enrolledAs({ config, baseDir, expectId }: IfNeededOptions): Promise<{ id: string } | string> {
  try {
    const { id, leaf, serverCertPem } = await loadIdentity(config.identity, baseDir);
    if (expectId !== undefined && id !== expectId) return `the certificate is that of ${id}, not of ${expectId}`;
    if (serverCertPem === undefined) return "there is no server certificate";
    if (Date.parse(leaf.validTo) <= Date.now()) return `the certificate ended on ${leaf.validTo}`;
    return { id };
  } catch (error) {
    return errorText(error);
  }
}

async function token(file: string | undefined, why: string): Promise<string> {
  if (file === undefined) throw new RouterEnrollError("NO_TOKEN", `${why}; enrolling needs --jwt <file>`);
  try {
    return await readFile(file, "utf8");
  } catch (cause) {
    const reason = errorText(cause);
    throw new RouterEnrollError("NO_TOKEN", `${why}, and the token file of --jwt cannot be read: ${reason}`, { cause });
  }
}
