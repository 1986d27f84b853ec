import { isIP } from "node:net";
import { x509 } from "@sallyport/wire";
import { isPrintable } from "./external-id-claim.ts";
import { CsrError } from "./issue.ts";

/** Longest request accepted, in characters: room for RSA keys of 8192 bits and hundreds of names. Reading takes time in proportion. */
const MAX_CSR_LENGTH = 16 * 1024;
const MIN_RSA_BITS = 2048;
const MAX_RSA_BITS = 8192;
/** A check takes time in proportion to the exponent, which is 65,537 in all keys that are in use. */
const MAX_EXPONENT_BYTES = 4;
const CURVES = new Set(["P-256", "P-384", "P-521"]);
const ONE_BLOCK =
  /^-----BEGIN (NEW )?CERTIFICATE REQUEST-----\r?\n[\sA-Za-z0-9+/=]+-----END \1?CERTIFICATE REQUEST-----$/;

/** A request whose signature proves that the asker holds the key. */
export interface Csr {
  readonly subject: x509.Name;
  /** Absent also when there are several: readers differ in which of them they take. */
  readonly commonName: string | undefined;
  readonly publicKey: x509.PublicKey;
  /** Names for which a certificate was asked (DNS, IP, email, URI), without SPIFFE ids: the controller gives those. */
  readonly names: readonly x509.GeneralName[];
}

/**
 * Reads and checks a PKCS#10 request: one PEM block and nothing else, a key of a kind that peers can use, a valid signature.
 *
 * @param what how messages name it, for example `the server CSR`
 * @throws CsrError `MISSING_OR_INVALID_CSR` when there is none, `COULD_NOT_PROCESS_CSR` otherwise
 */
export async function readCsr(pem: string | undefined, what = "the CSR"): Promise<Csr> {
  const text = pem?.trim() ?? "";
  if (text === "")
    throw new CsrError("MISSING_OR_INVALID_CSR", `${what} is missing: expected one PEM block CERTIFICATE REQUEST`);
  if (text.length > MAX_CSR_LENGTH || !ONE_BLOCK.test(text)) {
    throw unusable(what, "expected exactly one PEM block CERTIFICATE REQUEST with nothing after it");
  }
  let request: x509.Pkcs10CertificateRequest;
  try {
    request = new x509.Pkcs10CertificateRequest(text);
  } catch (cause) {
    throw unusable(what, "expected the DER of a PKCS#10 request", cause);
  }
  requireUsableKey(request, what);
  let proven = false;
  try {
    proven = await request.verify();
  } catch (cause) {
    throw unusable(what, "its key or signature is of a kind that is not supported", cause);
  }
  if (!proven) throw unusable(what, "its signature does not fit its key");
  const commonNames = request.subjectName.getField("CN");
  return {
    subject: request.subjectName,
    commonName: commonNames.length === 1 ? commonNames[0] : undefined,
    publicKey: request.publicKey,
    names: requestedNames(request, what),
  };
}

function requireUsableKey(request: x509.Pkcs10CertificateRequest, what: string): void {
  const algorithm = keyAlgorithm(request, what);
  if (algorithm.namedCurve !== undefined) {
    if (CURVES.has(algorithm.namedCurve)) return;
    throw unusable(what, `expected an EC key on P-256, P-384 or P-521, found ${algorithm.namedCurve}`);
  }
  const bits = algorithm.modulusLength;
  if (bits === undefined) throw unusable(what, `expected an EC or RSA key, found ${algorithm.name}`);
  if (bits < MIN_RSA_BITS || bits > MAX_RSA_BITS) {
    throw unusable(what, `expected an RSA key of ${MIN_RSA_BITS} to ${MAX_RSA_BITS} bits, found ${bits}`);
  }
  const exponent = algorithm.publicExponent?.length ?? Number.POSITIVE_INFINITY;
  if (exponent > MAX_EXPONENT_BYTES) {
    const expected = `an RSA key with an exponent of at most ${MAX_EXPONENT_BYTES} bytes`;
    throw unusable(what, `expected ${expected}, found ${exponent}`);
  }
}

function keyAlgorithm(
  request: x509.Pkcs10CertificateRequest,
  what: string,
): { name: string; modulusLength?: number; publicExponent?: Uint8Array; namedCurve?: string } {
  try {
    return request.publicKey.algorithm as { name: string };
  } catch (cause) {
    throw unusable(what, "its key cannot be read", cause);
  }
}

const KINDS = new Set<string>(["dns", "ip", "email", "url"]);

function requestedNames(request: x509.Pkcs10CertificateRequest, what: string): x509.GeneralName[] {
  try {
    const extension = request.extensions.find((e) => e.type === "2.5.29.17");
    if (!extension) return [];
    const names = new x509.SubjectAlternativeNameExtension(extension.rawData).names.items;
    const kept = names.filter((name) => KINDS.has(name.type) && !isSpiffe(name));
    for (const { type, value } of kept) {
      if (type === "ip" ? isIP(value) !== 0 : value !== "" && isPrintable(value)) continue;
      throw new Error(`${type} ${JSON.stringify(value)}`);
    }
    return kept;
  } catch (cause) {
    throw unusable(what, "its alternative names cannot be read", cause);
  }
}

/** SPIFFE ids name the owner of a certificate: the controller takes them from no request. */
export function isSpiffe(name: x509.GeneralName): boolean {
  return name.type === "url" && name.value.trimStart().toLowerCase().startsWith("spiffe:");
}

function unusable(what: string, why: string, cause?: unknown): CsrError {
  return new CsrError("COULD_NOT_PROCESS_CSR", `${what} could not be processed: ${why}`, { cause });
}
