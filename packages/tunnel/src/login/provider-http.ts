/** How a provider is called, and what is taken of its answers: it is a program of another company. */
import { Buffer } from "node:buffer";
import { errorText } from "@sallyport/async";
import * as client from "openid-client";
import { printable } from "./terminal.ts";

/** Far more than the metadata of a provider or its tokens need. */
export const MAX_ANSWER_BYTES = 1024 * 1024;
/** Of an address or a reason that is shown to the user. */
const MAX_SHOWN_CHARACTERS = 4_096;
const ANSWER_SECONDS = 20;

/** The provider did not answer, or cannot at the moment: it may be asked again. */
class ProviderUnreachableError extends Error {}

/** Whether the same request may succeed later. */
export function isUnreachable(error: unknown): boolean {
  return causesOf(error).some((each) => each instanceof ProviderUnreachableError);
}

/** @throws Error, also when the provider says that it is another one */
export async function discovered(authUrl: string, clientId: string): Promise<client.Configuration> {
  const url = new URL(authUrl);
  // What stays on this machine needs no TLS; every other address of the provider is looked at by `boundedFetch`.
  const execute = isLoopback(url) && url.protocol === "http:" ? [client.allowInsecureRequests] : [];
  const options = { execute, timeout: ANSWER_SECONDS, [client.customFetch]: boundedFetch };
  return await client.discovery(url, clientId, undefined, client.None(), options);
}

/** An address that the provider wants the user to open. @throws Error when it is none of a page */
export function shownAddress(text: string, what: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !isSafe(url) || url.href.length > MAX_SHOWN_CHARACTERS) {
    throw new Error(`it gave an ${what} that is not opened: expected https:, found ${url?.protocol ?? "no address"}`);
  }
  return url.href;
}

/** What the provider says (RFC 6749, section 5.2), else what the library found. Tokens are in neither. */
export function reasonOf(error: unknown): string {
  return printable(said(error)).slice(0, MAX_SHOWN_CHARACTERS);
}

function said(error: unknown): string {
  if (error instanceof client.ResponseBodyError || error instanceof client.AuthorizationResponseError) {
    return error.error_description === undefined ? error.error : `${error.error}: ${error.error_description}`;
  }
  const [first, ...causes] = causesOf(error);
  const unreachable = causes.find((each) => each instanceof ProviderUnreachableError);
  if (unreachable !== undefined) return errorText(unreachable);
  const text = errorText(first);
  if (first instanceof client.ClientError) {
    if (first.code === "OAUTH_JWT_TIMESTAMP_CHECK_FAILED") {
      return `its token has ended already, or does not count yet; is the clock of this machine right? It shows ${new Date().toISOString()}`;
    }
    if (first.cause instanceof Response) return `${text}: ${first.cause.status}`;
  }
  const cause = causes.length === 0 ? "" : errorText(causes[0]);
  return cause === "" || text.includes(cause) ? text : `${text}: ${cause}`;
}

/** The error, its cause, and so on. */
function causesOf(error: unknown): Error[] {
  const causes: Error[] = [];
  for (let each = error; each instanceof Error && causes.length < 8; each = each.cause) causes.push(each);
  return causes;
}

async function boundedFetch(address: string, options: client.CustomFetchOptions): Promise<Response> {
  const url = new URL(address);
  if (!isSafe(url)) throw new Error(`it names ${url.origin}: only https: is called`);
  const { body, status, statusText, headers } = await answered(url, options);
  // With Retry-After the library waits by itself.
  if (status >= 500 && !headers.has("retry-after")) {
    await body?.cancel();
    throw new ProviderUnreachableError(`${url.origin} answered ${status}`);
  }
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of body ?? []) {
    bytes += chunk.byteLength;
    if (bytes > MAX_ANSWER_BYTES) throw new Error(`${url.origin} sent more than ${MAX_ANSWER_BYTES} bytes`);
    chunks.push(chunk);
  }
  return new Response(bytes === 0 ? null : Buffer.concat(chunks), { status, statusText, headers });
}

async function answered(url: URL, { body, ...options }: client.CustomFetchOptions): Promise<Response> {
  try {
    return await fetch(url, body === undefined ? options : { ...options, body });
  } catch (error) {
    const [, cause] = causesOf(error);
    const code = cause !== undefined && "code" in cause ? String(cause.code) : "";
    const hint = /CERT|ISSUER|LEAF/.test(code) ? "; NODE_EXTRA_CA_CERTS names a file of further authorities" : "";
    throw new ProviderUnreachableError(`${url.origin} cannot be called: ${errorText(cause ?? error)}${hint}`, {
      cause: error,
    });
  }
}

function isSafe(url: URL): boolean {
  return url.protocol === "https:" || (url.protocol === "http:" && isLoopback(url));
}

function isLoopback({ hostname }: URL): boolean {
  return /^(localhost|127\.0\.0\.1|\[::1\])$/.test(hostname);
}
