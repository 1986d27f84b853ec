import { createPrivateKey, type KeyObject } from "node:crypto";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { errorText } from "@sallyport/async";
import type { RouterConfig } from "@sallyport/router-config";
import { fetchCaBundle, postEnrollment, verifyEnrollmentToken } from "@sallyport/sdk";
import {
  createCsr,
  createKeyPair,
  formatAddress,
  type Logger,
  loadIdentity,
  parseAddress,
  pemSource,
} from "@sallyport/wire";
import { certificateRequest } from "./certificate-names.ts";
import {
  type EnrolledFiles,
  finishEnrollment,
  type IssuedIdentity,
  RouterEnrollError,
  readJournal,
  reserveJournal,
  tokenMark,
  usedToken,
  writeJournal,
} from "./enrollment-journal.ts";

export interface RouterEnrollOptions {
  readonly config: RouterConfig;
  /** Content of the token file. */
  readonly jwt: string;
  /** Where file names of the configuration are relative to: the working directory. */
  readonly baseDir: string;
  readonly endpointsFile: string;
  /** The kind of key wanted; any that exists, else a new EC key, when left out. */
  readonly algorithm?: KeyAlgorithm | undefined;
  /** The controllers of the file are to be dialled, not those that the token names. Where the file has none, the token counts. */
  readonly configuredEndpoints?: boolean;
  /** The id that the token must be for. */
  readonly expectId?: string | undefined;
  readonly log: Logger;
  readonly signal?: AbortSignal;
}

type IssuedCertificates = Pick<IssuedIdentity, "cert" | "serverCert" | "ca">;

/**
 * Redeems a one-time token of an edge router (docs/protocol/enrollment.md, "Routers"): checks the token with the key of the
 * server that issued it, fetches the CA bundle, has two certificates made for one key, and writes them. A key that exists
 * is used, never overwritten; files are only written when everything has succeeded, the client certificate last.
 *
 * @throws RouterEnrollError, or EnrollmentError of the SDK for everything between here and the controller
 */
export async function enrollRouter(o: RouterEnrollOptions): Promise<{ routerId: string }> {
  const { config, log, signal } = o;
  if (config.csr === undefined) {
    const text = "it says what names the certificates get, so the router cannot be enrolled";
    throw new RouterEnrollError("NO_CSR", `the configuration has no csr section: ${text}`);
  }
  const files = enrolledFiles(config, o.baseDir, o.endpointsFile);
  const token = await verifyEnrollmentToken(o.jwt, signal === undefined ? {} : { signal });
  if (token.method !== "erott" && token.method !== "trott") {
    const text = `the token enrolls by ${token.method}; a router needs one of an edge router`;
    throw new RouterEnrollError("WRONG_TOKEN", text);
  }
  if (o.expectId !== undefined && token.subject !== o.expectId) {
    throw new RouterEnrollError("WRONG_TOKEN", `the token is for router ${token.subject}, not for ${o.expectId}`);
  }
  log.info({ routerId: token.subject, issuer: token.issuer.href }, "the enrollment token is genuine");
  const bundle = await fetchCaBundle(token.issuer, { leaf: token.leaf }, signal);
  const keyPem = await routerKey(files.key, o.algorithm, log);
  await reserveJournal(files);
  const csr = await createCsr(certificateRequest(token.subject, config.csr, keyPem));
  const body = { contentType: "application/json", body: JSON.stringify({ certCsr: csr, serverCertCsr: csr }) };
  const issued = issuedCertificates(await postEnrollment(token, bundle.pem, body, signal));
  const isConfigured = o.configuredEndpoints === true && config.ctrl.endpoints.length > 0;
  const controllers = isConfigured ? {} : { endpoints: usableAddresses(token.controllers, log) };
  const identity = { routerId: token.subject, ...issued, ...controllers, token: tokenMark(o.jwt) };
  await writeJournal(files, identity);
  await finishEnrollment(files, identity);
  log.info({ routerId: token.subject, ...files }, "the router is enrolled");
  return { routerId: token.subject };
}

function usableAddresses(texts: readonly string[], log: Logger): string[] {
  return texts.flatMap((text) => {
    try {
      return [formatAddress(parseAddress(text))];
    } catch (error) {
      log.warn({ address: text, err: error }, "the token names a controller address that cannot be used");
      return [];
    }
  });
}

/** @throws RouterEnrollError when a value names no file */
export function enrolledFiles(config: RouterConfig, baseDir: string, endpoints: string): EnrolledFiles {
  const { identity } = config;
  const file = (name: "cert" | "key" | "server_cert" | "ca"): string => {
    const value = identity[name];
    if (value === undefined) {
      throw new RouterEnrollError("NO_FILE", `identity.${name} is missing: enrollment writes to the file it names`);
    }
    const source = pemSource(value, baseDir, `identity.${name}`);
    if (source.kind === "file") return source.path;
    throw new RouterEnrollError("NOT_A_FILE", `identity.${name} must name a file, it holds the PEM itself`);
  };
  return { cert: file("cert"), key: file("key"), serverCert: file("server_cert"), ca: file("ca"), endpoints };
}

function issuedCertificates(data: unknown): IssuedCertificates {
  const given = typeof data === "object" && data !== null ? data : {};
  const { cert, serverCert, ca } = given as Partial<IssuedCertificates>;
  for (const [name, value] of Object.entries({ cert, serverCert, ca })) {
    if (typeof value !== "string" || value === "") {
      throw new RouterEnrollError("BAD_ANSWER", `expected data.${name} in the controller's answer, it is missing`);
    }
  }
  return { cert, serverCert, ca } as IssuedCertificates;
}

interface IfNeededOptions extends Omit<RouterEnrollOptions, "jwt"> {
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
  return { ...(await enrollRouter({ ...o, jwt: await readToken(o.jwtFile, known) })), enrolled: true };
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

async function readToken(file: string | undefined, why: string): Promise<string> {
  if (file === undefined) throw new RouterEnrollError("NO_TOKEN", `${why}; enrolling needs --jwt <file>`);
  try {
    return await readFile(file, "utf8");
  } catch (cause) {
    const reason = errorText(cause);
    throw new RouterEnrollError("NO_TOKEN", `${why}, and the token file of --jwt cannot be read: ${reason}`, { cause });
  }
}

/** Kinds of keys that enrollment makes: EC P-256, RSA 4096. */
export type KeyAlgorithm = "EC" | "RSA";

const RSA_BITS = 4096;

/** The key in the file, never overwritten, or a new one written there. @throws RouterEnrollError when `algorithm` asks for another kind */
async function routerKey(file: string, algorithm: KeyAlgorithm | undefined, log: Logger): Promise<string> {
  let existing: string;
  try {
    existing = await readFile(file, "utf8");
  } catch (error) {
    if (!(error instanceof Error && "code" in error && error.code === "ENOENT")) {
      throw new RouterEnrollError("KEY_UNREADABLE", `the key file ${file} cannot be read`, { cause: error });
    }
    const keyPem = await newKey(algorithm ?? "EC");
    await mkdir(dirname(file), { recursive: true, mode: 0o700 });
    // "wx": should another process have made the key meanwhile, it is not lost.
    await writeFile(file, keyPem, { mode: 0o600, flag: "wx" });
    log.info({ file, algorithm: algorithm ?? "EC" }, "made a new key");
    return keyPem;
  }
  let key: KeyObject;
  try {
    key = createPrivateKey(existing);
  } catch (cause) {
    const text = `${file} exists and holds no private key that can be read; it is not overwritten, remove it to get a new one`;
    throw new RouterEnrollError("KEY_UNREADABLE", text, { cause });
  }
  const found = kindOf(key);
  if (algorithm !== undefined && found !== STANDARD[algorithm]) {
    const wrong = `${file} exists and holds a key of the kind ${found}, not ${STANDARD[algorithm]}`;
    const text = `${wrong}; it is not overwritten: remove it, or leave out --key-alg`;
    throw new RouterEnrollError("KEY_MISMATCH", text);
  }
  log.info({ file, kind: found }, "using the key that exists");
  return existing;
}

const STANDARD: Readonly<Record<KeyAlgorithm, string>> = { EC: "EC prime256v1", RSA: `RSA ${RSA_BITS}` };

function kindOf(key: KeyObject): string {
  const details = key.asymmetricKeyDetails;
  switch (key.asymmetricKeyType) {
    case "ec":
      return `EC ${details?.namedCurve ?? ""}`;
    case "rsa":
      return `RSA ${details?.modulusLength ?? 0}`;
    default:
      return key.asymmetricKeyType ?? "unknown";
  }
}

async function newKey(algorithm: KeyAlgorithm): Promise<string> {
  return (await createKeyPair(algorithm === "EC" ? "P-256" : `RSA-${RSA_BITS}`)).keyPem;
}
