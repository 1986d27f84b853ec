import { errorText } from "./error-text.ts";

/** The dates of a certificate, as `X509Certificate` has them. */
export interface CertificateDates {
  readonly validFromDate: Date;
  readonly validToDate: Date;
}

/** What a client needs of a TLS socket to know the dates of a certificate that it refuses. */
interface SecuredSocket {
  prependOnceListener(event: "secure", listener: () => void): unknown;
  /** Empty if the server has presented none. */
  getPeerCertificate(): { readonly valid_from?: string; readonly valid_to?: string };
}

/**
 * Keeps the certificate that a TLS socket is about to verify: after a failure the socket knows it no more.
 * @returns gives the certificate; undefined before the server has presented one
 */
export function presentedCertificate(socket: SecuredSocket): () => CertificateDates | undefined {
  let presented: CertificateDates | undefined;
  socket.prependOnceListener("secure", () => {
    // Not `getPeerX509Certificate`: in Node 22 the socket then has no certificate any more whose name could be checked.
    const { valid_from: from, valid_to: to } = socket.getPeerCertificate();
    if (from !== undefined && to !== undefined)
      presented = { validFromDate: new Date(from), validToDate: new Date(to) };
  });
  return () => presented;
}

/** How a certificate stands in {@link outsideDates}. */
interface DatedCertificate {
  /** Such as `its certificate`. */
  readonly name?: string;
  /** How its owner gets a new one. */
  readonly renewal?: string;
  readonly now?: Date;
}

/**
 * Why a certificate is refused that is outside its dates: these dates and the time of this machine, since one of the two clocks may be wrong.
 *
 * @returns undefined while the certificate is valid
 */
export function outsideDates(
  { validFromDate, validToDate }: CertificateDates,
  { name = "the certificate", renewal = RENEWAL, now = new Date() }: DatedCertificate = {},
): string | undefined {
  if (validFromDate > now) return `${name} is valid from ${validFromDate.toISOString()} on, ${tooEarly(now)}`;
  if (validToDate < now) return `${name} was valid until ${validToDate.toISOString()}, ${tooLate(now, renewal)}`;
  return undefined;
}

const RENEWAL = "renew the certificate";

const clock = (now: Date) => `and the clock of this machine shows ${now.toISOString()}`;
const tooEarly = (now: Date) => `${clock(now)}: correct the clock that is wrong`;
const tooLate = (now: Date, renewal = RENEWAL) => `${clock(now)}: ${renewal}, or correct the clock`;

/**
 * The message of an error of TLS. If the certificate is outside its dates, it is that of {@link outsideDates}.
 * @param presented the server's certificate, if known
 */
export function tlsErrorText(error: unknown, presented?: CertificateDates, now = new Date()): string {
  const { code } = error as { readonly code?: unknown };
  if (code !== "CERT_NOT_YET_VALID" && code !== "CERT_HAS_EXPIRED") return errorText(error);
  const ofLeaf = presented && outsideDates(presented, { now });
  if (ofLeaf !== undefined) return ofLeaf;
  return code === "CERT_NOT_YET_VALID"
    ? `a certificate is not yet valid, ${tooEarly(now)}`
    : `a certificate of the chain has expired, ${tooLate(now)}`;
}
