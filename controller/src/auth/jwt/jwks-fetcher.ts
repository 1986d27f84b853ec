import { lookup as resolveHost } from "node:dns";
import { request as httpRequest, type IncomingMessage } from "node:http";
import { request as httpsRequest } from "node:https";
import { isIP, type LookupFunction } from "node:net";
import { getCACertificates } from "node:tls";
import { AddressRules } from "./address-rules.ts";

/** A key set could not be fetched; the message says why, for the log. */
export class JwksFetchError extends Error {
  override name = "JwksFetchError";
}

/** Resolves a host name to all its addresses, as `dns.lookup` does with `all`. */
export type Resolve = (
  hostname: string,
  done: (error: Error | null, addresses: readonly { address: string; family: number }[]) => void,
) => void;

export interface JwksFetcherOptions {
  /** Private networks and addresses that may be used, as `10.0.0.0/8` or `127.0.0.1`. */
  readonly allowedNetworks: readonly string[];
  /** False by default: an attacker on the path could insert keys. */
  readonly allowPlainHttp?: boolean | undefined;
  /** Trusted besides the system's certificates. */
  readonly caPem?: string | undefined;
  /** For the whole of a fetch, redirects included; 5,000 when not given. */
  readonly timeoutMs?: number;
  readonly resolve?: Resolve;
}

const TIMEOUT_MS = 5_000;
const MAX_REDIRECTS = 5;
const MAX_BYTES = 512 * 1024;
const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);
const MEDIA_TYPES: ReadonlySet<string> = new Set([
  "application/json",
  "application/jwk-set+json",
  "application/jwk+json",
]);

/**
 * Fetches key sets from URLs of administrators, which may lead anywhere: only over HTTPS (or HTTP where that is allowed), and only from addresses that the
 * rules allow after name resolution. Limits are five seconds, 512 KiB, and five redirects, each checked like the first URL and never from HTTPS to HTTP.
 */
export class JwksFetcher {
  readonly #rules: AddressRules;
  readonly #ca: string[] | undefined;
  readonly #allowsPlainHttp: boolean;
  readonly #timeoutMs: number;
  readonly #resolve: Resolve;

  /** @throws RangeError when an allowed network is none */
  constructor(options: JwksFetcherOptions) {
    this.#rules = new AddressRules(options.allowedNetworks);
    this.#ca = options.caPem === undefined ? undefined : [...getCACertificates("default"), options.caPem];
    this.#allowsPlainHttp = options.allowPlainHttp ?? false;
    this.#timeoutMs = options.timeoutMs ?? TIMEOUT_MS;
    this.#resolve = options.resolve ?? ((hostname, done) => resolveHost(hostname, { all: true }, done));
  }

  /** The JSON document behind the address. @throws JwksFetchError */
  async fetch(endpoint: string): Promise<unknown> {
    const signal = AbortSignal.timeout(this.#timeoutMs);
    try {
      let url = endpointUrl(endpoint);
      for (let redirects = 0; ; redirects++) {
        const response = await this.#get(url, signal);
        const { statusCode = 0, headers } = response;
        if (!REDIRECTS.has(statusCode)) return await documentOf(response, url);
        response.destroy();
        if (redirects === MAX_REDIRECTS)
          throw new JwksFetchError(`${endpoint} led over more than ${redirects} redirects`);
        url = redirected(url, headers.location);
      }
    } catch (error) {
      if (signal.aborted) throw new JwksFetchError(`${endpoint} did not answer within ${this.#timeoutMs} ms`);
      if (error instanceof JwksFetchError) throw error;
      throw new JwksFetchError(`${endpoint} could not be fetched: ${(error as Error).message}`);
    }
  }

  #get(url: URL, signal: AbortSignal): Promise<IncomingMessage> {
    if (url.protocol === "http:" && !this.#allowsPlainHttp) {
      throw new JwksFetchError(
        `${url.href} is not fetched: keys that come over http: can be replaced on the way. Give the signer an https: address, or set auth.jwks.allowPlainHttp`,
      );
    }
    // For a literal address nothing is looked up.
    const host = url.hostname.replace(/^\[(.*)\]$/, "$1");
    const refusal = isIP(host) === 0 ? undefined : this.#rules.refusal(host);
    if (refusal !== undefined) throw new JwksFetchError(refusal);
    const options = {
      agent: false as const,
      signal,
      lookup: this.#lookup,
      maxHeaderSize: 16_384,
      headers: {
        accept: [...MEDIA_TYPES].join(", "),
        "accept-encoding": "identity",
        "user-agent": "sallyport-controller",
      },
    };
    return new Promise((resolve, reject) => {
      const sent =
        url.protocol === "https:"
          ? httpsRequest(url, { ...options, ca: this.#ca }, resolve)
          : httpRequest(url, options, resolve);
      sent.on("error", reject);
      sent.end();
    });
  }

  /** Resolves a name once, and gives only allowed addresses: the connection goes to the address that was checked. */
  readonly #lookup: LookupFunction = (hostname, options, done) => {
    this.#resolve(hostname, (error, addresses) => {
      if (error !== null) return done(error, "", 4);
      const usable = addresses.filter(({ address }) => this.#rules.refusal(address) === undefined);
      const [first] = usable;
      if (first === undefined) {
        const reasons = addresses.map(({ address }) => this.#rules.refusal(address));
        return done(new JwksFetchError(`${hostname}: ${reasons.join("; ") || "the name has no address"}`), "", 4);
      }
      if (options.all) return done(null, [...usable]);
      done(null, first.address, first.family);
    });
  };
}

/** @throws JwksFetchError when the address of a key set is no HTTP URL, or holds a password */
export function endpointUrl(text: string): URL {
  if (!URL.canParse(text)) throw new JwksFetchError(`${text} is no URL`);
  const url = new URL(text);
  if (url.protocol !== "https:" && url.protocol !== "http:") {
    throw new JwksFetchError(`${url.protocol} is not fetched from: expected http: or https:`);
  }
  if (url.username !== "" || url.password !== "")
    throw new JwksFetchError("the URL may not hold a user name or password");
  return url;
}

function redirected(from: URL, location: string | undefined): URL {
  if (location === undefined || !URL.canParse(location, from)) {
    throw new JwksFetchError(`${from.origin} redirects to nowhere`);
  }
  const url = endpointUrl(new URL(location, from).href);
  if (from.protocol === "https:" && url.protocol === "http:") {
    throw new JwksFetchError(`${from.origin} redirects from https to http`);
  }
  return url;
}

async function documentOf(response: IncomingMessage, url: URL): Promise<unknown> {
  const { statusCode, headers } = response;
  try {
    if (statusCode !== 200) throw new JwksFetchError(`${url.origin} answered ${statusCode}, expected 200`);
    const type = (headers["content-type"] ?? "").split(";", 1)[0]?.trim().toLowerCase() ?? "";
    if (!MEDIA_TYPES.has(type)) throw new JwksFetchError(`${url.origin} sent "${type}", expected a JSON document`);
    if ((headers["content-encoding"] ?? "identity") !== "identity") {
      throw new JwksFetchError(`${url.origin} sent a compressed document, which was not asked for`);
    }
    const chunks: Buffer[] = [];
    let size = 0;
    for await (const chunk of response as AsyncIterable<Buffer>) {
      size += chunk.length;
      if (size > MAX_BYTES) throw new JwksFetchError(`${url.origin} sent more than ${MAX_BYTES} bytes`);
      chunks.push(chunk);
    }
    return JSON.parse(Buffer.concat(chunks).toString("utf8"));
  } finally {
    response.destroy();
  }
}
