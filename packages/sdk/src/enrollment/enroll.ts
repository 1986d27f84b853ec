import { createCsr, createKeyPair, type KeyCurve, parseCertificates, readPrivateKey } from "@sallyport/wire";
import { EnrollmentError } from "../errors.ts";
import type { IdentityFile } from "../identity-file.ts";
import { fetchCaBundle } from "./ca-bundle.ts";
import { postEnrollment } from "./enroll-request.ts";
import { verifyEnrollmentToken } from "./enrollment-token.ts";

/** How an enrollment is done; everything is optional. */
export interface EnrollOptions {
  /** Curve of the new key; `P-256` when left out. */
  readonly curve?: KeyCurve;
  readonly signal?: AbortSignal;
}

/**
 * Turns a one-time enrollment token into an identity: makes a key, has the controller certify it, and fetches the
 * network's certificates. The private key never leaves this machine.
 *
 * ```ts
 * const identity = await enroll(await readFile("me.jwt", "utf8"));
 * await writeFile("me.json", JSON.stringify(identity), { mode: 0o600 });
 * ```
 *
 * @returns the content of an identity file, understood by `Context.load` and by every other SDK
 * @throws EnrollmentError naming the step that failed
 */
export async function enroll(jwt: string, options: EnrollOptions = {}): Promise<IdentityFile> {
  const { signal } = options;
  const token = await verifyEnrollmentToken(jwt, signal === undefined ? {} : { signal });
  const { issuer } = token;
  if (token.method !== "ott") {
    throw new EnrollmentError(
      "METHOD_UNSUPPORTED",
      `expected a token of the enrollment method ott, got ${token.method}; ask for a one-time token of an identity`,
    );
  }
  const authorities = await fetchCaBundle(issuer, { leaf: token.leaf }, signal);
  const { keyPem } = await createKeyPair(options.curve);
  const csr = await createCsr({ commonName: token.subject, subject: { C: "US", O: "Sallyport" }, keyPem });
  const answer = await postEnrollment(
    token,
    authorities.pem,
    { contentType: "application/x-pem-file", body: csr },
    signal,
  );
  const certPem = certificateOf(answer, keyPem, issuer);
  return {
    ztAPI: `${issuer.origin}/edge/client/v1`,
    ztAPIs: null,
    configTypes: null,
    id: { key: `pem:${keyPem}`, cert: `pem:${certPem}`, ca: `pem:${authorities.pem}` },
    enableHa: false,
  };
}

function certificateOf(answer: unknown, keyPem: string, issuer: URL): string {
  const cert = typeof answer === "object" && answer !== null && "cert" in answer ? answer.cert : undefined;
  if (typeof cert === "string") {
    const [leaf] = parseCertificates(cert);
    if (leaf?.checkPrivateKey(readPrivateKey(keyPem)) === true) return cert;
  }
  throw new EnrollmentError(
    "ENROLLMENT_REFUSED",
    `expected a certificate for our new key from ${issuer.host}, got something else; ask for a new token`,
  );
}
