/** What handlers and authentication see of a request, and the handler types of this server. */
import type { X509Certificate } from "node:crypto";
import type { ApiName, authQuery, Handlers, OperationTable, operations } from "@sallyport/api";
import { countedAddress } from "@sallyport/wire";
import type { z } from "zod";
import type { Refusal } from "./challenges.ts";

/** The session of a request: for the auth rules and headers of the HTTP layer, and for handlers. */
export interface ApiSessionContext {
  readonly apiSessionId: string;
  readonly kind: "legacy" | "oidc";
  /** The token that came with the request: of the session, or an access token. */
  readonly token: string;
  /** Id of the access token, and when it was made. */
  readonly access?: { readonly jti: string; readonly issuedAt: Date; readonly expiresAt: Date };
  readonly identityId: string;
  /** The identity is an administrator. Counts only when the session is also fully authenticated. */
  readonly isAdmin: boolean;
  /** No secondary factor is open. */
  readonly isFullyAuthenticated: boolean;
  /** The open factors, as clients see them. */
  readonly authQueries: readonly z.input<typeof authQuery>[];
  /** Ids of the config types asked for at authentication; `["all"]` for every one. */
  readonly configTypes: readonly string[];
  /** The inactivity timeout, and when it will have passed; of an access token: the time that it has left, and its end. */
  readonly expirationSeconds: number;
  readonly expiresAt: Date;
}

/** A request that a proxy passes on. Only routers may do that; the handler decides whether to trust it. */
export interface ProxiedBy {
  /** The certificates that the proxy presented, leaf first; as unverified as `peerCertificates`. */
  readonly proxyCertificates: readonly X509Certificate[];
  /** When it says that it does, and what it says it was presented: the headers as they came. */
  readonly passedOnAt: readonly string[];
  readonly clientCertificates: readonly string[];
  /** Where it says that it was called from: the last of `X-Forwarded-For`. */
  readonly clientIp: string | undefined;
}

/** The request as it came, without its body. */
export interface RequestInfo {
  readonly id: string;
  readonly api: ApiName;
  readonly method: string;
  /** The operation's path under the API's base path, as the contract has it. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string | undefined>>;
  /** `ip:port`, and the ip alone. */
  readonly remoteAddress: string;
  readonly remoteIp: string;
  /** What the TLS client presented, leaf first: it holds the leaf's key, the rest is unverified. Empty for a proxy. */
  readonly peerCertificates: readonly X509Certificate[];
  /** What a proxy says of the client for which it passes the request on. */
  readonly proxied: ProxiedBy | undefined;
  /** From `zt-session` or `svc-session`; undefined on `/authenticate`, which ignores sessions. */
  readonly sessionToken: string | undefined;
  /** From every `Authorization: Bearer` header, in order; empty tokens are left out. */
  readonly bearerTokens: readonly string[];
  /** Aborted when the caller goes away or the time limit of the request has passed. */
  readonly signal: AbortSignal;
}

export type ApiHandlers<T extends OperationTable> = Handlers<T, ApiSessionContext, RequestInfo>;

/** Every handler of every API; `Pick` parts of it, or type one file by `ApiHandlers<typeof networkOperations>`. */
export type AllHandlers = { readonly [A in ApiName]: ApiHandlers<(typeof operations)[A]> };

/**
 * Finds the session of a request, or says why it has none.
 * @param again the session that the same request had before: in place of its access token, which may have ended, the session's newest one counts
 * @throws ApiError 401 when the session is known but its identity is gone, disabled or without policy
 */
export type Authenticate = (request: RequestInfo, again?: ApiSessionContext) => Promise<ApiSessionContext | Refusal>;

/** The key of a caller, for everything that callers share. */
export interface Caller {
  /** The identity once there is a session, before that the address as it is counted. */
  readonly key: string;
  readonly hasSession: boolean;
  /** Fully authenticated, too. */
  readonly isAdministrator: boolean;
}

/** @param remoteIp of the connection */
export function callerOf(remoteIp: string, session: ApiSessionContext | undefined): Caller {
  if (session === undefined) return { key: countedAddress(remoteIp), hasSession: false, isAdministrator: false };
  return {
    key: session.identityId,
    hasSession: true,
    isAdministrator: session.isAdmin && session.isFullyAuthenticated,
  };
}
