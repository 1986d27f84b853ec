import { X509Certificate } from "node:crypto";
import { BoundedMap } from "@sallyport/async";
import { hasUsableKey, IssuerSearch, pemBlocks } from "@sallyport/wire";

/** Longest chain taken, in characters and in certificates. */
const MAX_CHAIN_LENGTH = 64 * 1024;
const MAX_CERTIFICATES = 10;

/** Why a PEM text is no chain of a certificate authority; `code` is the one that the API shows. */
export class ChainError extends Error {
  override name = "ChainError";
  readonly code: "NOT_A_CHAIN" | "CERTIFICATE_IS_NOT_CA";

  constructor(code: ChainError["code"], message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** A third-party authority: the signer of the certificates that its clients present. */
interface ThirdPartyCa {
  /** The one certificate that is trusted: possession of its key was proved. */
  readonly certificate: X509Certificate;
  /** Others of its PEM text. They can complete a chain, and are not trusted by themselves. */
  readonly others: readonly X509Certificate[];
}

/**
 * Reads the PEM text with which an authority is registered: blocks CERTIFICATE and no others, the authority's own first, with keys as they are in use.
 * @throws ChainError
 */
export function readThirdPartyCa(pem: string): ThirdPartyCa {
  const ca = parse(pem);
  const unusable = [ca.certificate, ...ca.others].findIndex((certificate) => !hasUsableKey(certificate));
  if (unusable < 0) return ca;
  throw new ChainError(
    "NOT_A_CHAIN",
    `certificate ${unusable + 1} has a key of no kind that is taken: ` +
      "expected EC on a named curve, Ed25519, Ed448, or RSA of at most 8192 bits with an exponent below 2^32",
  );
}

function parse(pem: string): ThirdPartyCa {
  const blocks = pem.length > MAX_CHAIN_LENGTH ? [] : pemBlocks(pem, () => true);
  const isForeign = (block: string) => !block.startsWith("-----BEGIN CERTIFICATE-----");
  if (blocks.length === 0 || blocks.length > MAX_CERTIFICATES || blocks.some(isForeign)) {
    throw new ChainError(
      "NOT_A_CHAIN",
      `expected 1 to ${MAX_CERTIFICATES} PEM blocks CERTIFICATE and no others, the authority's own first`,
    );
  }
  const [certificate, ...others] = blocks.map((block, place) => {
    try {
      return new X509Certificate(block);
    } catch (cause) {
      throw new ChainError("NOT_A_CHAIN", `PEM block ${place + 1} holds no certificate that can be read`, { cause });
    }
  });
  if (certificate === undefined) throw new ChainError("NOT_A_CHAIN", "expected a certificate");
  if (!certificate.ca) {
    throw new ChainError("CERTIFICATE_IS_NOT_CA", "the first certificate has no basic constraint that makes it a CA");
  }
  return { certificate, others };
}

const MAX_READ = 2_000;
const read = new BoundedMap<string, ThirdPartyCa>(MAX_READ);

/** What {@link readThirdPartyCa} reads, of a text that is stored: an authority with a key that is no longer taken is one that issues nothing. */
export function storedThirdPartyCa(pem: string): ThirdPartyCa {
  const ca = read.get(pem) ?? parse(pem);
  if (!read.has(pem)) read.set(pem, ca);
  return ca;
}

const CLIENT_AUTH = "1.3.6.1.5.5.7.3.2";
const ANY_USAGE = "2.5.29.37.0";

/** Whether a certificate may be used by a TLS client: it says so, or says nothing. */
export function isForClients(certificate: X509Certificate): boolean {
  // Node names extended key usages so.
  const usages: readonly string[] | undefined = certificate.keyUsage;
  return usages === undefined || usages.includes(CLIENT_AUTH) || usages.includes(ANY_USAGE);
}

/**
 * The search for the issuer of the leaf, directly or over intermediates, which may be presented in any order. Its dates are not looked at,
 * those of authorities are. A certificate of an authority among the others proves nothing.
 * @returns undefined when nothing was presented, or the leaf is an authority's own: that one is public, and presenting it does not prove possession
 */
export function searchIssuer(presented: readonly X509Certificate[], at: Date): IssuerSearch | undefined {
  const [leaf, ...intermediates] = presented;
  if (leaf === undefined || leaf.ca) return undefined;
  return new IssuerSearch({ leaf, intermediates, at, checkDates: true });
}

/** The first of the registered authorities that the search leads to, in one search for all of them. */
export function issuingAuthority<Ca extends { readonly cert_pem: string }>(
  search: IssuerSearch | undefined,
  cas: readonly Ca[],
): Ca | undefined {
  const read = cas.map((ca) => ({ ca, ...storedThirdPartyCa(ca.cert_pem) }));
  const anchor = search?.under(
    read.map(({ certificate }) => certificate),
    read.flatMap(({ others }) => others),
  );
  return read.find(({ certificate }) => certificate === anchor)?.ca;
}
