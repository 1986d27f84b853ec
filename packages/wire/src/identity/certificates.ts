import { createHash, createPrivateKey, type KeyObject, X509Certificate } from "node:crypto";
import { WireError } from "../errors.ts";

/** A certificate, key or request cannot be read, or does not prove what it should. */
export class CertificateError extends WireError {}

const BEGIN = "-----BEGIN ";
const END = "-----END ";
const DASHES = "-----";
const LABEL = /^[A-Z0-9 ]{1,64}$/;

/**
 * The PEM blocks whose label `wanted` accepts, in order, each ending in one line feed. Takes time in proportion to the text, which may
 * come from an unauthenticated client: a block ends at the first end mark behind its beginning, which must have the same label.
 */
export function pemBlocks(pem: string, wanted: (label: string) => boolean): string[] {
  const blocks: string[] = [];
  let end = pem.indexOf(END);
  for (let begin = pem.indexOf(BEGIN); begin >= 0 && end >= 0; begin = pem.indexOf(BEGIN, begin)) {
    if (end < begin) end = pem.indexOf(END, begin);
    if (end < 0) break;
    const label = labelAt(pem, begin + BEGIN.length);
    if (label === undefined || !pem.startsWith(label + DASHES, end + END.length)) {
      begin += BEGIN.length;
      continue;
    }
    const after = end + END.length + label.length + DASHES.length;
    if (wanted(label)) blocks.push(`${pem.slice(begin, after)}\n`);
    begin = after;
  }
  return blocks;
}

function labelAt(pem: string, at: number): string | undefined {
  const text = pem.slice(at, at + 64 + DASHES.length);
  const end = text.indexOf(DASHES);
  const label = end < 0 ? "" : text.slice(0, end);
  return LABEL.test(label) ? label : undefined;
}

/** The CERTIFICATE blocks of a PEM text, in order. Text between blocks and blocks of other kinds are skipped. */
export function splitPem(pem: string): string[] {
  return pemBlocks(pem, (label) => label === "CERTIFICATE");
}

/**
 * The certificates of a PEM text, in order. Blocks that cannot be parsed are skipped, as bundles in the field hold
 * certificates of kinds that a given machine does not know.
 *
 * @throws CertificateError `CERTIFICATE_MISSING` when not one certificate is left.
 */
export function parseCertificates(pem: string): X509Certificate[] {
  const certificates: X509Certificate[] = [];
  let lastFailure: unknown;
  for (const block of splitPem(pem)) {
    try {
      certificates.push(new X509Certificate(block));
    } catch (error) {
      lastFailure = error;
    }
  }
  if (certificates.length === 0) {
    throw new CertificateError("CERTIFICATE_MISSING", "expected PEM text with at least one readable certificate", {
      cause: lastFailure,
    });
  }
  return certificates;
}

/**
 * The name under which certificates are stored and compared: SHA-1 over the DER, 40 lower-case hex digits
 * (docs/protocol/identity.md "Fingerprint").
 *
 * @param certificate parsed, DER bytes, or PEM text (of which the first certificate counts)
 */
export function fingerprint(certificate: X509Certificate | Uint8Array | string): string {
  return createHash("sha1").update(derOf(certificate)).digest("hex");
}

function derOf(certificate: X509Certificate | Uint8Array | string): Uint8Array {
  if (certificate instanceof X509Certificate) return certificate.raw;
  if (typeof certificate !== "string") return certificate;
  const [first] = parseCertificates(certificate);
  if (first === undefined) throw new CertificateError("CERTIFICATE_MISSING", "expected a certificate in PEM");
  return first.raw;
}

/**
 * The parts of a subject or issuer, for example `CN=router-1`, least specific first.
 * @param name as Node gives it: `undefined` for an empty name, in spite of its types
 */
export function nameParts(name: string | undefined): string[] {
  return name === undefined || name === "" ? [] : name.split("\n");
}

/** The subject's common name (the id of a router, controller or identity); `undefined` when there is none. */
export function commonName(certificate: X509Certificate): string | undefined {
  const names: unknown = certificate.toLegacyObject().subject?.CN;
  return Array.isArray(names) ? String(names[0]) : typeof names === "string" ? names : undefined;
}

/**
 * The certificate's SPIFFE id, e.g. `spiffe://net/identity/I/apiSession/S` (docs/protocol/identity.md "SPIFFE ids").
 *
 * @returns `undefined` when there is none
 * @throws CertificateError `SPIFFE_AMBIGUOUS` when there are several: such a certificate proves nothing
 */
export function spiffeId(certificate: X509Certificate): string | undefined {
  const ids = uriNames(certificate).filter((uri) => uri.toLowerCase().startsWith("spiffe:"));
  if (ids.length > 1) {
    throw new CertificateError("SPIFFE_AMBIGUOUS", `expected at most one SPIFFE id, the certificate has ${ids.length}`);
  }
  return ids[0];
}

// One alternative name as Node prints it; a value with unusual characters is a JSON string, so that a name cannot
// smuggle in another one behind a comma.
const alternativeName = /([A-Za-z ]+):("(?:[^"\\]|\\.)*"|[^,"]*)(?:, |$)/y;

function uriNames(certificate: X509Certificate): string[] {
  const text = certificate.subjectAltName;
  if (text === undefined) return [];
  const uris: string[] = [];
  alternativeName.lastIndex = 0;
  while (alternativeName.lastIndex < text.length) {
    const match = alternativeName.exec(text);
    if (match === null) {
      throw new CertificateError("SUBJECT_ALT_NAME_UNREADABLE", "the certificate's alternative names cannot be read");
    }
    const [, kind, value = ""] = match;
    if (kind === "URI") uris.push(value.startsWith('"') ? String(JSON.parse(value)) : value);
  }
  return uris;
}

/**
 * Reads a private key in PEM: SEC1, PKCS#1 or PKCS#8, not encrypted.
 *
 * @throws CertificateError `KEY_UNREADABLE`
 */
export function readPrivateKey(keyPem: string): KeyObject {
  try {
    return createPrivateKey(keyPem);
  } catch (cause) {
    throw new CertificateError(
      "KEY_UNREADABLE",
      "expected an unencrypted private key in PEM (EC PRIVATE KEY, RSA PRIVATE KEY or PRIVATE KEY)",
      { cause },
    );
  }
}
