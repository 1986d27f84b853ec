import { apiError } from "@sallyport/api";
import { shownText } from "@sallyport/wire";
import { sql } from "kysely";
import type { Db, ModelContext } from "../model/context.ts";
import { isIndexable, MAX_INDEXED_CHARACTERS } from "../model/entity.ts";
import { DEFAULT_NAME_CLAIM, type ExtJwtSignerRow } from "../model/identity/ext-jwt-signers.ts";
import type { Model } from "../model/model.ts";
import { DEFAULT_AUTH_POLICY } from "../model/seeds.ts";
import { translated } from "../model/store-errors.ts";
import { randomEntityId } from "../store/ids.ts";
import type { Enrolled } from "./certificate-enrolling.ts";
import { withCsrErrors } from "./client-certificate.ts";
import { isPlainText } from "./identity-name.ts";
import { textsAt } from "./jwt/claim-selector.ts";
import { claimOf, firstRight, isText, type TokenCheck, TokenRefusedError } from "./jwt/token-check.ts";
import { enabledSignerOf } from "./primary/token-login.ts";

/** Role attributes that a token may give to its identity, and the longest one. What is beyond is left out. */
export const MAX_ENROLLED_ATTRIBUTES = 64;
export const MAX_ENROLLED_ATTRIBUTE_CHARACTERS = 255;

/** A user of an external signer asks to become an identity. */
interface TokenEnrollRequest {
  readonly bearerTokens: readonly string[];
  /** Id of the signer that the caller names. */
  readonly signerId?: string | undefined;
  /** PEM request: a certificate is issued, by which the identity authenticates. Without one it does so by tokens of the signer. */
  readonly csr?: string | undefined;
}

/** What a token that was verified says of the identity to be. */
interface Applicant {
  readonly signer: ExtJwtSignerRow;
  readonly externalId: string;
  readonly name: string;
  readonly attributes: readonly string[];
}

/**
 * Makes identities of those whom an external JWT signer knows (docs/protocol/enrollment.md, "By a token of an external signer"). The signer must allow it. Its token
 * is checked as for a login: signature, issuer, audience and times, whichever signer the caller names.
 */
export class TokenEnrolling {
  readonly #ctx: ModelContext;
  readonly #model: Model;
  readonly #check: TokenCheck;

  constructor(ctx: ModelContext, model: Model, check: TokenCheck) {
    this.#ctx = ctx;
    this.#model = model;
    this.#check = check;
  }

  /**
   * @throws ApiError 400 `INVALID_ENROLLMENT_TOKEN`; 409 `INVALID_ENROLLMENT_NOT_ALLOWED`, `ENROLLMENT_IDENTITY_ALREADY_ENROLLED`; 400 for a request for a
   * certificate that cannot be used
   */
  async enroll(request: TokenEnrollRequest): Promise<Enrolled> {
    const applicant = await this.#applicant(request);
    const csr = request.csr?.trim() ? request.csr : undefined;
    const { db } = this.#ctx.store;
    // Before a certificate is made; again in the transaction.
    await requireAllowed(db, applicant.signer, csr !== undefined);
    const issued = csr && (await withCsrErrors(() => this.#ctx.pki.issueIdentityCertificate(csr)));
    const id = randomEntityId();
    await translated(() =>
      this.#ctx.store.transaction(async (trx) => {
        const authPolicyId = await requireAllowed(trx, await this.#still(trx, applicant.signer), csr !== undefined);
        await requireNew(trx, applicant.externalId);
        await this.#model.identities.insertEnrolled(trx, { ...applicant, id, authPolicyId });
        if (issued) {
          await this.#model.authenticators.insert(trx, id, {
            method: "cert",
            certPem: issued.pem,
            fingerprint: issued.fingerprint,
            isIssuedByNetwork: true,
          });
        }
      }),
    );
    return issued ? { cert: issued.pem, ca: this.#ctx.pki.caBundlePem } : {};
  }

  /** By the first token that is right; whichever signer the caller names, the token has to be one of it. */
  #applicant({ bearerTokens, signerId }: TokenEnrollRequest): Promise<Applicant> {
    return firstRight(
      bearerTokens,
      async (token) => {
        const signer = await enabledSignerOf(this.#ctx.store.db, token, signerId);
        return this.#read(await this.#check.verify(token, signer), signer);
      },
      (detail) => apiError("INVALID_ENROLLMENT_TOKEN", undefined, { detail }),
    );
  }

  #read(payload: Readonly<Record<string, unknown>>, signer: ExtJwtSignerRow): Applicant {
    const attributes = signer.enroll_attribute_claim === null ? [] : textsAt(payload, signer.enroll_attribute_claim);
    if (attributes === undefined) {
      throw new TokenRefusedError(`signer ${signer.id}: the claim of attributes is neither a text nor a list of texts`);
    }
    return {
      signer,
      externalId: storedClaimOf(payload, signer.claims_property ?? "sub", signer),
      name: storedClaimOf(payload, signer.enroll_name_claim ?? DEFAULT_NAME_CLAIM, signer),
      attributes: attributes.filter(isAttribute).slice(0, MAX_ENROLLED_ATTRIBUTES),
    };
  }

  /** The signer as it is now; it stays so until the transaction ends. */
  async #still(trx: Db, { id }: ExtJwtSignerRow): Promise<ExtJwtSignerRow> {
    const row = await trx.selectFrom("ext_jwt_signer").selectAll().where("id", "=", id).forShare().executeTakeFirst();
    if (row?.enabled !== true)
      throw apiError("INVALID_ENROLLMENT_TOKEN", undefined, { detail: `signer ${id} is gone` });
    return row;
  }
}

/** A claim that becomes a name or external id, in which administrators read no more and no less than what it says. @throws TokenRefusedError */
function storedClaimOf(payload: Readonly<Record<string, unknown>>, selector: string, signer: ExtJwtSignerRow): string {
  const text = claimOf(payload, selector, signer);
  const refusal = (reason: string) =>
    new TokenRefusedError(`signer ${signer.id}: the claim ${shownText(selector)} ${reason}`);
  if (text.trim() === "") throw refusal("is blank");
  if (!isIndexable(text)) throw refusal(`has more than ${MAX_INDEXED_CHARACTERS} characters`);
  if (!isPlainText(text))
    throw refusal("has control characters, line breaks or characters that turn the direction of text");
  return text;
}

/** A cut one would be another attribute, with rights of its own. */
function isAttribute(text: string): boolean {
  return [...text].length <= MAX_ENROLLED_ATTRIBUTE_CHARACTERS && !/^[#@]/.test(text) && isText(text);
}

/** The auth policy of those whom the signer enrolls, by which they can authenticate afterwards. @throws ApiError 409 */
async function requireAllowed(db: Db, signer: ExtJwtSignerRow, toCert: boolean): Promise<string> {
  const refused = (detail: string) => apiError("INVALID_ENROLLMENT_NOT_ALLOWED", undefined, { detail });
  if (!signer.use_external_id) throw refused(`the claims of signer ${signer.id} are no external ids`);
  if (!(toCert ? signer.enroll_to_cert : signer.enroll_to_token)) {
    throw refused(`signer ${signer.id} does not allow to enroll to ${toCert ? "certificates" : "tokens"}`);
  }
  const policyId = signer.enroll_auth_policy_id ?? DEFAULT_AUTH_POLICY;
  const policy = await db.selectFrom("auth_policy").selectAll().where("id", "=", policyId).executeTakeFirst();
  if (policy === undefined) throw refused(`there is no auth policy ${policyId}`);
  const takesTokens =
    policy.ext_jwt_allowed && (policy.ext_jwt_signers.length === 0 || policy.ext_jwt_signers.includes(signer.id));
  if (toCert ? !policy.cert_allowed : !takesTokens) {
    throw refused(
      `auth policy ${policyId} does not allow ${toCert ? "certificates" : `tokens of signer ${signer.id}`}`,
    );
  }
  return policyId;
}

/** @throws ApiError 409 when an identity has the external id. Of requests at the same time, the second waits for the first. */
async function requireNew(trx: Db, externalId: string): Promise<void> {
  await sql`SELECT pg_advisory_xact_lock(hashtextextended(${`enroll/${externalId}`}, 0))`.execute(trx);
  const other = await trx.selectFrom("identity").select("id").where("external_id", "=", externalId).executeTakeFirst();
  if (other !== undefined) throw apiError("ENROLLMENT_IDENTITY_ALREADY_ENROLLED");
}
