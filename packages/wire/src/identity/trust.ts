import type { X509Certificate } from "node:crypto";
import { CertificateError, fingerprint } from "./certificates.ts";
import { IssuerSearch } from "./issuer-search.ts";

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

/**
 * Accepts a leaf that chains to one of the anchors, whatever its extended key usage. Only the leaf counts: a trusted
 * certificate among the others does not make the peer trusted (docs/protocol/identity.md "Trust").
 *
 * @throws CertificateError `CERTIFICATE_UNTRUSTED` or `CERTIFICATE_EXPIRED` (outside its dates)
 */
export function verifyLeaf({ leaf, intermediates, anchors, at = new Date(), ignoreDates = false }: LeafTrust): void {
  if (ignoreDates === false) assertDates(leaf, at);
  if (anchors.some((anchor) => anchor.raw.equals(leaf.raw))) return;
  const search = new IssuerSearch({ leaf, intermediates, at, checkDates: ignoreDates !== true });
  if (search.under(anchors) !== undefined) return;
  throw new CertificateError(
    "CERTIFICATE_UNTRUSTED",
    `certificate ${fingerprint(leaf)} was not issued by a trusted authority; ` +
      "add its issuer to the CA bundle or enroll the peer again",
  );
}

function assertDates(certificate: X509Certificate, at: Date): void {
  if (certificate.validFromDate <= at && at <= certificate.validToDate) return;
  throw new CertificateError(
    "CERTIFICATE_EXPIRED",
    `certificate ${fingerprint(certificate)} is valid from ${certificate.validFrom} to ${certificate.validTo}, ` +
      `it is ${at.toISOString()} now; renew it or set the clock`,
  );
}
