/** Answers that pages of other origins may read (CORS). Source: docs/api.md, "Pages of other origins". */
import type { IncomingMessage } from "node:http";
import { BASE_PATHS } from "@sallyport/api";
import { peerCertificatesOf } from "./request.ts";

/** Headers that clients in browsers send besides those that every page may send. */
const REQUEST_HEADERS = ["accept", "authorization", "content-type", "if-match", "svc-session", "zt-session"];
/** Headers of an answer that they may read. */
const ANSWER_HEADERS = [
  ...["etag", "expiration-seconds", "expires-at", "retry-after", "sallyport-version"],
  ...["svc-session", "zt-session", "ziti-instance-id"],
];
/** Headers of the provider's answers that a login in a page needs, besides {@link ANSWER_HEADERS}. */
const LOGIN_HEADERS = ["auth-request-id", "location", "totp-required", "www-authenticate"];
/** Where the provider of tokens is; the other paths are those of the APIs. */
const LOGIN_PATH = "/oidc/";
const METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];
const PREFLIGHT_SECONDS = 600;

export interface CrossOriginAnswer {
  readonly headers: Readonly<Record<string, string>>;
  /** The request only asks what is allowed. */
  readonly isPreflight: boolean;
}

/**
 * CORS headers of an answer; none when the origin is not allowed. Credentials of the browser are never allowed: a page sends its own token. A browser
 * presents its client certificate for any page, so a connection with one gets no headers.
 * @param path under which the request is served
 */
export function crossOrigin(
  allowed: ReadonlySet<string>,
  path: string,
  message: IncomingMessage,
): CrossOriginAnswer | undefined {
  const isLogin = path.startsWith(LOGIN_PATH);
  const isServed = isLogin || Object.values(BASE_PATHS).some((base) => path.startsWith(`${base}/`));
  if (allowed.size === 0 || !isServed) return undefined;
  const { origin } = message.headers;
  // A cache must not give an answer for one origin to another.
  const vary = { vary: "Origin" };
  if (origin === undefined || !allowed.has(origin) || peerCertificatesOf(message).length > 0) {
    return { headers: vary, isPreflight: false };
  }
  const own = { ...vary, "access-control-allow-origin": origin };
  if (message.method !== "OPTIONS" || message.headers["access-control-request-method"] === undefined) {
    const readable = isLogin ? [...ANSWER_HEADERS, ...LOGIN_HEADERS] : ANSWER_HEADERS;
    return { headers: { ...own, "access-control-expose-headers": readable.join(", ") }, isPreflight: false };
  }
  return {
    headers: {
      ...own,
      "access-control-allow-headers": REQUEST_HEADERS.join(", "),
      "access-control-allow-methods": METHODS.join(", "),
      "access-control-max-age": String(PREFLIGHT_SECONDS),
    },
    isPreflight: true,
  };
}
