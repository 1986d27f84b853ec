import { X509Certificate } from "node:crypto";
import type { Connect } from "@sallyport/api/client/connect";
import { errorText } from "@sallyport/async";
import { x509 } from "@sallyport/wire";
import { EnrollmentError } from "../errors.ts";
import { issuerUrl } from "./enrollment-token.ts";
import { type EnrollmentTrust, enrollmentRequest } from "./pinned-request.ts";

/** The certificate authorities a controller trusts. */
export interface CaBundle {
  readonly certificates: readonly X509Certificate[];
  /** All of them, PEM, one after the other. */
  readonly pem: string;
}

const PATH = "/edge/client/v1/.well-known/est/cacerts";

/**
 * Fetches the CA bundle of a controller.
 *
 * @throws EnrollmentError `NO_CA` when there is none in the answer, and as `enrollmentRequest`
 */
export async function fetchCaBundle(
  issuer: URL,
  trust: EnrollmentTrust,
  signal?: AbortSignal,
  connect?: Connect,
): Promise<CaBundle> {
  const response = await enrollmentRequest({ method: "GET", url: issuerUrl(issuer, PATH), trust, connect, signal });
  if (response.status !== 200) {
    throw new EnrollmentError("NO_CA", `${issuer.host} answered the request for its CA bundle with ${response.status}`);
  }
  const bundle = readCaBundle(response.body);
  if (bundle.certificates.length === 0) {
    throw new EnrollmentError("NO_CA", `the CA bundle of ${issuer.host} holds no certificate authority`);
  }
  return bundle;
}

/**
 * Reads a degenerate PKCS#7 (signed data without signers), base64 with or without line breaks, PEM, or DER; certificates
 * that are no authorities are left out.
 *
 * @throws EnrollmentError `NO_CA` when it cannot be read
 */
export function readCaBundle(body: Uint8Array): CaBundle {
  const text = Buffer.from(body).toString("latin1");
  const isText = /^[\sA-Za-z0-9+/=-]+$/.test(text);
  const base64 = text.replaceAll(/-----[^-]+-----/g, "").replaceAll(/\s/g, "");
  let found: x509.X509Certificates;
  try {
    found = new x509.X509Certificates(isText ? Buffer.from(base64, "base64") : Buffer.from(body));
  } catch (cause) {
    throw new EnrollmentError("NO_CA", `the CA bundle is not a PKCS#7 of certificates: ${errorText(cause)}`, { cause });
  }
  const certificates = found
    .map((certificate) => new X509Certificate(Buffer.from(certificate.rawData)))
    .filter((certificate) => certificate.ca);
  return { certificates, pem: certificates.map((certificate) => certificate.toString()).join("") };
}
