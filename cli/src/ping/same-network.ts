/** Whether two logins are at one network. */

/** How a controller is reached, and the authorities that vouch for it. */
export interface NetworkAt {
  /** `https://host:port` */
  readonly controller: string;
  /** PEM; undefined where the system's authorities vouch for it. */
  readonly ca?: string | undefined;
}

/** A controller has several addresses, such as localhost on its own machine; an authority has one network. */
export function isSameNetwork(one: NetworkAt, other: NetworkAt): boolean {
  if (new URL(one.controller).host === new URL(other.controller).host) return true;
  return !certificates(one.ca).isDisjointFrom(certificates(other.ca));
}

function certificates(pem = ""): Set<string> {
  const blocks = pem.matchAll(/-----BEGIN CERTIFICATE-----([^-]*)-----END CERTIFICATE-----/g);
  return new Set([...blocks].map(([, text = ""]) => text.replaceAll(/\s/g, "")));
}
