/** The programs that may ask for tokens. All are public clients: they prove themselves by PKCE, not by a secret. */
import { oauthError } from "./oauth-error.ts";
import type { Parameters } from "./parameters.ts";

export const CLIENTS = ["openziti", "native"] as const;

export type ClientId = (typeof CLIENTS)[number];

/** @throws ApiError `invalid_client` for any other */
export function knownClient(id: string): ClientId {
  const known = CLIENTS.find((client) => client === id);
  if (known === undefined) throw oauthError("invalid_client", "client not found");
  return known;
}

const BASIC = /^basic +(\S+) *$/i;
/** Clients write either alphabet of base64, with and without padding. */
const BASE64 = /^[A-Za-z0-9+/_-]+={0,2}$/;

/**
 * The client of a form: its parameter `client_id`, Basic authentication with an empty password, or both.
 * @param authorization every `Authorization` header as it came
 * @throws ApiError `invalid_client`; 401 with a challenge when the client tried Basic authentication
 */
export function readClient(form: Parameters, authorization: readonly string[]): ClientId {
  const named = form.get("client_id");
  const basics = authorization.flatMap((header) => BASIC.exec(header)?.[1] ?? []);
  if (basics.length === 0) {
    if (named === undefined) throw oauthError("invalid_client", "client_id missing");
    return knownClient(named);
  }
  const [first = ""] = basics;
  const client = CLIENTS.find((id) => idIn(first) === id);
  if (basics.length > 1 || client === undefined || (named !== undefined && named !== client)) {
    const headers = { "www-authenticate": 'Basic realm="openziti"' };
    const text = "the Authorization header must name the client of the form, with an empty password";
    throw oauthError("invalid_client", text, { status: 401, headers });
  }
  return client;
}

/** @returns undefined unless the password is empty */
function idIn(credentials: string): string | undefined {
  if (!BASE64.test(credentials)) return undefined;
  const text = Buffer.from(credentials, "base64").toString();
  const colon = text.indexOf(":");
  return colon === text.length - 1 ? text.slice(0, colon) : undefined;
}
