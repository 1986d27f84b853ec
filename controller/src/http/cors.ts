/**
 * What pages of other origins, such as an admin console, may do (docs/api.md, "Browsers"): everything that a session token
 * allows, which they have to send themselves. Credentials that a browser would add by itself, such as a client
 * certificate, are not let in: any page could use them then.
 */
import { BASE_PATHS } from "@sallyport/api";
import type { FastifyInstance } from "fastify";

const METHODS = "GET, HEAD, POST, PUT, PATCH, DELETE";
const REQUEST_HEADERS = "content-type, accept, authorization, zt-session, svc-session, mfa-validation-code";
const READABLE = "zt-session, svc-session, ziti-instance-id, expiration-seconds, expires-at, retry-after";
/** For how long a browser may remember the answer to its question, seconds. */
const MAX_AGE = "600";

/** Adds the answers to preflight requests, and the header that lets a page read the others. */
export function allowOtherOrigins(app: FastifyInstance, commonHeaders: Readonly<Record<string, string>>): void {
  const bases = Object.values(BASE_PATHS);
  app.addHook("onRequest", async (request, reply) => {
    if (request.headers.origin === undefined) return;
    const path = request.url.split("?", 1)[0] ?? "";
    if (!bases.some((base) => path === base || path.startsWith(`${base}/`))) return;
    reply.headers({ "access-control-allow-origin": "*", "access-control-expose-headers": READABLE });
    if (request.method !== "OPTIONS" || request.headers["access-control-request-method"] === undefined) return;
    return reply
      .code(200)
      .headers({
        ...commonHeaders,
        "access-control-allow-methods": METHODS,
        "access-control-allow-headers": REQUEST_HEADERS,
        "access-control-max-age": MAX_AGE,
      })
      .send();
  });
}
