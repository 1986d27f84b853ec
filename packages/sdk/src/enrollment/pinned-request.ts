import type { X509Certificate } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { request as httpsRequest } from "node:https";
import { isIP } from "node:net";
import { connect, type TLSSocket } from "node:tls";
import type { Connect } from "@sallyport/api/client/connect";
import { type CertificateDates, presentedCertificate, tlsErrorText } from "@sallyport/async";
import { controllerTrust } from "@sallyport/wire";
import { EnrollmentError } from "../errors.ts";

/** What a request during enrollment trusts: exactly this leaf, or every server that these anchors (PEM) vouch for. */
export type EnrollmentTrust = { readonly leaf: X509Certificate } | { readonly caPem: string };

export interface EnrollmentRequest {
  readonly method: "GET" | "POST";
  readonly url: URL;
  readonly trust: EnrollmentTrust;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Buffer;
  readonly signal?: AbortSignal | undefined;
  readonly connect?: Connect | undefined;
}

export interface EnrollmentResponse {
  readonly status: number;
  readonly body: Buffer;
}

const TIMEOUT_MS = 30_000;
const MAX_RESPONSE = 4 * 1024 * 1024;

/**
 * The leaf certificate that the server of a URL presents now. It is not verified: enrollment tokens are signed with its
 * key, so a token that verifies with it proves both (docs/protocol/enrollment.md, "Trust").
 */
export async function servedLeaf(url: URL, signal?: AbortSignal, connect?: Connect): Promise<X509Certificate> {
  const socket = await openTls(url, undefined, withTimeout(signal), connect);
  try {
    return leafOf(socket, url);
  } finally {
    socket.destroy();
  }
}

/** One HTTPS request under the given trust. @throws EnrollmentError `UNREACHABLE`, `UNTRUSTED_SERVER`, `RESPONSE_TOO_LARGE` */
export async function enrollmentRequest(o: EnrollmentRequest): Promise<EnrollmentResponse> {
  const signal = withTimeout(o.signal);
  const socket = await openTls(o.url, "caPem" in o.trust ? o.trust.caPem : undefined, signal, o.connect);
  if ("leaf" in o.trust && !leafOf(socket, o.url).raw.equals(o.trust.leaf.raw)) {
    socket.destroy();
    const text = `${o.url.host} now presents another certificate than the one that signed the token`;
    throw new EnrollmentError("UNTRUSTED_SERVER", text);
  }
  const body = o.body === undefined ? undefined : Buffer.from(o.body);
  return new Promise((resolve, reject) => {
    const failed = (error: unknown): void => {
      socket.destroy();
      reject(error instanceof EnrollmentError ? error : unreachable(o.url, error));
    };
    const request = httpsRequest(
      o.url,
      {
        method: o.method,
        createConnection: () => socket,
        signal,
        headers: {
          accept: "application/json, application/pkcs7-mime",
          connection: "close",
          ...o.headers,
          ...(body === undefined ? {} : { "content-length": String(body.length) }),
        },
      },
      (response) => readBody(response).then(resolve, failed),
    );
    request.on("error", failed);
    request.end(body);
  });
}

async function readBody(response: IncomingMessage): Promise<EnrollmentResponse> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    length += chunk.length;
    if (length > MAX_RESPONSE) {
      throw new EnrollmentError("RESPONSE_TOO_LARGE", `expected at most ${MAX_RESPONSE} bytes, the server sends more`);
    }
    chunks.push(chunk);
  }
  return { status: response.statusCode ?? 0, body: Buffer.concat(chunks) };
}

async function openTls(
  url: URL,
  ca: string | undefined,
  signal: AbortSignal,
  connectBelow?: Connect,
): Promise<TLSSocket> {
  const host = url.hostname.replace(/^\[|\]$/g, "");
  const port = Number(url.port || 443);
  const below = await connectBelow?.({ host, port }).catch((error: unknown) => Promise.reject(unreachable(url, error)));
  return await new Promise((resolve, reject) => {
    const socket = connect({
      host,
      port,
      ...(below === undefined ? {} : { socket: below }),
      ...(isIP(host) === 0 ? { servername: host } : {}),
      ...(ca === undefined ? { rejectUnauthorized: false } : controllerTrust(ca)),
      ALPNProtocols: ["http/1.1"],
    });
    const presented = presentedCertificate(socket);
    const failed = (error: unknown): void => {
      signal.removeEventListener("abort", aborted);
      socket.destroy();
      reject(unreachable(url, error, presented()));
    };
    const aborted = (): void => failed(signal.reason);
    signal.addEventListener("abort", aborted, { once: true });
    socket.once("error", failed);
    socket.once("secureConnect", () => {
      signal.removeEventListener("abort", aborted);
      socket.off("error", failed);
      resolve(socket);
    });
    if (signal.aborted) aborted();
  });
}

function leafOf(socket: TLSSocket, url: URL): X509Certificate {
  const leaf = socket.getPeerX509Certificate();
  if (leaf === undefined) throw new EnrollmentError("UNTRUSTED_SERVER", `${url.host} presents no certificate`);
  return leaf;
}

function unreachable(url: URL, cause: unknown, presented?: CertificateDates): EnrollmentError {
  const reason = tlsErrorText(cause, presented);
  return new EnrollmentError("UNREACHABLE", `the controller at ${url.host} cannot be reached: ${reason}`, { cause });
}

function withTimeout(signal: AbortSignal | undefined): AbortSignal {
  const limit = AbortSignal.timeout(TIMEOUT_MS);
  return signal === undefined ? limit : AbortSignal.any([signal, limit]);
}
