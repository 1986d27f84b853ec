import type { X509Certificate } from "node:crypto";
import { CertificateError, fingerprint } from "./certificates.ts";
import { x509 } from "./x509.ts";

/** What {@link verifyLeaf} is asked. */
export interface LeafTrust {
  /** The certificate whose key the TLS handshake proved: the first one presented. */
  readonly leaf: X509Certificate;
  /** The others that were presented. They may complete the chain, but never are the peer's identity. */
  readonly intermediates: readonly X509Certificate[];
  /** Our bundle. Every CA in it is an anchor, whether it signed itself or not. */
  readonly anchors: readonly X509Certificate[];
  /** The moment of the check; now when left out. */
  readonly at?: Date;
  /** `leaf`: the leaf's own dates do not count; `true`: nobody's do. */
  readonly ignoreDates?: boolean | "leaf";
}

/** Longest chain followed, leaf and anchor included. */
const maxChain = 10;
/** Signatures checked before giving up: presented certificates can be built to form very many chains. */
const maxSignatures = 100;

/**
 * Accepts a leaf that chains to one of the anchors, whatever its extended key usage. Only the leaf counts: a trusted
 * certificate among the others does not make the peer trusted (docs/protocol/identity.md "Trust").
 *
 * @throws CertificateError `CERTIFICATE_UNTRUSTED` or `CERTIFICATE_EXPIRED` (outside its dates)
 */
export function verifyLeaf(request: LeafTrust): void {
  const at = request.at ?? new Date();
  if (request.ignoreDates === undefined || request.ignoreDates === false) assertDates(request.leaf, at);
  const checkDates = request.ignoreDates !== true;
  let signaturesLeft = maxSignatures;
  const anchors = request.anchors.filter((candidate) => candidate.ca || equal(candidate, request.leaf));
  const search = (child: X509Certificate, depth: number, path: readonly X509Certificate[]): boolean => {
    if (anchors.some((anchor) => equal(anchor, child) && path.length === 0)) return true;
    if (depth >= maxChain) return false;
    const usable = (issuer: X509Certificate) =>
      issuer.ca &&
      child.checkIssued(issuer) &&
      signaturesLeft-- > 0 &&
      verifies(child, issuer) &&
      (!checkDates || withinDates(issuer, at)) &&
      mayIssue(issuer, path.length);
    if (anchors.some(usable)) return true;
    return request.intermediates.some(
      (issuer) =>
        !equal(issuer, child) &&
        !path.some((seen) => equal(seen, issuer)) &&
        usable(issuer) &&
        search(issuer, depth + 1, [...path, issuer]),
    );
  };
  if (!search(request.leaf, 1, [])) {
    throw new CertificateError(
      "CERTIFICATE_UNTRUSTED",
      `certificate ${fingerprint(request.leaf)} was not issued by a trusted authority; ` +
        "add its issuer to the CA bundle or enroll the peer again",
    );
  }
}

function assertDates(certificate: X509Certificate, at: Date): void {
  if (withinDates(certificate, at)) return;
  throw new CertificateError(
    "CERTIFICATE_EXPIRED",
    `certificate ${fingerprint(certificate)} is valid from ${certificate.validFrom} to ${certificate.validTo}, ` +
      `it is ${at.toISOString()} now; renew it or set the clock`,
  );
}

function withinDates(certificate: X509Certificate, at: Date): boolean {
  return certificate.validFromDate <= at && at <= certificate.validToDate;
}

function equal(a: X509Certificate, b: X509Certificate): boolean {
  return a.raw.equals(b.raw);
}

function verifies(child: X509Certificate, issuer: X509Certificate): boolean {
  try {
    return child.verify(issuer.publicKey);
  } catch {
    // A key of a kind that this machine cannot use proves nothing.
    return false;
  }
}

/** Extensions whose meaning is honoured here or cannot widen trust; any other critical one disqualifies an issuer. */
const understood = new Set(["2.5.29.14", "2.5.29.15", "2.5.29.17", "2.5.29.19", "2.5.29.32", "2.5.29.35", "2.5.29.37"]);

function mayIssue(issuer: X509Certificate, casBelow: number): boolean {
  try {
    return allowsIssuing(new x509.X509Certificate(issuer.raw), casBelow);
  } catch {
    // Node reads less of a certificate than is looked at here. What cannot be read allows nothing.
    return false;
  }
}

function allowsIssuing(issuer: x509.X509Certificate, casBelow: number): boolean {
  if (issuer.extensions.some((extension) => extension.critical && !understood.has(extension.type))) return false;
  const usage = issuer.getExtension(x509.KeyUsagesExtension);
  if (usage !== null && (usage.usages & x509.KeyUsageFlags.keyCertSign) === 0) return false;
  const constraint = issuer.getExtension(x509.BasicConstraintsExtension)?.pathLength;
  return constraint === undefined || casBelow <= constraint;
}
