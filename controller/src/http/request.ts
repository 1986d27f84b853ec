/** What the server reads of a request besides its body: path, headers, certificates, media types. */
import type { X509Certificate } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { isIP } from "node:net";
import { TLSSocket } from "node:tls";
import { API_ERRORS, ApiError, type BodySpec, fieldCause, JSON_TYPE, type Operation } from "@sallyport/api";
import { ProxiedRequestHeader, peerOf, plainAddress } from "@sallyport/wire";
import type { ProxiedBy, RequestInfo } from "./context.ts";

/** What a router's API proxy adds to requests (docs/protocol/edge.md, "API proxy"). */
const { PassedOnAt: PROXIED_AT, ClientCertificate: CLIENT_CERTIFICATE } = ProxiedRequestHeader;

interface ConnectionPeer {
  readonly address: string;
  readonly certificates: readonly X509Certificate[];
  /** The last `Authorization` header, and the tokens in it. */
  authorization?: { readonly header: string; readonly bearerTokens: readonly string[] };
}

/** By socket: the certificates of a connection are read once, not with every request, and so is a header that every request repeats. */
const peers = new WeakMap<object, ConnectionPeer>();

function peer(message: IncomingMessage): ConnectionPeer {
  const { socket } = message;
  let known = peers.get(socket);
  if (known === undefined) {
    known = socket instanceof TLSSocket ? peerOf(socket) : { address: "unknown", certificates: [] };
    peers.set(socket, known);
  }
  return known;
}

/** What every request says of itself, whatever it asks for. */
export function arrivalOf(
  message: IncomingMessage,
): Pick<
  RequestInfo,
  "method" | "headers" | "remoteAddress" | "remoteIp" | "peerCertificates" | "proxied" | "bearerTokens"
> {
  const all = message.headersDistinct;
  return {
    method: message.method ?? "",
    headers: Object.fromEntries(Object.entries(all).map(([name, values]) => [name, values?.[0]])),
    remoteAddress: remoteAddressOf(message),
    remoteIp: plainAddress(message.socket.remoteAddress ?? ""),
    peerCertificates: peerCertificatesOf(message),
    proxied: proxiedBy(message),
    bearerTokens: bearerTokensOf(message, all.authorization ?? []),
  };
}

/** The same array as long as the connection shows the same token: what was found out about it need not be found out again. */
function bearerTokensOf(message: IncomingMessage, headers: readonly string[]): readonly string[] {
  const [header, second] = headers;
  if (header === undefined || second !== undefined) return headers.flatMap(bearerToken);
  const own = peer(message);
  if (own.authorization?.header !== header) own.authorization = { header, bearerTokens: bearerToken(header) };
  return own.authorization.bearerTokens;
}

function bearerToken(header: string): string[] {
  const token = /^Bearer +(\S+) *$/i.exec(header)?.[1];
  return token === undefined ? [] : [token];
}

export function requestInfo(
  message: IncomingMessage,
  {
    operation,
    ...of
  }: Pick<RequestInfo, "id" | "api" | "path" | "signal"> & { readonly operation: Pick<Operation, "issuesSession"> },
): RequestInfo {
  const arrival = arrivalOf(message);
  const shown = arrival.headers["zt-session"] || arrival.headers["svc-session"] || undefined;
  return { ...of, ...arrival, sessionToken: operation.issuesSession ? undefined : shown };
}

/** Empty for a proxy: its certificates are not those of the caller. */
export function peerCertificatesOf(message: IncomingMessage): readonly X509Certificate[] {
  return isProxied(message) ? [] : peer(message).certificates;
}

/** Either header is enough: through some proxies clients can remove one. */
function isProxied({ headersDistinct: headers }: IncomingMessage): boolean {
  return headers[PROXIED_AT] !== undefined || headers[CLIENT_CERTIFICATE] !== undefined;
}

function proxiedBy(message: IncomingMessage): ProxiedBy | undefined {
  if (!isProxied(message)) return undefined;
  return {
    proxyCertificates: peer(message).certificates,
    passedOnAt: message.headersDistinct[PROXIED_AT] ?? [],
    clientCertificates: message.headersDistinct[CLIENT_CERTIFICATE] ?? [],
    clientIp: lastForwarded(message.headersDistinct["x-forwarded-for"]),
  };
}

/** The client itself can write every address before the last. */
function lastForwarded(headers: readonly string[] | undefined): string | undefined {
  const last = plainAddress(headers?.at(-1)?.split(",").at(-1)?.trim() ?? "");
  return isIP(last) === 0 ? undefined : last;
}

export function remoteAddressOf(message: IncomingMessage): string {
  return peer(message).address;
}

const CLIENT = "/edge/client/v1";
/** First path parts that never belong to the Client API. */
const OTHER_ROOTS = ["edge", "fabric", ".well-known", "oidc", "health-checks", "metrics", "zac", "assets"];

/** The specification has these paths of their own; clients call them below the current identity. */
const OWN_CERTIFICATE = /^(\/edge\/(?:client|management)\/v1)(\/authenticators\/[^/]+\/extend(?:-verify)?)$/;

/**
 * The URL under which a request is served (docs/api.md, "Paths"). The Client API has the root, the version, `/edge/v1`, and every path that begins with no
 * known part, as the oldest clients send it.
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
  return (OTHER_ROOTS.includes(root) ? path : CLIENT + path) + rest;
}

/** Removes empty and dot segments: clients send paths such as `//version` and `/services//ID`. Percent-encoded text is a name. */
function withoutEmptySegments(path: string): string {
  if (!/\/(?:\/|\.)/.test(path) || !path.startsWith("/")) return path;
  const kept: string[] = [];
  for (const segment of path.split("/")) {
    if (segment === "..") kept.pop();
    else if (segment !== "" && segment !== ".") kept.push(segment);
  }
  return `/${kept.join("/")}`;
}

/** A body whose type is not said. */
const UNTYPED = "application/octet-stream";

/** The media type of a `Content-Type` header, without parameters, in lower case; undefined when absent or empty. */
export function mediaType(header: string | undefined): string | undefined {
  const type = header?.split(";", 1)[0]?.trim().toLowerCase();
  return type === "" ? undefined : type;
}

/** What a body sent with this type is read as; undefined where the operation does not take the type. */
export function bodyFormat(body: BodySpec, type: string | undefined): "json" | "text" | undefined {
  if (body.kind === "none") return "text";
  if (body.kind === "text") return type !== undefined && body.textTypes.includes(type) ? "text" : undefined;
  if (type === JSON_TYPE) return "json";
  if (body.kind === "json") return undefined;
  return type === undefined || body.textTypes.includes(type) ? "text" : undefined;
}

/** 415, naming what the operation takes. */
export function unsupportedType(body: BodySpec, type = UNTYPED): ApiError {
  const texts = body.kind === "json-or-text" || body.kind === "text" ? body.textTypes : [];
  const allowed = [...(body.kind === "text" ? [] : [JSON_TYPE]), ...texts].join(" ");
  return typeError(415, "Content-Type", `unsupported media type "${type}", only [${allowed}] are allowed`, type);
}

/** 406, naming what the operation produces. */
export function notAcceptable(accept: string, produces: readonly string[]): ApiError {
  const reason = `unsupported media type requested, only [${produces.join(" ")}] are available`;
  return typeError(406, "Accept", reason, accept);
}

function typeError(status: number, header: string, reason: string, value: string): ApiError {
  const { message } = API_ERRORS.COULD_NOT_VALIDATE;
  return new ApiError(status, "COULD_NOT_VALIDATE", message, fieldCause(header, reason, value));
}
