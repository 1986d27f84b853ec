/** Logins of users at an OpenID provider. Only who needs one loads this. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { abortable, errorText, MAX_TIMER_MS, SerialQueue } from "@sallyport/async";
import type { ExternalSigner } from "@sallyport/sdk";
import { listen } from "@sallyport/wire";
import * as client from "openid-client";
import { discovered, isUnreachable, reasonOf, shownAddress } from "./provider-http.ts";
import { printable, type User } from "./terminal.ts";

export type ProviderSigner = Pick<ExternalSigner, "name" | "scopes" | "audience" | "targetToken"> & {
  readonly authUrl: string;
  readonly clientId: string;
};

export interface ProviderLoginOptions {
  /** With a code that the user enters in any browser; else with a browser of this machine. */
  readonly isDevice: boolean;
  readonly user: User;
  /** Identity file that needs the login, for the user. */
  readonly file: string;
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
/** How often a provider is asked whether the user has entered a code, whatever it says itself. */
const MIN_INTERVAL_SECONDS = 1;
const MAX_INTERVAL_SECONDS = 60;
const DEFAULT_INTERVAL_SECONDS = 5;
export const MAX_CODE_CHARACTERS = 64;

/** The login did not come about, and may when the provider can be reached again (`isUnreachable`). */
export class ProviderLoginError extends Error {
  readonly isUnreachable: boolean;

  constructor(message: string, cause: unknown) {
    super(message, { cause });
    this.isUnreachable = isUnreachable(cause);
  }
}

/** One browser at a time comes back to the port. */
const browsers = new SerialQueue();

/**
 * Has the user log in at the provider of a signer.
 *
 * @returns the token that the network takes
 * @throws ProviderLoginError that says where and why, or the signal's reason
 */
export async function loginAtProvider(signer: ProviderSigner, o: ProviderLoginOptions): Promise<string> {
  return o.isDevice ? await limited(signer, o, byDevice) : await browsers.run(() => limited(signer, o, byBrowser));
}

async function limited(signer: ProviderSigner, o: ProviderLoginOptions, login: typeof byDevice): Promise<string> {
  o.signal.throwIfAborted();
  const limit = AbortSignal.timeout(o.limitMs ?? MAX_LOGIN_MS);
  const signal = AbortSignal.any([o.signal, limit]);
  try {
    const provider = await abortable(discovered(signer.authUrl, signer.clientId), signal);
    return await login(provider, signer, { ...o, signal });
  } catch (error) {
    o.signal.throwIfAborted();
    const reason = limit.aborted ? "the user did not log in in time" : reasonOf(error);
    throw new ProviderLoginError(`the login at ${signer.authUrl} (signer ${signer.name}) failed: ${reason}`, error);
  }
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
  { user, file, signal }: ProviderLoginOptions,
): Promise<string> {
  if (provider.serverMetadata().device_authorization_endpoint === undefined) {
    throw new Error("it offers no login with a code; leave --device out");
  }
  const started = await abortable(client.initiateDeviceAuthorization(provider, requested(signer)), signal);
  const code = printable(started.user_code);
  if (code.length > MAX_CODE_CHARACTERS) throw new Error(`its code has more than ${MAX_CODE_CHARACTERS} characters`);
  const page = shownAddress(started.verification_uri, "address for the code");
  const complete = started.verification_uri_complete;
  const short = complete === undefined ? "" : `, or open ${shownAddress(complete, "address for the code")}`;
  user.tell(`To log in for ${file}, open ${page} in any browser and enter the code ${code}${short}`);
  const life = AbortSignal.timeout(Math.min(Math.ceil(started.expires_in * 1_000), MAX_TIMER_MS));
  try {
    return targetOf(await polled(provider, started, AbortSignal.any([signal, life])), signer);
  } catch (error) {
    if (life.aborted && !signal.aborted) throw new Error("the code was not entered in time", { cause: error });
    throw error;
  }
}

/** Asks until the user has logged in: less often each time that the provider cannot be reached (RFC 8628, section 3.5). */
async function polled(
  provider: client.Configuration,
  started: client.DeviceAuthorizationResponse,
  signal: AbortSignal,
): Promise<client.TokenEndpointResponse> {
  let interval = Math.max(started.interval ?? DEFAULT_INTERVAL_SECONDS, MIN_INTERVAL_SECONDS);
  for (;;) {
    interval = Math.min(interval, MAX_INTERVAL_SECONDS);
    try {
      const polling = client.pollDeviceAuthorizationGrant(provider, { ...started, interval }, undefined, { signal });
      return await abortable(polling, signal);
    } catch (error) {
      if (signal.aborted || !isUnreachable(error)) throw error;
      interval *= 2;
    }
  }
}

/** RFC 8252: the provider sends the browser back to a port of this machine. */
async function byBrowser(
  provider: client.Configuration,
  signer: ProviderSigner,
  { user, file, signal, port = CALLBACK_PORT }: ProviderLoginOptions,
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
  const onRequest = (request: IncomingMessage, response: ServerResponse): void => {
    // Any page can send requests here, and `//` is a target that is no address.
    const current = URL.parse(request.url ?? "/", callback);
    // A page that guesses the port must not end the login: only the provider knows the state.
    if (isTaken || current === null || !isAnswer(request, current, expectedState)) {
      say(response, 404, "There is nothing to see here.");
      return;
    }
    isTaken = true;
    client
      .authorizationCodeGrant(provider, current, checks)
      .then((tokens) => targetOf(tokens, signer))
      .then(
        (token) => {
          say(response, 200, "You are logged in. You can close this page, and go back to the tunneler.");
          answer.resolve(token);
        },
        (error: unknown) => {
          say(response, 400, "The login failed. The tunneler says why.");
          answer.reject(error);
        },
      );
  };
  const servers = await callbackServers(port, onRequest);
  try {
    const address = shownAddress(url.href, "address of its login page");
    user.tell(`To log in for ${file}, open this address in a browser on this machine: ${address}`);
    return await abortable(answer.promise, signal);
  } finally {
    closeAll(servers);
  }
}

/** Both addresses that browsers may take for `localhost`: another program could wait at the other one. */
async function callbackServers(
  port: number,
  onRequest: (request: IncomingMessage, response: ServerResponse) => void,
): Promise<Server[]> {
  const servers: Server[] = [];
  for (const host of ["127.0.0.1", "::1"]) {
    const server = createServer(onRequest);
    try {
      await listen(server, { port, host }, () => {});
      servers.push(server);
    } catch (cause) {
      const code = cause instanceof Error && "code" in cause ? cause.code : undefined;
      if (host === "::1" && (code === "EADDRNOTAVAIL" || code === "EAFNOSUPPORT")) continue;
      closeAll(servers);
      const text = `the browser could not come back to port ${port} of this machine: ${errorText(cause)}; stop the program that has the port, or use join --device`;
      throw new Error(text, { cause });
    }
  }
  return servers;
}

function closeAll(servers: readonly Server[]): void {
  for (const server of servers) {
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
