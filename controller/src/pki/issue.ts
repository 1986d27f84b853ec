import { randomBytes, X509Certificate } from "node:crypto";
import { isIP } from "node:net";
import { fingerprint, signingKeys, splitPem, x509 } from "@sallyport/wire";

/** Why a certificate request is refused; the codes are those that the API shows. */
export type CsrErrorCode =
  | "MISSING_OR_INVALID_CSR"
  | "COULD_NOT_PROCESS_CSR"
  | "EDGE_ROUTER_ENROLL_COMMON_NAME_INVALID";

/** A certificate request that cannot be answered with a certificate. The message says which request, what was expected and what came. */
export class CsrError extends Error {
  override name = "CsrError";
  readonly code: CsrErrorCode;

  constructor(code: CsrErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** The network's own keys or certificates are unusable. */
export class PkiError extends Error {
  override name = "PkiError";
}

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

const { KeyUsageFlags, ExtendedKeyUsage } = x509;

const LEAF_USAGE = KeyUsageFlags.digitalSignature | KeyUsageFlags.keyEncipherment | KeyUsageFlags.dataEncipherment;
const CA_USAGE = KeyUsageFlags.keyCertSign | KeyUsageFlags.cRLSign;

/** Not a CA; for TLS clients or servers (or both). */
export function leafExtensions(
  purposes: readonly ("client" | "server")[],
  names: readonly x509.JsonGeneralName[],
): x509.Extension[] {
  const usages = purposes.map((purpose) =>
    purpose === "client" ? ExtendedKeyUsage.clientAuth : ExtendedKeyUsage.serverAuth,
  );
  return [
    new x509.BasicConstraintsExtension(false, undefined, true),
    new x509.KeyUsagesExtension(LEAF_USAGE, true),
    new x509.ExtendedKeyUsageExtension(usages),
    ...(names.length > 0 ? [new x509.SubjectAlternativeNameExtension([...names])] : []),
  ];
}

/** Of a key that signs tokens: neither for TLS nor a CA. */
export function tokenKeyExtensions(trustDomain: string): x509.Extension[] {
  return [
    new x509.BasicConstraintsExtension(false, undefined, true),
    new x509.KeyUsagesExtension(KeyUsageFlags.digitalSignature, true),
    new x509.SubjectAlternativeNameExtension([{ type: "url", value: trustDomain }]),
  ];
}

/** A certificate authority; `below` = how many authorities may stand between it and a leaf. */
export function authorityExtensions(spiffeId: string, below: number): x509.Extension[] {
  return [
    new x509.BasicConstraintsExtension(true, below, true),
    new x509.KeyUsagesExtension(CA_USAGE, true),
    new x509.SubjectAlternativeNameExtension([{ type: "url", value: spiffeId }]),
  ];
}

/** Host names and addresses as alternative names, each once. */
export function hostNames(hosts: readonly string[]): x509.JsonGeneralName[] {
  return [...new Set(hosts)].map(
    (value) => ({ type: isIP(value) === 0 ? "dns" : "ip", value }) as x509.JsonGeneralName,
  );
}

/** How long certificates live, in milliseconds. */
export interface Lifetimes {
  readonly root: number;
  readonly intermediate: number;
  readonly controller: number;
  readonly router: number;
  readonly identity: number;
  readonly session: number;
}

const DAY = 86_400_000;

/** Of the authorities; no file sets them. */
export const AUTHORITY_LIFETIMES: Pick<Lifetimes, "root" | "intermediate"> = {
  root: 7305 * DAY,
  intermediate: 3652 * DAY,
};

/** Remaining life at which a certificate is renewed: 7 days, or a third of its life if that is less. */
export function isDueForRenewal(
  certificate: { readonly validFromDate: Date; readonly validToDate: Date },
  now: Date,
): boolean {
  const life = certificate.validToDate.getTime() - certificate.validFromDate.getTime();
  return certificate.validToDate.getTime() - now.getTime() < Math.min(7 * DAY, life / 3);
}
