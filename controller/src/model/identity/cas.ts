import { randomUUID, X509Certificate } from "node:crypto";
import { apiError, type caCreate, type caPatch, type caUpdate, fieldError, unhandledCause } from "@sallyport/api";
import { commonName, fingerprint, pemBlocks } from "@sallyport/wire";
import { type Selectable, sql } from "kysely";
import type { z } from "zod";
import { completeClaim, type ExternalIdClaim, type RequestedClaim } from "../../pki/external-id-claim.ts";
import { ChainError, issuingAuthority, readThirdPartyCa, searchIssuer } from "../../pki/third-party-ca.ts";
import { appendChange } from "../../store/changes/change-log.ts";
import { loggedWrite } from "../../store/changes/logged-write.ts";
import { randomEntityId } from "../../store/ids.ts";
import type { CaTable } from "../../store/schema.ts";
import type { Db, ModelContext } from "../context.ts";
import { deleteEntity, getEntity, json, lockEntity, requireName, updateEntity } from "../entity.ts";
import { roleAttributes } from "../policy/role-selector.ts";
import { endApiSessions } from "../session/session-removal.ts";
import { transact } from "../store-errors.ts";

export type CaRow = Selectable<CaTable>;

/** Third-party certificate authorities, whose holders may enroll and authenticate (docs/protocol/certificate-login.md). */
export class Cas {
  readonly #ctx: ModelContext;

  constructor(ctx: ModelContext) {
    this.#ctx = ctx;
  }

  /** Registers an authority. It is unverified, and of no use until {@link verify}. */
  async create(ca: z.output<typeof caCreate>): Promise<string> {
    requireName(ca.name);
    const print = fingerprintOf(ca.certPem);
    const claim = claimOf(ca.externalIdClaim);
    const id = randomEntityId();
    await transact(this.#ctx.store, async (trx) => {
      await trx
        .insertInto("ca")
        .values({
          id,
          name: ca.name,
          cert_pem: ca.certPem,
          fingerprint: print,
          verification_token: randomUUID(),
          is_auth_enabled: ca.isAuthEnabled,
          is_auto_ca_enrollment_enabled: ca.isAutoCaEnrollmentEnabled,
          is_ott_ca_enrollment_enabled: ca.isOttCaEnrollmentEnabled,
          identity_name_format: ca.identityNameFormat,
          identity_roles: roleAttributes(ca.identityRoles, "identityRoles"),
          external_id_claim: claim === null ? null : json(claim),
          tags: json(ca.tags),
        })
        .execute();
      await appendChange(trx, { kind: "ca", key: id, op: "create" });
    });
    return id;
  }

  /** Applies the fields that are present; parts of the claim one by one. */
  async patch(id: string, change: z.output<typeof caPatch>): Promise<void> {
    const { externalIdClaim: patch, ...rest } = change;
    await this.#change(id, (old) => ({ ...rest, claim: patch === undefined ? old : claimOf({ ...old, ...patch }) }));
  }

  /** Replaces all fields; without a claim there is none. */
  async replace(id: string, ca: z.output<typeof caUpdate>): Promise<void> {
    const { externalIdClaim, ...rest } = ca;
    await this.#change(id, () => ({ ...rest, claim: claimOf(externalIdClaim) }));
  }

  async #change(
    id: string,
    decide: (
      oldClaim: ExternalIdClaim | null,
    ) => Omit<z.output<typeof caPatch>, "externalIdClaim"> & { claim: ExternalIdClaim | null },
  ): Promise<void> {
    await transact(this.#ctx.store, async (trx) => {
      const before = await lockEntity(trx, "ca", id);
      const oldClaim = storedClaim(before);
      const change = decide(oldClaim);
      if (change.name !== undefined) requireName(change.name);
      const { claim } = change;
      await updateEntity(trx, "ca", id, {
        name: change.name,
        is_auth_enabled: change.isAuthEnabled,
        is_auto_ca_enrollment_enabled: change.isAutoCaEnrollmentEnabled,
        is_ott_ca_enrollment_enabled: change.isOttCaEnrollmentEnabled,
        identity_name_format: change.identityNameFormat,
        identity_roles:
          change.identityRoles === undefined ? undefined : roleAttributes(change.identityRoles, "identityRoles"),
        external_id_claim: claim === null ? null : json(claim),
        tags: json(change.tags),
        updated_at: this.#ctx.now(),
      });
      const isWithdrawn = before.is_auth_enabled && change.isAuthEnabled === false;
      if (isWithdrawn) await endSessionsOf(trx, id);
      // The identities that the old claim named are not those that the new one names.
      else if (JSON.stringify(claim) !== JSON.stringify(oldClaim)) await endClaimedSessions(trx, id);
      await appendChange(trx, { kind: "ca", key: id, op: "update" });
    });
  }

  /** Removes it with the authenticators made through it, their sessions, and its outstanding enrollments. */
  async delete(id: string): Promise<void> {
    await this.#ctx.store.transaction(async (trx) => {
      await lockEntity(trx, "ca", id);
      await endSessionsOf(trx, id);
      for (const kind of ["authenticator", "enrollment"] as const) {
        await loggedWrite(trx, sql`WITH gone AS (DELETE FROM ${sql.table(kind)} WHERE ca_id = ${id} RETURNING id)`, {
          changes: [{ kind, op: "delete", of: "gone" }],
        });
      }
      await deleteEntity(trx, "ca", id);
    });
  }

  /**
   * Takes a certificate as proof that the administrator who registered the authority can sign with its key.
   * @throws ApiError 400 when the certificate proves something else, 409 `CA_ALREADY_VERIFIED`, 404
   */
  async verify(id: string, pem: string): Promise<void> {
    const proof = verificationCertificate(pem);
    await this.#ctx.store.transaction(async (trx) => {
      const row = await lockEntity(trx, "ca", id);
      if (row.is_verified) throw apiError("CA_ALREADY_VERIFIED");
      if (commonName(proof) !== row.verification_token) {
        throw apiError(
          "INVALID_COMMON_NAME",
          unhandledCause(`expected the common name ${row.verification_token}, the CA's verificationToken`),
        );
      }
      // The token is proof of freshness, and the signer's clock may be ahead of the controller's.
      if (issuingAuthority(searchIssuer([proof], this.#ctx.now()), [row]) === undefined) {
        throw apiError("CERTIFICATE_FAILED_VALIDATION");
      }
      await updateEntity(trx, "ca", id, { is_verified: true, updated_at: this.#ctx.now() });
      await appendChange(trx, { kind: "ca", key: id, op: "update" });
    });
  }

  /**
   * The token with which holders of the authority's certificates enroll by themselves. It is valid while the CA allows that, and stays the same while the
   * controller keeps its address and its key. @throws ApiError 404, 400 while the CA is not verified or does not allow it
   */
  async enrollmentJwt(id: string): Promise<string> {
    return this.#ctx.store.transaction(async (trx) => {
      const row = await lockEntity(trx, "ca", id);
      if (!row.is_verified || !row.is_auto_ca_enrollment_enabled) {
        const lacking = row.is_verified ? "isAutoCaEnrollmentEnabled is false" : "it is not verified";
        throw apiError("ENROLLMENT_CA_NOT_VALID", unhandledCause(`no identity can enroll by CA ${id}: ${lacking}`));
      }
      const signed = this.#ctx.pki.signJwt({
        iss: `https://${this.#ctx.settings.apiAddress}/`,
        sub: id,
        aud: ["openziti-enroller"],
        jti: id,
        em: "ca",
      });
      if (row.jwt !== null && contentOf(row.jwt) === contentOf(signed)) return row.jwt;
      await updateEntity(trx, "ca", id, { jwt: signed });
      return signed;
    });
  }

  /** @throws ApiError 404 */
  async get(db: Db, id: string): Promise<CaRow> {
    return getEntity(db, "ca", id);
  }
}

/** What a token says and who signed it; signatures by EC keys differ each time. */
function contentOf(jwt: string): string {
  return jwt.slice(0, jwt.lastIndexOf("."));
}

/** The claim of a stored CA; null when its holders are known by their certificates. */
export function storedClaim(row: Pick<CaRow, "external_id_claim">): ExternalIdClaim | null {
  return row.external_id_claim as ExternalIdClaim | null;
}

/** How the sessions of identities that a CA's claim named are marked: they were made with no authenticator. */
export function claimAuthenticatorId(caId: string): string {
  return `ca:${caId}`;
}

async function endSessionsOf(trx: Db, caId: string): Promise<void> {
  await endApiSessions(trx, sql`a.authenticator_id IN (SELECT id FROM authenticator WHERE ca_id = ${caId})`);
  await endClaimedSessions(trx, caId);
}

async function endClaimedSessions(trx: Db, caId: string): Promise<void> {
  await endApiSessions(trx, sql`a.authenticator_id = ${claimAuthenticatorId(caId)}`);
}

function claimOf(requested: RequestedClaim | undefined): ExternalIdClaim | null {
  const outcome = requested === undefined ? undefined : completeClaim(requested);
  if (outcome === undefined) return null;
  if ("claim" in outcome) return outcome.claim;
  const { field, reason, value } = outcome.problem;
  throw fieldError(`externalIdClaim.${field}`, reason, value);
}

function fingerprintOf(certPem: string): string {
  try {
    return fingerprint(readThirdPartyCa(certPem).certificate);
  } catch (error) {
    if (!(error instanceof ChainError)) throw error;
    if (error.code === "CERTIFICATE_IS_NOT_CA") throw apiError(error.code, unhandledCause(error.message));
    throw fieldError("certPem", error.message, certPem);
  }
}

function verificationCertificate(pem: string): X509Certificate {
  const [block, ...more] = pemBlocks(pem, () => true);
  if (block === undefined || more.length > 0) {
    throw apiError("COULD_NOT_PARSE_BODY", unhandledCause("expected one PEM block CERTIFICATE"));
  }
  if (!block.startsWith("-----BEGIN CERTIFICATE-----")) throw apiError("EXPECTED_PEM_CERTIFICATE");
  try {
    return new X509Certificate(block);
  } catch {
    throw apiError("COULD_NOT_PARSE_DER_BLOCK");
  }
}
