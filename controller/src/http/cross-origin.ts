/** Answers that pages of other origins may read (CORS). Source: docs/api.md, "Pages of other origins". */
import type { IncomingMessage } from "node:http";
import { BASE_PATHS } from "@sallyport/api";
import { peerCertificatesOf } from "./request.ts";

/** What clients in browsers send besides the headers that every page may send. */
const REQUEST_HEADERS = ["accept", "authorization", "content-type", "svc-session", "zt-session"];
/** What they may read of an answer. */
const ANSWER_HEADERS = [
  ...["expiration-seconds", "expires-at", "retry-after", "sallyport-version"],
  ...["svc-session", "zt-session", "ziti-instance-id"],
];
const METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];
/** How long a browser need not ask again. */
const PREFLIGHT_SECONDS = 600;

export interface CrossOriginAnswer {
  readonly headers: Readonly<Record<string, string>>;
  /** The request only asked what is allowed: nothing else is to be done for it. */
  readonly isPreflight: boolean;
}

/**
 * CORS headers of an answer; none when the origin is not allowed. Credentials of the browser are never allowed: a page sends its own token. A browser
 * presents its client certificate for any page, so a connection with one gets no headers.
 *
 * `path` is the one that the request is served under.
 */
export function crossOrigin(
  allowed: ReadonlySet<string>,
  path: string,
  message: IncomingMessage,
): CrossOriginAnswer | undefined {
  if (allowed.size === 0 || !Object.values(BASE_PATHS).some((base) => path.startsWith(`${base}/`))) return undefined;
  const { origin } = message.headers;
  // What is kept for one origin is not to be given to another.
  const vary = { vary: "Origin" };
  if (origin === undefined || !allowed.has(origin) || peerCertificatesOf(message).length > 0) {
    return { headers: vary, isPreflight: false };
  }
  const own = { ...vary, "access-control-allow-origin": origin };
  if (message.method !== "OPTIONS" || message.headers["access-control-request-method"] === undefined) {
    return { headers: { ...own, "access-control-expose-headers": ANSWER_HEADERS.join(", ") }, isPreflight: false };
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
