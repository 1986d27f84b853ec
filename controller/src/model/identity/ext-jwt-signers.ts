import {
  apiError,
  type externalJwtSignerCreate,
  type externalJwtSignerPatch,
  fieldCause,
  fieldError,
} from "@sallyport/api";
import { commonName, fingerprint } from "@sallyport/wire";
import { type Selectable, sql, type Updateable } from "kysely";
import type { z } from "zod";
import { isClaimSelector } from "../../auth/jwt/claim-selector.ts";
import { endpointUrl, JwksFetchError } from "../../auth/jwt/jwks-fetcher.ts";
import { verificationKey } from "../../auth/jwt/verification-key.ts";
import { appendChange } from "../../store/changes/change-log.ts";
import { randomEntityId } from "../../store/ids.ts";
import type { ExtJwtSignerTable } from "../../store/schema.ts";
import type { Db, ModelContext } from "../context.ts";
import {
  deleteEntity,
  found,
  getEntity,
  json,
  keepEntity,
  lockEntity,
  requireIndexed,
  requireName,
  updateEntity,
} from "../entity.ts";
import { endApiSessions } from "../session/session-removal.ts";
import { transact } from "../store-errors.ts";
import { certificatesOf } from "./authenticators.ts";

/** An issuer whose tokens authenticate. Read as JSON its times are text. */
export type ExtJwtSignerRow = Selectable<ExtJwtSignerTable>;

type NewSigner = z.output<typeof externalJwtSignerCreate>;
type SignerPatch = z.output<typeof externalJwtSignerPatch>;
type SignerChange = Omit<SignerPatch, "audience"> & { readonly audience?: string | null | undefined };

/** Where the token of an identity that enrolls has its name, unless the signer says otherwise. */
export const DEFAULT_NAME_CLAIM = "/sub";

/** The fields that decide which identity a token names. */
const NAMING = ["issuer", "claims_property", "use_external_id"] as const;

/** External JWT signers. Each has exactly one source of keys: a certificate, or an address of a key set. */
export class ExtJwtSigners {
  readonly #ctx: ModelContext;
  #hasWarned = false;

  constructor(ctx: ModelContext) {
    this.#ctx = ctx;
  }

  async create(signer: NewSigner): Promise<string> {
    requireOneSource(signer.certPem || null, signer.jwksEndpoint || null);
    const columns = columnsOf(signer);
    requireUsableEnrollment(enrollmentOf(columns));
    const id = randomEntityId();
    await transact(this.#ctx.store, async (trx) => {
      await requirePolicy(trx, columns.enroll_auth_policy_id);
      await trx
        .insertInto("ext_jwt_signer")
        .values({ ...columns, id, name: signer.name, issuer: signer.issuer, tags: json(signer.tags) })
        .execute();
      await appendChange(trx, { kind: "ext_jwt_signer", key: id, op: "create" });
      await this.#warnOfAdministrators(trx);
    });
    return id;
  }

  /** PUT: what is left out goes back to its default. */
  replace(id: string, signer: NewSigner): Promise<void> {
    return this.update(id, {
      certPem: "",
      claimsProperty: "",
      clientId: "",
      enrollAttributeClaimsSelector: "",
      enrollAuthPolicyId: "",
      enrollNameClaimsSelector: "",
      enrollToCertEnabled: false,
      enrollToTokenEnabled: false,
      externalAuthUrl: "",
      jwksEndpoint: "",
      kid: "",
      scopes: [],
      targetToken: "ACCESS",
      useExternalId: false,
      ...signer,
    });
  }

  /** Applies the given fields; `""` removes an optional one. Ends the signer's sessions when it is disabled or maps to other identities. */
  async update(id: string, change: SignerChange): Promise<void> {
    const columns = columnsOf(change);
    await transact(this.#ctx.store, async (trx) => {
      const row = await lockEntity(trx, "ext_jwt_signer", id);
      requireOneSource(
        columns.cert_pem === undefined ? row.cert_pem : columns.cert_pem,
        columns.jwks_endpoint === undefined ? row.jwks_endpoint : columns.jwks_endpoint,
      );
      requireUsableEnrollment(enrollmentOf(columns, row));
      await requirePolicy(trx, columns.enroll_auth_policy_id);
      await updateEntity(trx, "ext_jwt_signer", id, {
        ...columns,
        tags: json(change.tags),
        updated_at: this.#ctx.now(),
      });
      const isWithdrawn = row.enabled && change.enabled === false;
      // The identities that the old tokens named are not those that the new ones name.
      const isRenamed = NAMING.some((column) => columns[column] !== undefined && columns[column] !== row[column]);
      if (isWithdrawn || isRenamed) await this.#endSessions(trx, id);
      await appendChange(trx, { kind: "ext_jwt_signer", key: id, op: "update" });
      await this.#warnOfAdministrators(trx);
    });
  }

  /** Ends the sessions that its tokens have made. @throws ApiError 409 while an auth policy names it */
  async delete(id: string): Promise<void> {
    await this.#ctx.store.transaction(async (trx) => {
      await lockEntity(trx, "ext_jwt_signer", id);
      const { rows: users } = await sql<{ id: string; is_primary: boolean }>`
        SELECT id, ext_jwt_signers @> ARRAY[${id}]::text[] AS is_primary FROM auth_policy
        WHERE require_ext_jwt_signer = ${id} OR ext_jwt_signers @> ARRAY[${id}]::text[] ORDER BY id LIMIT 10`.execute(
        trx,
      );
      if (users.length > 0) {
        const ids = users.map((user) => user.id).join(", ");
        const isPrimary = users.some((user) => user.is_primary);
        const field = isPrimary ? "primary.extJwt.allowedSigners" : "secondary.requireExtJwtSigner";
        const cause = fieldCause(field, `external JWT signer ${id} is referenced by the auth policies ${ids}`, id);
        throw apiError("CAN_NOT_DELETE_REFERENCED_ENTITY", cause);
      }
      await this.#endSessions(trx, id);
      await deleteEntity(trx, "ext_jwt_signer", id);
    });
  }

  /** @throws ApiError 404 */
  async get(db: Db, id: string): Promise<ExtJwtSignerRow> {
    return getEntity(db, "ext_jwt_signer", id);
  }

  /** Says once that a signer that enrolls could also name administrators, because the auth policy of one takes tokens of every signer. */
  async #warnOfAdministrators(trx: Db): Promise<void> {
    if (this.#hasWarned) return;
    const { rows } = await sql<{ signer: string; identity: string; policy: string }>`
      SELECT s.id AS signer, i.id AS identity, p.id AS policy FROM ext_jwt_signer s
        JOIN auth_policy p ON p.ext_jwt_allowed AND p.ext_jwt_signers = '{}'
        JOIN identity i ON i.auth_policy_id = p.id AND i.is_admin
      WHERE s.enabled AND (s.enroll_to_cert OR s.enroll_to_token) ORDER BY s.id, i.id LIMIT 1`.execute(trx);
    const [row] = rows;
    if (row === undefined) return;
    this.#hasWarned = true;
    this.#ctx.log.warn(
      { signerId: row.signer, identityId: row.identity, authPolicyId: row.policy },
      "a signer that enrolls identities may also log in administrators: name the signers of administrators in allowedSigners of their auth policy",
    );
  }

  async #endSessions(trx: Db, id: string): Promise<void> {
    await endApiSessions(trx, sql`a.authenticator_id = ${tokenAuthenticatorId(id)}`);
  }
}

/** What a session that was made by a token of the signer names as its authenticator. */
export function tokenAuthenticatorId(signerId: string): string {
  return `extJwtId:${signerId}`;
}

function columnsOf(change: SignerChange): Updateable<ExtJwtSignerTable> {
  if (change.name !== undefined) requireName(change.name);
  if (change.issuer !== undefined && change.issuer.trim() === "") {
    throw fieldError("issuer", "issuer is required", change.issuer);
  }
  requireIndexed("issuer", change.issuer);
  requireIndexed("kid", change.kid);
  if (change.audience?.trim() === "") {
    throw fieldError("audience", "audience is required", change.audience);
  }
  if (change.jwksEndpoint) requireEndpoint(change.jwksEndpoint);
  requireSelector("claimsProperty", change.claimsProperty);
  requireSelector("enrollNameClaimsSelector", change.enrollNameClaimsSelector);
  requireSelector("enrollAttributeClaimsSelector", change.enrollAttributeClaimsSelector);
  return {
    name: change.name,
    issuer: change.issuer,
    audience: change.audience,
    enabled: change.enabled,
    ...(change.certPem === undefined ? {} : certificateColumns(change.certPem)),
    kid: blankAsNull(change.kid),
    jwks_endpoint: blankAsNull(change.jwksEndpoint),
    claims_property: blankAsNull(change.claimsProperty),
    use_external_id: change.useExternalId,
    external_auth_url: blankAsNull(change.externalAuthUrl),
    client_id: blankAsNull(change.clientId),
    scopes: change.scopes,
    target_token: change.targetToken,
    enroll_to_cert: change.enrollToCertEnabled,
    enroll_to_token: change.enrollToTokenEnabled,
    enroll_name_claim: blankAsNull(change.enrollNameClaimsSelector),
    enroll_attribute_claim: blankAsNull(change.enrollAttributeClaimsSelector),
    enroll_auth_policy_id: blankAsNull(change.enrollAuthPolicyId),
  };
}

function requireSelector(field: string, selector: string | undefined): void {
  if (selector === undefined || isClaimSelector(selector)) return;
  throw fieldError(
    field,
    `${field} must name a claim, or be a JSON pointer in which ~ is followed by 0 or 1`,
    selector,
  );
}

type EnrollmentColumns = Pick<ExtJwtSignerRow, "enroll_to_token" | "enroll_to_cert" | "use_external_id">;

const NO_ENROLLMENT: EnrollmentColumns = { enroll_to_token: false, enroll_to_cert: false, use_external_id: false };

function enrollmentOf(change: Updateable<ExtJwtSignerTable>, before = NO_ENROLLMENT): EnrollmentColumns {
  return {
    enroll_to_token: change.enroll_to_token ?? before.enroll_to_token,
    enroll_to_cert: change.enroll_to_cert ?? before.enroll_to_cert,
    use_external_id: change.use_external_id ?? before.use_external_id,
  };
}

/**
 * An identity that enrolls gets the claim as external id: the token names no id of the network's own. Of a signer whose claims are ids it would be the
 * external id of another one.
 */
function requireUsableEnrollment({ enroll_to_token, enroll_to_cert, use_external_id }: EnrollmentColumns): void {
  if (use_external_id || !(enroll_to_token || enroll_to_cert)) return;
  const field = enroll_to_token ? "enrollToTokenEnabled" : "enrollToCertEnabled";
  throw fieldError(
    field,
    `${field} needs useExternalId: the identities that it makes are known by their external id`,
    true,
  );
}

/** Keeps the policy until the transaction ends. @throws ApiError 404 */
async function requirePolicy(trx: Db, id: string | null | undefined): Promise<void> {
  if (id === null || id === undefined) return;
  found(await keepEntity(trx, "auth_policy", id, ["id"]), "auth_policy", id);
}

function requireOneSource(certPem: string | null, jwksEndpoint: string | null): void {
  const problem =
    certPem === null && jwksEndpoint === null
      ? "jwksEndpoint or certPem is required"
      : certPem !== null && jwksEndpoint !== null
        ? "only one of jwksEndpoint or certPem may be defined"
        : undefined;
  if (problem !== undefined) throw apiError("REFERENCED_ENTITY_NOT_FOUND", fieldCause("certPem", problem, certPem));
}

function requireEndpoint(text: string): void {
  try {
    endpointUrl(text);
  } catch (error) {
    if (!(error instanceof JwksFetchError)) throw error;
    throw fieldError("jwksEndpoint", `jwksEndpoint in body must be of type uri: ${error.message}`, text);
  }
}

/** @throws ApiError 400 unless it is exactly one certificate, with a key that can sign tokens */
function certificateColumns(pem: string): Updateable<ExtJwtSignerTable> {
  if (pem === "") {
    return { cert_pem: null, fingerprint: null, common_name: "", not_before: null, not_after: null };
  }
  const [certificate, ...more] = certificatesOf(pem);
  if (more.length > 0) throw apiError("INVALID_CERT_PEM");
  if (verificationKey(certificate.publicKey).algorithms.length === 0) {
    throw fieldError(
      "certPem",
      "the certificate's key signs no tokens: expected RSA of 2048 to 8192 bits with an exponent below 2^32, EC or Ed25519",
    );
  }
  return {
    cert_pem: pem,
    fingerprint: fingerprint(certificate),
    common_name: commonName(certificate) ?? "",
    not_before: certificate.validFromDate,
    not_after: certificate.validToDate,
  };
}

/** An absent value stays absent. */
function blankAsNull(text: string | undefined): string | null | undefined {
  if (text === undefined) return undefined;
  return text.trim() === "" ? null : text;
}
