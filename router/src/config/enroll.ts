import { createPrivateKey } from "node:crypto";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import type { RouterConfig } from "@sallyport/router-config";
import { fetchCaBundle, postEnrollment, verifyEnrollmentToken } from "@sallyport/sdk";
import { createCsr, createKeyPair, type Logger, parseAddress, pemSource } from "@sallyport/wire";
import { writeEndpointsFile } from "../control/endpoints-file.ts";
import { certificateRequest } from "../control/router-csr.ts";

/** An enrollment that cannot be done, or was not; `code` says which. */
export class RouterEnrollError extends Error {
  override readonly name = "RouterEnrollError";
  readonly code: string;

  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

export interface EnrollOptions {
  readonly config: RouterConfig;
  /** Content of the token file. */
  readonly jwt: string;
  /** Where file names of the configuration are relative to: the working directory. */
  readonly baseDir: string;
  readonly endpointsFile: string;
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
 * is used, never overwritten; files are only written when everything has succeeded.
 *
 * @throws RouterEnrollError, or EnrollmentError of the SDK for everything between here and the controller
 */
export async function enrollRouter(o: EnrollOptions): Promise<{ routerId: string }> {
  const { config, log, signal } = o;
  if (config.csr === undefined) {
    throw new RouterEnrollError(
      "NO_CSR",
      "the configuration has no csr section: it says what names the certificates get, so the router cannot be enrolled",
    );
  }
  const files = identityFiles(config, o.baseDir);
  const token = await verifyEnrollmentToken(o.jwt, signal === undefined ? {} : { signal });
  if (token.method !== "erott" && token.method !== "trott") {
    throw new RouterEnrollError(
      "WRONG_TOKEN",
      `the token enrolls by ${token.method}; a router needs one of an edge router`,
    );
  }
  log.info({ routerId: token.subject, issuer: token.issuer.href }, "the enrollment token is genuine");
  const bundle = await fetchCaBundle(token.issuer, { leaf: token.leaf }, signal);
  const keyPem = await routerKey(files.key, log);
  const csr = await createCsr(certificateRequest(token.subject, config.csr, keyPem));
  const data = await postEnrollment(
    token,
    bundle.pem,
    { contentType: "application/json", body: JSON.stringify({ certCsr: csr, serverCertCsr: csr }) },
    signal,
  );
  const issued = issuedCertificates(data);
  await write(files.cert, issued.cert);
  await write(files.serverCert, issued.serverCert);
  await write(files.ca, issued.ca);
  const endpoints = token.controllers.flatMap((text) => {
    try {
      return [parseAddress(text)];
    } catch (error) {
      log.warn({ address: text, err: error }, "the token names a controller address that cannot be used");
      return [];
    }
  });
  await writeEndpointsFile(o.endpointsFile, endpoints);
  log.info({ routerId: token.subject, ...files, endpointsFile: o.endpointsFile }, "the router is enrolled");
  return { routerId: token.subject };
}

function identityFiles(config: RouterConfig, baseDir: string) {
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
  return { cert: file("cert"), key: file("key"), serverCert: file("server_cert"), ca: file("ca") };
}

/** The key in the file, or a new P-256 one written there. */
async function routerKey(file: string, log: Logger): Promise<string> {
  let existing: string;
  try {
    existing = await readFile(file, "utf8");
  } catch (error) {
    if (!(error instanceof Error && "code" in error && error.code === "ENOENT")) {
      throw new RouterEnrollError("KEY_UNREADABLE", `the key file ${file} cannot be read`, { cause: error });
    }
    const { keyPem } = await createKeyPair("P-256");
    await mkdir(dirname(file), { recursive: true });
    // "wx": should another process have made the key meanwhile, it is not lost.
    await writeFile(file, keyPem, { mode: 0o600, flag: "wx" });
    log.info({ file }, "made a new key");
    return keyPem;
  }
  try {
    createPrivateKey(existing);
  } catch (cause) {
    throw new RouterEnrollError(
      "KEY_UNREADABLE",
      `${file} exists and holds no private key that can be read; it is not overwritten, remove it to get a new one`,
      { cause },
    );
  }
  log.info({ file }, "using the key that exists");
  return existing;
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

async function write(file: string, content: string): Promise<void> {
  await mkdir(dirname(file), { recursive: true });
  await writeFile(file, content, { mode: 0o600 });
}
