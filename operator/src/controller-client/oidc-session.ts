import {
  type ClientOptions,
  credentialHeaders,
  type FirstFactor,
  OidcLogin,
  type RequestHeaders,
  TokenRefresh,
} from "@sallyport/api/client";

/** How the operator proves who it is. */
export type Credentials =
  | { readonly method: "password"; readonly username: string; readonly password: string }
  /** PEM: the leaf with its chain, and its key. */
  | { readonly method: "cert"; readonly cert: string; readonly key: string }
  /** Asked for at each login, since tokens end. Tokens for another audience are other credentials. */
  | { readonly method: "ext-jwt"; readonly token: () => Promise<string>; readonly audience?: string };

/** A login in force. */
export interface HeldSession {
  /** What calls carry now. */
  headers(): RequestHeaders;
  end(signal: AbortSignal): Promise<unknown>;
  /** Ends keeping it alive. */
  stop(): void;
}

export interface SessionAnswer {
  readonly session: HeldSession;
  readonly identity: string | undefined;
  /** It asks for a second factor. */
  readonly isOpen: boolean;
}

interface OidcSessionParts {
  /** Where the provider is now, and as whom it is asked. */
  readonly place: () => ClientOptions & { readonly path: string };
  readonly credentials: Credentials;
  readonly signal: AbortSignal;
  /** Does the work, and counts it as a request. */
  readonly counted: <T>(work: () => Promise<T>) => Promise<T>;
  /** The session has ended. */
  readonly onRefused: (session: HeldSession) => void;
  readonly onFailed: (error: unknown) => void;
}

/** Logs in by OpenID Connect, and keeps the tokens fresh until the session is stopped. @throws ApiError, ApiTransportError */
export async function oidcSession(parts: OidcSessionParts): Promise<SessionAnswer> {
  const { place, credentials, signal, counted, ...on } = parts;
  const once = <T>(work: (login: OidcLogin) => Promise<T>): Promise<T> => counted(() => OidcLogin.once(place(), work));
  const factor = await firstFactor(credentials);
  const answer = await once((login) => login.start(factor, {}, signal));
  if (answer.kind === "factors") {
    const session = { headers: () => ({}), end: async () => {}, stop: () => {} };
    return { session, identity: undefined, isOpen: true };
  }
  const refresh = new TokenRefresh({
    tokens: answer.tokens,
    refresh: (tokens) => once((login) => login.refresh(tokens, signal)),
    onRefreshed: () => {},
    onRefused: () => on.onRefused(session),
    onFailed: on.onFailed,
  });
  const session: HeldSession = {
    headers: () => credentialHeaders({ kind: "bearer", token: refresh.tokens.accessToken }),
    end: (until) => once((login) => login.end(refresh.tokens, until)),
    stop: () => refresh.stop(),
  };
  return { session, identity: answer.tokens.identityName, isOpen: false };
}

async function firstFactor(credentials: Credentials): Promise<FirstFactor> {
  if (credentials.method === "ext-jwt") return { method: "ext-jwt", token: await credentials.token() };
  return credentials.method === "cert" ? { method: "cert" } : credentials;
}
