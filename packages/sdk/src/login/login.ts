/** What the two ways to log in have in common: the old one by `authenticate`, and OpenID Connect. */
import { arch, hostname, platform, release, version } from "node:os";
import { type ApiClient, type ApiCredential, ApiError, createClient } from "@sallyport/api/client";
import { answersWithin } from "@sallyport/async";
import { controllerTrust, type Identity, type Logger } from "@sallyport/wire";
import type { SessionStore } from "./kept-session.ts";
import { SDK_VERSION } from "./sdk-version.ts";
import type { SecondFactors } from "./second-factors.ts";

/** How to prove who we are. */
export type LoginCredentials =
  | { readonly kind: "certificate"; readonly identity: Identity }
  | { readonly kind: "password"; readonly username: string; readonly password: string; readonly caPem: string }
  /** A token of another provider; asked for at each login, since tokens end. */
  | {
      readonly kind: "external";
      readonly token: () => Promise<string>;
      readonly caPem: string;
      /** Where the session is kept, so that the next run of the program needs no token. */
      readonly store?: SessionStore | undefined;
    };

export type ClientApi = ApiClient<"client">;

/** What a login gave, as it is now. */
export interface LoginResult {
  /** How the session was begun: `oidc` sessions have tokens that end and are replaced. */
  readonly kind: "legacy" | "oidc";
  /** What routers are told: the token of the API session, or its access token. */
  readonly token: string;
  readonly identityId: string;
  readonly identityName: string;
  /** Certificate and trust for router connections: our own, or the one of this API session. */
  readonly identity: Identity;
}

export interface LoginEvents {
  /** The session goes on with another token. */
  readonly onToken: () => void;
  /** The controller knows the session no more. */
  readonly onGone: () => void;
}

/** A session, from its login to its end. */
export interface HeldLogin {
  readonly result: LoginResult;
  /** What its API calls carry now. */
  readonly credential: ApiCredential;
  /** With what its API calls must come, where another certificate would not be taken. */
  readonly boundIdentity: Identity | undefined;
  /** Keeps the session alive from now on. */
  keep(events: LoginEvents): void;
  /** After the controller refused the credential: whether the session goes on with another one. @throws ApiTransportError */
  recover(): Promise<boolean>;
  /** Other authorities are trusted from now on. */
  trust(caPem: string): void;
  /** Ends keeping it alive. */
  stop(): void;
  /** Logs out. */
  end(signal: AbortSignal): Promise<void>;
}

/** What a login is made with; the controller's address, and so the client, may change while the session lives. */
export interface LoginParts {
  readonly credentials: LoginCredentials;
  readonly controllerUrl: () => string;
  readonly api: () => ClientApi;
  /** Does what asks the controller, and asks another one when that one cannot be reached. */
  readonly reach: <T>(work: (signal: AbortSignal) => Promise<T>) => Promise<T>;
  readonly configTypes: readonly string[];
  readonly factors: SecondFactors;
  /** Whether a kept session may go on: not after a session of this program was given up. */
  readonly mayResume: boolean;
  readonly log: Logger;
}

export function trustOf(credentials: LoginCredentials): string {
  return credentials.kind === "certificate" ? credentials.identity.caPem : credentials.caPem;
}

export function identityOf(credentials: LoginCredentials): Identity | undefined {
  return credentials.kind === "certificate" ? credentials.identity : undefined;
}

/** @param identity whose certificate the calls come with */
export function clientOf(baseUrl: string, caPem: string, identity: Identity | undefined): ClientApi {
  return createClient("client", { baseUrl, ...tlsOf(caPem, identity) });
}

/** How long a new connection and a small answer may take: six round trips over a satellite. */
const PROBE_MS = 1_500;

/** Whether a controller answers anything at all. */
export async function answersSomething(baseUrl: string, caPem: string): Promise<boolean> {
  const api = clientOf(baseUrl, caPem, undefined);
  const ask = async (signal: AbortSignal): Promise<boolean> => {
    try {
      await api.listVersion({}, { signal });
      return true;
    } catch (error) {
      return error instanceof ApiError;
    }
  };
  return await answersWithin(PROBE_MS, ask).finally(() => api.close());
}

/** The TLS half of what a controller is called with. */
export function tlsOf(caPem: string, identity: Identity | undefined) {
  const tls = controllerTrust(caPem);
  return identity === undefined ? { tls } : { tls, cert: identity.certPem, key: identity.keyPem };
}

/** What a controller shows of the program of a session. */
export function programInfo() {
  return {
    envInfo: {
      arch: arch(),
      os: platform(),
      osRelease: release(),
      osVersion: version().slice(0, 255),
      hostname: hostname(),
    },
    sdkInfo: { type: "sallyport-sdk", version: SDK_VERSION },
  };
}
