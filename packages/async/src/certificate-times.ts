import { errorText } from "./error-text.ts";

/** The dates of a certificate, as `X509Certificate` has them. */
export interface CertificateDates {
  readonly validFromDate: Date;
  readonly validToDate: Date;
}

/** What a client needs of a TLS socket to know the dates of a certificate that it refuses. */
interface SecuredSocket {
  prependOnceListener(event: "secure", listener: () => void): unknown;
  getPeerX509Certificate(): CertificateDates | undefined;
}

/**
 * Keeps the certificate that a TLS socket is about to verify: after a failure the socket knows it no more.
 * @returns gives the certificate; undefined before the server has presented one
 */
export function presentedCertificate(socket: SecuredSocket): () => CertificateDates | undefined {
  let presented: CertificateDates | undefined;
  socket.prependOnceListener("secure", () => {
    presented = socket.getPeerX509Certificate();
  });
  return () => presented;
}

/**
 * The message of an error of TLS. If the certificate is outside its dates, it says these and the time of this machine, since one of the two clocks may be
 * wrong.
 * @param presented the server's certificate, if known
 */
export function tlsErrorText(error: unknown, presented?: CertificateDates, now = new Date()): string {
  const { code } = error as { readonly code?: unknown };
  const clock = `the clock of this machine shows ${now.toISOString()}`;
  if (code === "CERT_NOT_YET_VALID") {
    const from = presented && presented.validFromDate > now ? presented.validFromDate.toISOString() : undefined;
    return `${from ? `the certificate is valid from ${from} on` : "a certificate is not yet valid"}, and ${clock}: correct the clock that is wrong`;
  }
  if (code === "CERT_HAS_EXPIRED") {
    const until = presented && presented.validToDate < now ? presented.validToDate.toISOString() : undefined;
    return `${until ? `the certificate was valid until ${until}` : "a certificate of the chain has expired"}, and ${clock}: renew the certificate, or correct the clock`;
  }
  return errorText(error);
}
