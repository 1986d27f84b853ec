/** Logins of users at an OpenID provider. Only who needs one loads this. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { abortable, errorText, SerialQueue } from "@sallyport/async";
import type { ExternalSigner } from "@sallyport/sdk";
import { listen } from "@sallyport/wire";
import * as client from "openid-client";
import type { User } from "./terminal.ts";

export type ProviderSigner = Pick<ExternalSigner, "name" | "scopes" | "audience" | "targetToken"> & {
  readonly authUrl: string;
  readonly clientId: string;
};

export interface ProviderLoginOptions {
  /** With a code that the user enters in any browser; else with a browser of this machine. */
  readonly isDevice: boolean;
  readonly user: User;
  readonly signal: AbortSignal;
  /** Where the browser comes back to; {@link CALLBACK_PORT} when left out. */
  readonly port?: number;
  /** Longest wait for the user; {@link MAX_LOGIN_MS} when left out. */
  readonly limitMs?: number;
}

/** Where programs of OpenZiti wait for the browser, and what providers have registered for them. */
const CALLBACK_PORT = 20_314;
const CALLBACK_PATH = "/auth/callback";
/** Then a login that the user does not finish is given up. */
const MAX_LOGIN_MS = 10 * 60_000;

/** One browser at a time comes back to the port. */
const browsers = new SerialQueue();

/**
 * Has the user log in at the provider of a signer.
 *
 * @returns the token that the network takes
 * @throws Error that says where and why, or the signal's reason
 */
export async function loginAtProvider(signer: ProviderSigner, o: ProviderLoginOptions): Promise<string> {
  const limit = AbortSignal.timeout(o.limitMs ?? MAX_LOGIN_MS);
  const signal = AbortSignal.any([o.signal, limit]);
  try {
    const provider = await abortable(discovered(signer), signal);
    const options = { ...o, signal };
    return o.isDevice
      ? await byDevice(provider, signer, options)
      : await browsers.run(() => byBrowser(provider, signer, options));
  } catch (error) {
    o.signal.throwIfAborted();
    const reason = limit.aborted ? "the user did not log in in time" : reasonOf(error);
    throw new Error(`the login at ${signer.authUrl} (signer ${signer.name}) failed: ${reason}`, { cause: error });
  }
}

async function discovered({ authUrl, clientId }: ProviderSigner): Promise<client.Configuration> {
  const url = new URL(authUrl);
  const isLoopback = /^(localhost|127\.0\.0\.1|\[::1\])$/.test(url.hostname);
  // What stays on this machine needs no TLS.
  const execute = isLoopback && url.protocol === "http:" ? [client.allowInsecureRequests] : [];
  return await client.discovery(url, clientId, undefined, client.None(), { execute });
}

/** What is asked for. Some providers make tokens that others can check only for a named audience. */
function requested({ scopes, audience }: ProviderSigner): Record<string, string> {
  const scope = [...new Set(["openid", ...scopes])].join(" ");
  return audience === undefined ? { scope } : { scope, audience };
}

/** RFC 8628. */
async function byDevice(
  provider: client.Configuration,
  signer: ProviderSigner,
  { user, signal }: ProviderLoginOptions,
): Promise<string> {
  if (provider.serverMetadata().device_authorization_endpoint === undefined) {
    throw new Error("it offers no login with a code; leave --device out");
  }
  const started = await abortable(client.initiateDeviceAuthorization(provider, requested(signer)), signal);
  const { verification_uri: uri, verification_uri_complete: complete, user_code: code } = started;
  user.tell(`Log in at ${uri} with the code ${code}${complete === undefined ? "" : ` (or at ${complete})`}`);
  return targetOf(await client.pollDeviceAuthorizationGrant(provider, started, undefined, { signal }), signer);
}

/** RFC 8252: the provider sends the browser back to a port of this machine. */
async function byBrowser(
  provider: client.Configuration,
  signer: ProviderSigner,
  { user, signal, port = CALLBACK_PORT }: ProviderLoginOptions,
): Promise<string> {
  signal.throwIfAborted();
  const pkceCodeVerifier = client.randomPKCECodeVerifier();
  const expectedState = client.randomState();
  const expectedNonce = client.randomNonce();
  const callback = new URL(CALLBACK_PATH, `http://localhost:${port}`);
  const url = client.buildAuthorizationUrl(provider, {
    ...requested(signer),
    redirect_uri: callback.href,
    code_challenge: await client.calculatePKCECodeChallenge(pkceCodeVerifier),
    code_challenge_method: "S256",
    state: expectedState,
    nonce: expectedNonce,
  });
  const checks = { pkceCodeVerifier, expectedState, expectedNonce };
  const answer = Promise.withResolvers<string>();
  // Who waits is told below; a failure before that is no unhandled one.
  answer.promise.catch(() => {});
  let isTaken = false;
  const server = createServer((request, response) => {
    const current = new URL(request.url ?? "/", callback);
    // A page that guesses the port must not end the login: only the provider knows the state.
    if (isTaken || !isAnswer(request, current, expectedState)) {
      say(response, 404, "There is nothing to see here.");
      return;
    }
    isTaken = true;
    client
      .authorizationCodeGrant(provider, current, checks)
      .then((tokens) => targetOf(tokens, signer))
      .then(
        (token) => {
          say(response, 200, "You are logged in. This page can be closed.");
          answer.resolve(token);
        },
        (error: unknown) => {
          say(response, 400, "The login failed. The tunneler says why.");
          answer.reject(error);
        },
      );
  });
  await listen(server, { port, host: "127.0.0.1" }, () => {}).catch((cause: unknown) => {
    throw new Error(`the browser could not come back, because port ${port} cannot be had: ${errorText(cause)}`, {
      cause,
    });
  });
  try {
    user.tell(`Log in with a browser of this machine: ${url.href}`);
    return await abortable(answer.promise, signal);
  } finally {
    server.close();
    server.closeIdleConnections();
  }
}

function isAnswer({ method }: IncomingMessage, { pathname, searchParams }: URL, state: string): boolean {
  return method === "GET" && pathname === CALLBACK_PATH && searchParams.get("state") === state;
}

function say(response: ServerResponse, status: number, text: string): void {
  const headers = { "content-type": "text/plain; charset=utf-8", connection: "close", "cache-control": "no-store" };
  response.writeHead(status, headers).end(`${text}\n`);
}

/** The token that the signer's settings name. */
function targetOf(tokens: { access_token: string; id_token?: string }, { targetToken }: ProviderSigner): string {
  const token = targetToken === "ID" ? tokens.id_token : tokens.access_token;
  if (token === undefined) throw new Error("the provider gave no id token");
  if (token.split(".").length === 3) return token;
  throw new Error("the provider's access token is no JWT: an administrator can set targetToken of the signer to ID");
}

/** What the provider says (RFC 6749, section 5.2), else what the library found. Tokens are in neither. */
function reasonOf(error: unknown): string {
  if (error instanceof client.ResponseBodyError || error instanceof client.AuthorizationResponseError) {
    return error.error_description === undefined ? error.error : `${error.error}: ${error.error_description}`;
  }
  const text = errorText(error);
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause.message : "";
  return cause === "" || text.includes(cause) ? text : `${text}: ${cause}`;
}
