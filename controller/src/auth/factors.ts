/** Secondary factors: which of them an API session still has open (docs/protocol/authentication.md, "Secondary factors"). */
import type { authQuery } from "@sallyport/api";
import { type SqlBool, sql } from "kysely";
import type { z } from "zod";
import type { ExtJwtSignerRow } from "../model/identity/ext-jwt-signers.ts";
import { hintOf, MAX_TOKENS, type TokenCheck, TokenRefusedError } from "./jwt/token-check.ts";

export type AuthQuery = z.input<typeof authQuery>;

/** What decides about the factors of a session. */
export interface FactorState {
  readonly identityId: string;
  readonly externalId: string | null;
  readonly isMfaVerified: boolean;
  readonly isMfaComplete: boolean;
  readonly requireTotp: boolean;
  /** Every request has to carry a token of this signer. */
  readonly requiredSigner: ExtJwtSignerRow | null;
}

export interface OpenFactors {
  readonly totp: boolean;
  readonly token: boolean;
  /** One entry per open factor, as clients see it. */
  readonly authQueries: readonly AuthQuery[];
}

/** The login needs no further proof. */
export const isComplete = ({ totp, token }: OpenFactors): boolean => !totp && !token;

/**
 * The one-time code of the session `a` of the identity `i` is open: routers and circuits do not know such a session. Tunneling routers are exempt: they have
 * proved themselves on their control channel, and no user could type a code for them.
 */
export const TOTP_OPEN = sql<SqlBool>`(NOT a.is_mfa_complete AND i.type_id <> 'Router' AND (
  EXISTS (SELECT 1 FROM mfa m WHERE m.identity_id = i.id AND m.is_verified)
  OR EXISTS (SELECT 1 FROM auth_policy p WHERE p.id = i.auth_policy_id AND p.require_totp)))`;

const NONE: OpenFactors = { totp: false, token: false, authQueries: [] };

/** @param bearerTokens of the request: every request has to prove a token factor again */
export async function openFactors(
  state: FactorState,
  bearerTokens: readonly string[],
  check: TokenCheck,
): Promise<OpenFactors> {
  const totp = !state.isMfaComplete && (state.isMfaVerified || state.requireTotp);
  const { requiredSigner } = state;
  const token = requiredSigner !== null && !(await holdsTokenOf(requiredSigner, state, bearerTokens, check));
  if (!totp && !token) return NONE;
  const authQueries: AuthQuery[] = [];
  // Absent means no, as for clients of older versions.
  if (totp) authQueries.push({ ...TOTP_QUERY, ...(state.isMfaVerified && { isTotpEnrolled: true }) });
  if (token) authQueries.push(tokenQuery(requiredSigner));
  return { totp, token, authQueries };
}

async function holdsTokenOf(
  signer: ExtJwtSignerRow,
  state: FactorState,
  bearerTokens: readonly string[],
  check: TokenCheck,
): Promise<boolean> {
  const named = signer.use_external_id ? state.externalId : state.identityId;
  if (named === null) return false;
  for (const token of bearerTokens.slice(0, MAX_TOKENS)) {
    if (hintOf(token)?.issuer !== signer.issuer) continue;
    try {
      if ((await check.check(token, signer)) === named) return true;
    } catch (error) {
      if (!(error instanceof TokenRefusedError)) throw error;
    }
  }
  return false;
}

const TOTP_QUERY: AuthQuery = {
  typeId: "MFA",
  provider: "ziti",
  format: "alphaNumeric",
  minLength: 4,
  maxLength: 6,
  httpMethod: "POST",
  httpUrl: "./authenticate/mfa",
};

function tokenQuery(signer: ExtJwtSignerRow): AuthQuery {
  return {
    typeId: "EXT-JWT",
    provider: "url",
    id: signer.id,
    httpUrl: signer.external_auth_url ?? "",
    scopes: signer.scopes,
    clientId: signer.client_id ?? "",
  };
}
