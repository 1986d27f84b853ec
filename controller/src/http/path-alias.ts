/** Which path of the APIs a requested one stands for. Source: docs/api.md, "Paths". */

const CLIENT = "/edge/client/v1";
/** First path parts that are never taken for the Client API's. */
const OWN_ROOTS = ["edge", "fabric", ".well-known", "oidc", "health-checks", "metrics", "zac", "assets"];

/** The specification has these under a name of their own, clients call them under that of the current identity. */
const OWN_CERTIFICATE = /^(\/edge\/(?:client|management)\/v1)(\/authenticators\/[^/]+\/extend(?:-verify)?)$/;

/**
 * Gives the URL under which a request is served: its path without empty and dot segments; the root and the version are
 * the Client API's, so is `/edge/v1`, and so is everything that begins with no known part, as the oldest clients name
 * paths without a prefix.
 */
export function resolvePath(url: string): string {
  const end = url.search(/[?#]/);
  const path = withoutEmptySegments(end < 0 ? url : url.slice(0, end));
  const rest = end < 0 ? "" : url.slice(end);
  if (path === "" || path === "/" || path === "/version") return `${CLIENT}/version${rest}`;
  if (path === "/.well-known/est/cacerts") return CLIENT + path + rest;
  if (path === "/edge/v1" || path.startsWith("/edge/v1/")) return CLIENT + path.slice("/edge/v1".length) + rest;
  const own = OWN_CERTIFICATE.exec(path);
  if (own !== null) return `${own[1]}/current-identity${own[2]}${rest}`;
  const root = path.split("/", 2)[1] ?? "";
  return (OWN_ROOTS.includes(root) ? path : CLIENT + path) + rest;
}

/**
 * Clients join base paths and paths without looking at the slashes, such as `//version` and `/services//ID`. Segments
 * that are empty or `.` are left out, and `..` takes the one before it with it. What is percent-encoded is a name.
 */
function withoutEmptySegments(path: string): string {
  if (!/\/(?:\/|\.)/.test(path) || !path.startsWith("/")) return path;
  const kept: string[] = [];
  for (const segment of path.split("/")) {
    if (segment === "..") kept.pop();
    else if (segment !== "" && segment !== ".") kept.push(segment);
  }
  return `/${kept.join("/")}`;
}
