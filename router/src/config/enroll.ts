import type { RouterConfig } from "@sallyport/router-config";
import { fetchCaBundle, postEnrollment, verifyEnrollmentToken } from "@sallyport/sdk";
import { createCsr, formatAddress, type Logger, parseAddress, pemSource } from "@sallyport/wire";
import { certificateRequest } from "../control/renewal/router-csr.ts";
import { RouterEnrollError } from "./enroll-error.ts";
import { type KeyAlgorithm, routerKey } from "./enroll-key.ts";
import { type EnrolledFiles, finishEnrollment, reserveJournal, tokenMark, writeJournal } from "./enrollment-journal.ts";

export interface RouterEnrollOptions {
  readonly config: RouterConfig;
  /** Content of the token file. */
  readonly jwt: string;
  /** Where file names of the configuration are relative to: the working directory. */
  readonly baseDir: string;
  readonly endpointsFile: string;
  /** The kind of key wanted; any that exists, else a new EC key, when left out. */
  readonly algorithm?: KeyAlgorithm;
  /** The controllers of the file are to be dialled, not those that the token names. Where the file has none, the token counts. */
  readonly configuredEndpoints?: boolean;
  /** The id that the token must be for. */
  readonly expectId?: string;
  readonly log: Logger;
  readonly signal?: AbortSignal;
}

interface IssuedCertificates {
  readonly cert: string;
  readonly serverCert: string;
  readonly ca: string;
}

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
    throw new RouterEnrollError(
      "NO_CSR",
      "the configuration has no csr section: it says what names the certificates get, so the router cannot be enrolled",
    );
  }
  const files = enrolledFiles(config, o.baseDir, o.endpointsFile);
  const token = await verifyEnrollmentToken(o.jwt, signal === undefined ? {} : { signal });
  if (token.method !== "erott" && token.method !== "trott") {
    throw new RouterEnrollError(
      "WRONG_TOKEN",
      `the token enrolls by ${token.method}; a router needs one of an edge router`,
    );
  }
  if (o.expectId !== undefined && token.subject !== o.expectId) {
    throw new RouterEnrollError("WRONG_TOKEN", `the token is for router ${token.subject}, not for ${o.expectId}`);
  }
  log.info({ routerId: token.subject, issuer: token.issuer.href }, "the enrollment token is genuine");
  const bundle = await fetchCaBundle(token.issuer, { leaf: token.leaf }, signal);
  const keyPem = await routerKey(files.key, o.algorithm, log);
  await reserveJournal(files);
  const csr = await createCsr(certificateRequest(token.subject, config.csr, keyPem));
  const data = await postEnrollment(
    token,
    bundle.pem,
    { contentType: "application/json", body: JSON.stringify({ certCsr: csr, serverCertCsr: csr }) },
    signal,
  );
  const issued = issuedCertificates(data);
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
  const { cert, serverCert, ca } = (
    typeof data === "object" && data !== null ? data : {}
  ) as Partial<IssuedCertificates>;
  for (const [name, value] of Object.entries({ cert, serverCert, ca })) {
    if (typeof value !== "string" || value === "") {
      throw new RouterEnrollError("BAD_ANSWER", `expected data.${name} in the controller's answer, it is missing`);
    }
  }
  return { cert: String(cert), serverCert: String(serverCert), ca: String(ca) };
}
