import type { KeyObject, X509Certificate } from "node:crypto";
import { BoundedMap } from "@sallyport/async";
import { CertificateError, fingerprint, nameParts } from "./certificates.ts";
import { x509 } from "./x509.ts";

export interface PresentedChain {
  /** The certificate whose key the TLS handshake proved: the first one presented. */
  readonly leaf: X509Certificate;
  /** The others that were presented. They may complete the chain, but never are the peer's identity. */
  readonly intermediates: readonly X509Certificate[];
  readonly at: Date;
  /** Whether authorities must be within their dates. */
  readonly checkDates: boolean;
}

export interface LeafTrust extends Pick<PresentedChain, "leaf" | "intermediates"> {
  /** Our bundle. Every CA in it is an anchor, whether it signed itself or not. */
  readonly anchors: readonly X509Certificate[];
  /** The moment of the check; now when left out. */
  readonly at?: Date;
  /** `leaf`: the leaf's own dates do not count; `true`: no dates do. */
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
    `certificate ${fingerprint(certificate)} is valid from ${certificate.validFromDate.toISOString()} to ${certificate.validToDate.toISOString()}, ` +
      `and the clock of this machine shows ${at.toISOString()}: renew it, or correct the clock`,
  );
}

/** The anchor, or an authority that it vouches for. */
interface VouchedAuthority {
  readonly certificate: X509Certificate;
  /** How many authorities there may be between it and the leaf. */
  readonly casBelow: number;
}

/** Authorities between an anchor and a leaf, at most. */
const MAX_CAS_BELOW = 8;
/** Of the presented certificates, and of those whose names lead upwards from the leaf, so many count. */
const MAX_LINKS = 32;
/** Signatures that may turn out wrong. An honest chain has a wrong one only below authorities that share a name and state no key identifiers. */
const MAX_WRONG_SIGNATURES = 16;

/**
 * Finds the anchor that a leaf leads to: first by names and key identifiers, then by signatures from the anchors downwards. A certificate's key is used
 * only after that certificate is verified, so a peer cannot choose the keys (docs/protocol/identity.md "Trust").
 *
 * A search may continue with further anchors. Its bounds cover all of them.
 */
export class IssuerSearch {
  readonly #leaf: X509Certificate;
  readonly #at: Date;
  readonly #checkDates: boolean;
  readonly #links: X509Certificate[];
  /** What was found out about signatures: by certificate, its issuers. */
  readonly #checked = new Map<X509Certificate, Map<X509Certificate, boolean>>();
  #wrongSignaturesLeft = MAX_WRONG_SIGNATURES;

  constructor({ leaf, intermediates, at, checkDates }: PresentedChain) {
    this.#leaf = leaf;
    this.#at = at;
    this.#checkDates = checkDates;
    this.#links = intermediates.slice(0, MAX_LINKS);
  }

  /**
   * The first of `anchors` that the leaf chains to, directly or through presented certificates; `undefined` when there is none.
   * @param links certificates that may complete the chain besides the presented ones
   */
  under(anchors: readonly X509Certificate[], links: readonly X509Certificate[] = []): X509Certificate | undefined {
    this.#links.push(...links);
    const { above, names } = namedAbove(this.#leaf, this.#links);
    return anchors.find((anchor) => names.has(nameKey(anchor.subject)) && this.#vouches(anchor, above));
  }

  #vouches(anchor: X509Certificate, above: readonly X509Certificate[]): boolean {
    const casBelowAnchor = this.#casBelow(anchor, MAX_CAS_BELOW);
    const candidates = new Set(above.filter((candidate) => !candidate.raw.equals(anchor.raw)));
    const open: VouchedAuthority[] =
      casBelowAnchor === undefined ? [] : [{ certificate: anchor, casBelow: casBelowAnchor }];
    for (let next = takeLongest(open); next !== undefined; next = takeLongest(open)) {
      if (this.#isSigned(this.#leaf, next.certificate)) return true;
      if (next.casBelow === 0) continue;
      for (const candidate of candidates) {
        if (!this.#isSigned(candidate, next.certificate)) continue;
        candidates.delete(candidate);
        const casBelow = this.#casBelow(candidate, next.casBelow - 1);
        if (casBelow !== undefined) open.push({ certificate: candidate, casBelow });
      }
    }
    return false;
  }

  /** @param issuer an anchor, or a certificate whose own signature is verified */
  #isSigned(child: X509Certificate, issuer: X509Certificate): boolean {
    const known = this.#checked.get(child)?.get(issuer);
    if (known !== undefined) return known;
    if (this.#wrongSignaturesLeft === 0 || !child.checkIssued(issuer)) return false;
    const isRight = verifies(child, issuer);
    if (!isRight) this.#wrongSignaturesLeft--;
    this.#checked.getOrInsertComputed(child, () => new Map()).set(issuer, isRight);
    return isRight;
  }

  /** @returns `undefined` for a certificate that may issue no others. Its signature must be verified before this is asked. */
  #casBelow(certificate: X509Certificate, max: number): number | undefined {
    if (this.#checkDates && (this.#at < certificate.validFromDate || certificate.validToDate < this.#at))
      return undefined;
    const pathLength = pathLengthOf(certificate);
    return pathLength === undefined ? undefined : Math.min(pathLength, max);
  }
}

function verifies(child: X509Certificate, issuer: X509Certificate): boolean {
  try {
    return child.verify(issuer.publicKey);
  } catch {
    // A signature of a kind that this machine cannot check proves nothing.
    return false;
  }
}

/** Removes and returns the authority that may have the most others below it: so each certificate is reached on the best way first. */
function takeLongest(authorities: VouchedAuthority[]): VouchedAuthority | undefined {
  let longest = 0;
  for (const [place, { casBelow }] of authorities.entries()) {
    if (casBelow > (authorities[longest]?.casBelow ?? 0)) longest = place;
  }
  return authorities.splice(longest, 1)[0];
}

/** The authorities whose names lead upwards from the leaf, each once, and the names of all issuers on these ways. */
function namedAbove(
  leaf: X509Certificate,
  links: readonly X509Certificate[],
): { readonly above: readonly X509Certificate[]; readonly names: ReadonlySet<string | undefined> } {
  const bySubject = Map.groupBy(
    links.filter((link) => link.ca && !link.raw.equals(leaf.raw)),
    (link) => nameKey(link.subject),
  );
  const names = new Set([nameKey(leaf.issuer)]);
  const above: X509Certificate[] = [];
  // A set hands out what is added while it is walked.
  for (const name of names) {
    for (const link of bySubject.get(name) ?? []) {
      if (above.length === MAX_LINKS) return { above, names };
      if (above.some((known) => known.raw.equals(link.raw))) continue;
      above.push(link);
      names.add(nameKey(link.issuer));
    }
  }
  return { above, names };
}

/** A key under which equal names (RFC 5280, 7.1) fall together. Different names may share it, so names are compared again before a signature is checked. */
function nameKey(name: string | undefined): string {
  return nameParts(name)
    .map((part) => part.toLowerCase().replaceAll("\\", "").replace(/\s+/g, " ").replaceAll("= ", "=").trim())
    .join("\n");
}

/** Authorities whose path lengths are remembered. */
const MAX_PATH_LENGTHS = 1_000;

/**
 * Path lengths of authorities by SHA-256 fingerprint, `undefined` for certificates that may not issue others. Every peer presents the same intermediate ones, and
 * reading one takes about a millisecond. Only anchors and certificates with a right signature come in.
 */
const pathLengths = new BoundedMap<string, number | undefined>(MAX_PATH_LENGTHS);

function pathLengthOf(certificate: X509Certificate): number | undefined {
  const { fingerprint256 } = certificate;
  if (!pathLengths.has(fingerprint256)) pathLengths.set(fingerprint256, readPathLength(certificate));
  return pathLengths.get(fingerprint256);
}

function readPathLength(certificate: X509Certificate): number | undefined {
  try {
    if (!certificate.ca || !hasUsableKey(certificate)) return undefined;
    return allowedPathLength(new x509.X509Certificate(certificate.raw));
  } catch {
    // Node reads less of a certificate than is looked at here. What cannot be read allows nothing.
    return undefined;
  }
}

/** Extensions whose meaning is honoured here or cannot widen trust; any other critical one disqualifies an issuer. */
const UNDERSTOOD_EXTENSIONS = new Set([
  "2.5.29.14",
  "2.5.29.15",
  "2.5.29.17",
  "2.5.29.19",
  "2.5.29.32",
  "2.5.29.35",
  "2.5.29.37",
]);

function allowedPathLength(issuer: x509.X509Certificate): number | undefined {
  if (issuer.extensions.some((extension) => extension.critical && !UNDERSTOOD_EXTENSIONS.has(extension.type)))
    return undefined;
  const usage = issuer.getExtension(x509.KeyUsagesExtension);
  if (usage !== null && (usage.usages & x509.KeyUsageFlags.keyCertSign) === 0) return undefined;
  return issuer.getExtension(x509.BasicConstraintsExtension)?.pathLength ?? Number.POSITIVE_INFINITY;
}

const MAX_RSA_BITS = 8_192;
/** The usual exponent is 65,537. A check takes time in proportion to the exponent's length. */
const MAX_EXPONENT = 2n ** 32n;

/** {@link isUsableKey} of a certificate; false also for a key that cannot be read. */
export function hasUsableKey(certificate: X509Certificate): boolean {
  try {
    return isUsableKey(certificate.publicKey);
  } catch {
    // Node reads the key only now.
    return false;
  }
}

/** Whether checking a signature with the key takes about as long as with the keys that are in use. */
export function isUsableKey({ asymmetricKeyType, asymmetricKeyDetails = {} }: KeyObject): boolean {
  const { modulusLength = Number.POSITIVE_INFINITY, publicExponent = 0n, namedCurve } = asymmetricKeyDetails;
  switch (asymmetricKeyType) {
    case "rsa":
    case "rsa-pss":
      return modulusLength <= MAX_RSA_BITS && publicExponent < MAX_EXPONENT;
    case "ec":
      // A curve without a name is whatever its parameters say.
      return namedCurve !== undefined;
    case "ed25519":
    case "ed448":
      return true;
    default:
      return false;
  }
}
