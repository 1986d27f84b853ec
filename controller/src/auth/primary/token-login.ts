import { shownText } from "@sallyport/wire";
import type { Db, ModelContext } from "../../model/context.ts";
import { type ExtJwtSignerRow, tokenAuthenticatorId } from "../../model/identity/ext-jwt-signers.ts";
import { firstRight, hintOf, type TokenCheck, TokenRefusedError } from "../jwt/token-check.ts";
import { findPrincipal, type Proof, refused, requireEnabled } from "./proof.ts";

/** An issuer of external tokens, as clients are told of it. */
export interface ShownSigner {
  readonly id: string;
  readonly name: string;
  readonly issuer: string;
  /** Where its users log in. */
  readonly externalAuthUrl: string | null;
}

/** Authentication by a token of an external signer (docs/protocol/authentication.md, "External tokens"). */
export class TokenLogin {
  readonly #ctx: ModelContext;
  readonly #check: TokenCheck;

  constructor(ctx: ModelContext, check: TokenCheck) {
    this.#ctx = ctx;
    this.#check = check;
  }

  /** By the first token that is right; what follows from its identity and policy is final. @throws ApiError 401 */
  prove(tokens: readonly string[]): Promise<Proof> {
    return firstRight(tokens, (token) => this.#proveBy(token), refused);
  }

  enabledSigners(): Promise<readonly ShownSigner[]> {
    return this.#ctx.store.db
      .selectFrom("ext_jwt_signer")
      .select(["id", "name", "issuer", "external_auth_url as externalAuthUrl"])
      .where("enabled", "=", true)
      .orderBy("name")
      .execute();
  }

  async #proveBy(token: string): Promise<Proof> {
    const { db } = this.#ctx.store;
    const signer = await enabledSignerOf(db, token);
    const claim = await this.#check.check(token, signer);
    const principal = await findPrincipal(db, signer.use_external_id ? "external_id" : "id", claim);
    if (principal === undefined) {
      throw refused(`no identity has the ${signer.use_external_id ? "external id" : "id"} ${shownText(claim)}`);
    }
    requireEnabled(principal, this.#ctx.now());
    const { policy } = principal;
    if (!policy.ext_jwt_allowed) throw refused(`auth policy ${policy.id} does not allow external tokens`);
    if (policy.ext_jwt_signers.length > 0 && !policy.ext_jwt_signers.includes(signer.id)) {
      throw refused(`auth policy ${policy.id} does not allow tokens of signer ${signer.id}`);
    }
    return {
      principal,
      authenticatorId: tokenAuthenticatorId(signer.id),
      signer,
      certFingerprints: [],
      improperClientCertChain: false,
      isExtendRequested: false,
    };
  }
}

/**
 * The signer that a token names as its issuer, or the one that the caller names: it selects, and proves nothing.
 * @throws TokenRefusedError
 */
export async function enabledSignerOf(db: Db, token: string, signerId?: string): Promise<ExtJwtSignerRow> {
  const hint = hintOf(token);
  if (hint === undefined) throw new TokenRefusedError("no signed token that names its issuer and key");
  const signers = db.selectFrom("ext_jwt_signer").selectAll().where("enabled", "=", true);
  const chosen = signerId ? signers.where("id", "=", signerId) : signers.where("issuer", "=", hint.issuer);
  const signer = await chosen.executeTakeFirst();
  if (signer !== undefined) return signer;
  const sought = signerId ? `the id ${shownText(signerId)}` : `the issuer ${shownText(hint.issuer)}`;
  throw new TokenRefusedError(`no enabled signer has ${sought}`);
}
