import { randomBytes, X509Certificate } from "node:crypto";
import { fingerprint, signingKeys, splitPem, x509 } from "@sallyport/wire";
import { PkiError } from "./errors.ts";

/** A certificate chain (leaf first, root last only for the root itself) and the leaf's private key, PEM. */
export interface KeyedCertificate {
  readonly certPem: string;
  readonly keyPem: string;
}

/** A certificate that the network issued. */
export interface IssuedCertificate {
  /** Leaf and intermediates without the root, PEM. */
  readonly pem: string;
  readonly leafPem: string;
  /** SHA-1 of the leaf's DER, lower-case hex. */
  readonly fingerprint: string;
  readonly notBefore: Date;
  readonly notAfter: Date;
}

export interface IssueRequest {
  readonly subject: x509.Name | string;
  readonly publicKey: x509.PublicKeyType;
  readonly notBefore: Date;
  readonly lifetimeMs: number;
  readonly extensions: readonly x509.Extension[];
  /** Hex; computed from the key when absent. */
  readonly subjectKeyId?: string;
}

/** An authority's certificate and key, and what is presented with what it issues: its own certificate unless said otherwise. */
export interface Issuer extends KeyedCertificate {
  readonly chainPem?: string;
}

/** Clocks of peers may be behind by so much. */
export const CLOCK_TOLERANCE_MS = 60_000;

/** Signs a certificate with the issuer's key; it never outlives the issuer. An issuer of `undefined` with `ownKeyPem` makes a root. */
export async function issue(request: IssueRequest, issuer: Issuer | { ownKeyPem: string }): Promise<IssuedCertificate> {
  const selfSigned = "ownKeyPem" in issuer;
  const keys = await signingKeys(selfSigned ? issuer.ownKeyPem : issuer.keyPem);
  const parent = selfSigned ? undefined : new x509.X509Certificate(leafOf(issuer.certPem));
  const notBefore = wholeSeconds(request.notBefore);
  const wanted = new Date(notBefore.getTime() + request.lifetimeMs);
  const notAfter = wholeSeconds(parent && parent.notAfter < wanted ? parent.notAfter : wanted);
  if (notAfter <= notBefore)
    throw new PkiError(`the issuing certificate ended on ${notAfter.toISOString()}: renew it, or set the clock`);
  // Of an imported authority the id need not follow from the key.
  const parentKeyId = parent?.getExtension(x509.SubjectKeyIdentifierExtension)?.keyId;
  const authority =
    parentKeyId === undefined
      ? await x509.AuthorityKeyIdentifierExtension.create(parent ? parent.publicKey : keys.pair.publicKey)
      : new x509.AuthorityKeyIdentifierExtension(parentKeyId);
  const certificate = await x509.X509CertificateGenerator.create({
    serialNumber: serialNumber(),
    subject: request.subject,
    issuer: parent ? parent.subjectName : request.subject,
    notBefore,
    notAfter,
    publicKey: request.publicKey,
    signingKey: keys.pair.privateKey,
    signingAlgorithm: keys.algorithm,
    extensions: [
      ...request.extensions,
      request.subjectKeyId === undefined
        ? await x509.SubjectKeyIdentifierExtension.create(request.publicKey)
        : new x509.SubjectKeyIdentifierExtension(request.subjectKeyId),
      ...(parent ? [authority] : []),
    ],
  });
  const leafPem = `${certificate.toString("pem")}\n`;
  return describe(leafPem, selfSigned ? "" : (issuer.chainPem ?? issuer.certPem));
}

/** The facts of a certificate issued earlier. @param chainPem what stands above it, roots included or not. */
export function describe(leafPem: string, chainPem: string): IssuedCertificate {
  const leaf = new X509Certificate(leafPem);
  return {
    pem: leafPem + withoutRoots(chainPem),
    leafPem,
    fingerprint: fingerprint(leaf),
    notBefore: leaf.validFromDate,
    notAfter: leaf.validToDate,
  };
}

export function leafOf(pem: string): string {
  const [leaf] = splitPem(pem);
  if (leaf === undefined) throw new PkiError("expected a certificate in PEM, found none");
  return leaf;
}

/** The certificates of a chain that did not sign themselves. */
export function withoutRoots(chainPem: string): string {
  return splitPem(chainPem)
    .filter((pem) => !isRoot(pem))
    .join("");
}

function isRoot(pem: string): boolean {
  const certificate = new X509Certificate(pem);
  return certificate.subject === certificate.issuer;
}

/** 128 random bits with the top two fixed: always positive, always 16 bytes. */
function serialNumber(): string {
  const bytes = randomBytes(16);
  bytes[0] = ((bytes[0] ?? 0) & 0x3f) | 0x40;
  return bytes.toString("hex");
}

function wholeSeconds(date: Date): Date {
  return new Date(Math.floor(date.getTime() / 1000) * 1000);
}
