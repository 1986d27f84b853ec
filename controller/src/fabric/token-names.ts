import { decodeJwt, errors } from "jose";

/** What a signed token says of itself, unverified: good for finding what it belongs to, and no proof of anything. */
interface TokenNames {
  /** `jti`: of a service token the id of its session. */
  readonly id: string | undefined;
  readonly apiSessionId: string | undefined;
  /** `sub`: of an access token the identity. */
  readonly subject: string | undefined;
  /** In seconds. */
  readonly issuedAt: number | undefined;
  readonly expiresAt: number | undefined;
}

/** A signed token begins so; an opaque one never does. */
export const SIGNED_TOKEN_PREFIX = "ey";
/** Longer than any token that this network signs. */
const MAX_SIGNED_TOKEN = 16_384;

export function isSignedToken(token: string): boolean {
  return token.startsWith(SIGNED_TOKEN_PREFIX);
}

/** Undefined for an opaque token, and for what only looks like a signed one. */
export function namesIn(token: string): TokenNames | undefined {
  if (!isSignedToken(token) || token.length > MAX_SIGNED_TOKEN) return undefined;
  try {
    const { jti, sub, iat, exp, z_asid } = decodeJwt(token);
    const text = (claim: unknown) => (typeof claim === "string" && claim !== "" ? claim : undefined);
    const time = (claim: unknown) => (typeof claim === "number" ? claim : undefined);
    return {
      ...{ id: text(jti), apiSessionId: text(z_asid), subject: text(sub) },
      ...{ issuedAt: time(iat), expiresAt: time(exp) },
    };
  } catch (error) {
    if (error instanceof errors.JOSEError || error instanceof TypeError) return undefined;
    throw error;
  }
}
