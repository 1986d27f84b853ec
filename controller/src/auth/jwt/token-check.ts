import { X509Certificate } from "node:crypto";
import { shownText } from "@sallyport/wire";
import { decodeJwt, decodeProtectedHeader, errors, jwtVerify } from "jose";
import type { ExtJwtSignerRow } from "../../model/identity/ext-jwt-signers.ts";
import { textAt } from "./claim-selector.ts";
import type { JwksCache } from "./jwks-cache.ts";
import { type VerificationKey, verificationKey } from "./verification-key.ts";

/** A caller may send tokens of several issuers; one that sends more than this is not trying to log in. */
export const MAX_TOKENS = 4;

/** A token that proves nothing; the message says why, for the log. */
export class TokenRefusedError extends Error {
  override name = "TokenRefusedError";
}

/** Unverified claims of a token, only for finding its signer. */
export interface TokenHint {
  readonly issuer: string;
  readonly kid: string;
  readonly expiresAt?: Date;
}

/** @returns undefined for a text that is no signed token, or that names no issuer or key */
export function hintOf(token: string): TokenHint | undefined {
  try {
    const { kid } = decodeProtectedHeader(token);
    const { iss, exp } = decodeJwt(token);
    if (typeof kid !== "string" || typeof iss !== "string" || !isText(iss) || !isText(kid)) return undefined;
    return { issuer: iss, kid, ...(typeof exp === "number" && { expiresAt: new Date(exp * 1_000) }) };
  } catch (error) {
    if (error instanceof errors.JOSEError || error instanceof TypeError) return undefined;
    throw error;
  }
}

/**
 * What `read` makes of the first token that is right.
 * @param refused makes the error of why none is
 */
export async function firstRight<T>(
  tokens: readonly string[],
  read: (token: string) => Promise<T>,
  refused: (reasons: string) => Error,
): Promise<T> {
  const reasons: string[] = [];
  for (const token of tokens.slice(0, MAX_TOKENS)) {
    try {
      return await read(token);
    } catch (error) {
      if (!(error instanceof TokenRefusedError)) throw error;
      reasons.push(error.message);
    }
  }
  throw refused(reasons.join("; ") || "no token was sent");
}

/** Checks tokens of external signers (docs/protocol/authentication.md, "External tokens"). */
export class TokenCheck {
  readonly #jwks: JwksCache;
  readonly #now: () => Date;

  constructor(jwks: JwksCache, now: () => Date) {
    this.#jwks = jwks;
    this.#now = now;
  }

  /**
   * The claim that names the identity, of a token whose signature, issuer, audience and times are right.
   * @throws TokenRefusedError
   */
  async check(token: string, signer: ExtJwtSignerRow): Promise<string> {
    return claimOf(await this.verify(token, signer), signer.claims_property ?? "sub", signer);
  }

  /** What such a token says. @throws TokenRefusedError */
  async verify(token: string, signer: ExtJwtSignerRow): Promise<Readonly<Record<string, unknown>>> {
    const hint = hintOf(token);
    if (hint === undefined) throw new TokenRefusedError("no signed token that names its issuer and key");
    if (!signer.enabled) throw new TokenRefusedError(`signer ${signer.id} is disabled`);
    if (!signer.audience) throw new TokenRefusedError(`signer ${signer.id} has no audience`);
    const found = await this.#key(signer, hint.kid);
    if (found === undefined) throw new TokenRefusedError(`signer ${signer.id} has no key ${shownText(hint.kid)}`);
    try {
      const { payload } = await jwtVerify(token, found.key, {
        algorithms: [...found.algorithms],
        issuer: signer.issuer,
        audience: signer.audience,
        requiredClaims: ["iss", "aud", "exp"],
        currentDate: this.#now(),
      });
      return payload;
    } catch (error) {
      if (!(error instanceof errors.JOSEError || error instanceof TypeError)) throw error;
      throw new TokenRefusedError(`signer ${signer.id}: ${shownText(error.message)}`);
    }
  }

  async #key(signer: ExtJwtSignerRow, kid: string): Promise<VerificationKey | undefined> {
    if (signer.cert_pem !== null) {
      if (kid !== signer.kid && kid !== signer.fingerprint) return undefined;
      return verificationKey(new X509Certificate(signer.cert_pem).publicKey);
    }
    return signer.jwks_endpoint === null ? undefined : this.#jwks.find(signer.jwks_endpoint, kid);
  }
}

/** The text of a claim of a token of the signer. @throws TokenRefusedError */
export function claimOf(
  payload: Readonly<Record<string, unknown>>,
  selector: string,
  { id }: Pick<ExtJwtSignerRow, "id">,
): string {
  const claim = textAt(payload, selector);
  if (claim === undefined || !isText(claim)) {
    throw new TokenRefusedError(`signer ${id}: the claim ${shownText(selector)} is no text`);
  }
  return claim;
}

/** Can the store look for it? */
export function isText(text: string): boolean {
  return !text.includes("\u0000") && text.isWellFormed();
}
