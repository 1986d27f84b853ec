/** Where a login or logout may send its user. Addresses are compared as text, never normalised (RFC 9700, section 4.1.3). */
import { isPort } from "./issuer.ts";
import { oauthError } from "./oauth-error.ts";

export const MAX_URI_LENGTH = 1_024;

const LOOPBACK = ["127.0.0.1", "localhost", "[::1]"];
/** In a registered address, as the port: any. */
const ANY_PORT = ":*/";

export class RedirectRules {
  readonly #exact: ReadonlySet<string>;
  /** What stands before and after the port. */
  readonly #anyPort: readonly (readonly [before: string, after: string])[];

  /**
   * @param path `/auth/callback` after a login, `/auth/logout` after a logout
   * @param origins whose pages may use the APIs
   * @param more registered by the operator: whole addresses, `*` only as the port
   */
  constructor(path: string, origins: readonly string[], more: readonly string[]) {
    const loopback = LOOPBACK.flatMap((host) => ["http", "https"].map((scheme) => `${scheme}://${host}:*${path}`));
    const all = [`openziti:/${path}`, ...loopback, ...origins.map((origin) => `${origin}${path}`), ...more];
    this.#exact = new Set(all.filter((uri) => !uri.includes(ANY_PORT)));
    this.#anyPort = all
      .filter((uri) => uri.includes(ANY_PORT))
      .map((uri) => {
        const at = uri.indexOf(ANY_PORT);
        return [uri.slice(0, at + 1), uri.slice(at + ANY_PORT.length - 1)] as const;
      });
  }

  has(uri: string): boolean {
    if (uri.length > MAX_URI_LENGTH) return false;
    if (this.#exact.has(uri)) return true;
    return this.#anyPort.some(
      ([before, after]) =>
        uri.startsWith(before) && uri.endsWith(after) && isPort(uri.slice(before.length, uri.length - after.length)),
    );
  }

  /** @throws ApiError `invalid_request`, which must not become a redirect */
  require(name: string, uri: string): string {
    if (this.has(uri)) return uri;
    throw oauthError(
      "invalid_request",
      `the ${name} is not registered: use a loopback address with a port, or let an administrator register it`,
    );
  }
}

/** What a login page shows and allows of a redirect address: its origin, or its scheme alone when it has none, as in `openziti:`. */
export function redirectOrigin(uri: string): string {
  const { origin, protocol } = new URL(uri);
  return origin === "null" ? protocol : origin;
}

/** An address with parameters added in their order; those without a value are left out. */
export function withParameters(uri: string, parameters: Readonly<Record<string, string | undefined>>): string {
  const added = Object.entries(parameters)
    .filter(([, value]) => value !== undefined && value !== "")
    .map(([name, value]) => `${name}=${encodeURIComponent(value ?? "")}`)
    .join("&");
  if (added === "") return uri;
  return `${uri}${uri.includes("?") ? "&" : "?"}${added}`;
}
