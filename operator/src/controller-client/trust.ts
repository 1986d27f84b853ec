import { createHmac, hkdfSync, randomBytes, timingSafeEqual, X509Certificate } from "node:crypto";
import { type RequestOptions, request } from "node:https";
import { isIP } from "node:net";
import { connect as tlsConnect } from "node:tls";
import { ApiTransportError } from "@sallyport/api/client";
import { nameParts, splitPem, x509 } from "@sallyport/wire";
import { byProxy } from "./proxies.ts";

const MAX_ANSWER_BYTES = 4 * 1024 * 1024;
const CA_STORE = "/edge/client/v1/.well-known/est/cacerts";
const TRUST_PATH = "/.well-known/sallyport/trust";
const PURPOSE = "sallyport trust bundle 1";
const SECRET_KEY_BYTES = 32;

/** What a server said of its authorities is not what was expected of it. */
export class TrustError extends Error {
  override readonly name = "TrustError";
}

interface TrustOptions {
  readonly timeoutMs: number;
  readonly signal?: AbortSignal;
  /** Name to ask the server for, where it is not the host of the URL. */
  readonly servername?: string;
}

/**
 * The authority with this SHA-256 fingerprint (hex, colons or not), PEM, from the CA store of the first endpoint that answers. Nothing of the connection is
 * trusted: what is pinned can't be forged.
 *
 * @throws TrustError when it is not among the certificates there, ApiTransportError when no endpoint answers
 */
export async function fetchPinnedAuthority(
  endpoints: readonly string[],
  fingerprint: string,
  o: TrustOptions,
): Promise<string> {
  const wanted = fingerprint.replaceAll(":", "").toUpperCase();
  let failure: unknown;
  for (const endpoint of endpoints) {
    try {
      const answer = await fetchUnverified(new URL(CA_STORE, endpoint), o);
      const certificates = authoritiesIn(answer, endpoint);
      const pinned = certificates.find(({ fingerprint256 }) => fingerprint256.replaceAll(":", "") === wanted);
      if (pinned !== undefined) return pinned.toString();
      const found = certificates.map(({ fingerprint256, subject }) => `${fingerprint256} (${oneLine(subject)})`);
      throw new TrustError(
        `the CA store of ${endpoint} has no certificate with the fingerprint of bootstrapTrust; it has ${found.join(", ") || "none"}. Compare with the fingerprint that the controller's administrator tells`,
      );
    } catch (error) {
      if (error instanceof TrustError) throw error;
      failure = error;
    }
  }
  throw failure;
}

/**
 * What clients of a network have to trust, PEM, from its controller, which proves that it has the network's secret key (`secretKey`: base64 of 32 bytes;
 * docs/controller/pki.md, "Trust by the secret key").
 *
 * @throws TrustError for an answer without that proof, ApiTransportError when it doesn't answer
 */
export async function fetchProvenBundle(base: string, secretKey: string, o: TrustOptions): Promise<string> {
  const nonce = randomBytes(32).toString("hex");
  const answer = await fetchUnverified(new URL(`${TRUST_PATH}?nonce=${nonce}`, base), o);
  const { bundle, proof } = trustDocument(answer, base);
  if (!isProof(proof, `${nonce}\n${bundle}`, secretKey)) {
    throw new TrustError(
      `the server at ${base} does not prove that it has the network's secret key: it is another controller, or one that was started with another key`,
    );
  }
  if (splitPem(bundle).length === 0) throw new TrustError(`the server at ${base} names no authority to trust`);
  return bundle;
}

/** @throws TrustError for a key of another form */
function isProof(proof: string, text: string, secretKey: string): boolean {
  const key = Buffer.from(secretKey.trim(), "base64");
  if (key.length !== SECRET_KEY_BYTES) {
    throw new TrustError(`the network's secret key must be base64 of ${SECRET_KEY_BYTES} bytes`);
  }
  const derived = new Uint8Array(hkdfSync("sha256", key, "", PURPOSE, SECRET_KEY_BYTES));
  const expected = createHmac("sha256", derived).update(text).digest();
  const given = Buffer.from(proof, "base64");
  return given.length === expected.length && timingSafeEqual(given, expected);
}

function trustDocument(answer: Buffer, base: string): { bundle: string; proof: string } {
  try {
    const { bundle, proof } = (JSON.parse(answer.toString("utf8")) as { data: { bundle: unknown; proof: unknown } })
      .data;
    if (typeof bundle === "string" && typeof proof === "string") return { bundle, proof };
  } catch {
    // Said below.
  }
  throw new TrustError(
    `the server at ${base} answers with something else than a trust bundle: it is not the controller of this network`,
  );
}

function authoritiesIn(body: Buffer, endpoint: string): X509Certificate[] {
  const text = body.toString("latin1").replaceAll(/-----[^-]+-----|\s/g, "");
  const der = /^[A-Za-z0-9+/=]+$/.test(text) ? Buffer.from(text, "base64") : body;
  try {
    return new x509.X509Certificates(der).map(({ rawData }) => new X509Certificate(Buffer.from(rawData)));
  } catch (error) {
    throw new TrustError(`the CA store of ${endpoint} can't be read: ${(error as Error).message}`);
  }
}

/** A connection of its own, through the proxy where there is one. */
function way(url: URL, servername: string | undefined): RequestOptions {
  const { connect } = byProxy();
  if (connect === undefined) return { agent: false };
  const host = url.hostname.replace(/^\[|\]$/g, "");
  const port = Number(url.port || 443);
  const named = servername ?? (isIP(host) === 0 ? host : undefined);
  return {
    createConnection(_options, callback) {
      connect({ host, port }).then(
        (socket) => {
          const secured = { host, port, socket, servername: named, ALPNProtocols: ["http/1.1"] };
          callback(null, tlsConnect({ ...secured, rejectUnauthorized: false }));
        },
        (error: Error) => callback(error, undefined as never),
      );
      return undefined;
    },
  };
}

function fetchUnverified(url: URL, { timeoutMs, signal, servername }: TrustOptions): Promise<Buffer> {
  const where = url.origin + url.pathname;
  const timeout = AbortSignal.timeout(timeoutMs);
  return new Promise((resolve, reject) => {
    const failed = (error: Error): void =>
      reject(
        signal?.aborted
          ? signal.reason
          : new ApiTransportError(`${where} could not be called: ${error.message}`, { cause: error }),
      );
    const outgoing = request(
      url,
      {
        ...way(url, servername),
        rejectUnauthorized: false,
        servername,
        signal: signal === undefined ? timeout : AbortSignal.any([timeout, signal]),
      },
      (answer) => {
        const chunks: Buffer[] = [];
        let bytes = 0;
        answer.on("data", (chunk: Buffer) => {
          bytes += chunk.byteLength;
          if (bytes > MAX_ANSWER_BYTES)
            answer.destroy(new Error(`the answer is longer than ${MAX_ANSWER_BYTES} bytes`));
          else chunks.push(chunk);
        });
        answer.on("error", failed);
        answer.on("end", () => {
          if (answer.statusCode === 200) resolve(Buffer.concat(chunks));
          else
            reject(
              new TrustError(
                `${where} answered with status ${answer.statusCode}: it is not the controller of this network`,
              ),
            );
        });
      },
    );
    outgoing.on("error", failed);
    outgoing.end();
  });
}

const oneLine = (name: string | undefined): string => nameParts(name).join(", ") || "without a subject";
