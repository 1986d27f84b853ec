import type { ApiSessionRecord, Channel, Permission } from "@sallyport/wire";
import { fingerprint } from "@sallyport/wire";
import { decodeJwt } from "jose";
import type { AccessClaims } from "../access/ports.ts";
import { MAX_SESSION_TOKEN } from "./edge-messages.ts";

interface SessionFacts {
  /** Of the API session. */
  readonly id: string;
  readonly identityId: string;
  /** What the controllers are shown. */
  readonly token: string;
  /** SHA-1 (40 hex characters) of the certificates that the controllers are told. */
  readonly fingerprints: readonly string[];
}

/** An API session with a token that only controllers can read: what it may do, they decide. */
interface OpaqueSession extends SessionFacts {
  readonly kind: "opaque";
}

/** An API session with an access token: what it may do, this router decides by the data model, and looks at it again. */
export interface TokenSession extends SessionFacts {
  readonly kind: "token";
  readonly claims: AccessClaims;
}

/** As whom an SDK channel was opened. */
export type SdkSession = OpaqueSession | TokenSession;

export function opaqueSession({ id, identityId, token, certFingerprints }: ApiSessionRecord): OpaqueSession {
  return { kind: "opaque", id, identityId, token, fingerprints: certFingerprints };
}

export function tokenSession(claims: AccessClaims, { peer }: Pick<Channel, "peer">): TokenSession {
  const { apiSessionId: id, identityId, token } = claims;
  return { kind: "token", id, identityId, token, fingerprints: peer.certificates.map(fingerprint), claims };
}

/** By what a circuit or a listener of an SDK exists; it ends with that. */
export interface Grant {
  /** Token of the dial or bind session; empty for a dial without one. */
  readonly sessionToken: string;
  /** Of that session, when its token says it. */
  readonly sessionId: string | undefined;
  readonly type: Permission;
  /** The service, known on channels with an access token. */
  readonly serviceId: string | undefined;
}

const JWT_PREFIX = "ey";

/** Tokens of the other kind are known to controllers only. */
export function isJwt(token: string): boolean {
  return token.startsWith(JWT_PREFIX);
}

/** A grant that a controller decides about: the token is passed on unread. */
export function opaqueGrant(sessionToken: string, type: Permission): Grant {
  return { sessionToken, sessionId: sessionIdOf(sessionToken), type, serviceId: undefined };
}

/**
 * The id that a token says, unverified: it is only used to end what the same token made. A token that is signed again stands for
 * the same session.
 */
function sessionIdOf(token: string): string | undefined {
  // Longer ones are refused, however long they are to read.
  if (!isJwt(token) || token.length > MAX_SESSION_TOKEN) return undefined;
  try {
    const { jti } = decodeJwt(token);
    return typeof jti === "string" && jti !== "" ? jti : undefined;
  } catch {
    return undefined;
  }
}

/** Controllers name removed sessions by token or by id. */
export function isOf(grant: Grant, tokenOrId: string): boolean {
  return grant.sessionToken === tokenOrId || grant.sessionId === tokenOrId;
}
