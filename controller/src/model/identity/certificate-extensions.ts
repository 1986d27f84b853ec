import type { X509Certificate } from "node:crypto";
import { apiError, unhandledCause } from "@sallyport/api";
import { CertificateError, fingerprint, parseCertificates, verifyLeaf } from "@sallyport/wire";
import { sql } from "kysely";
import { isForClients } from "../../pki/third-party-ca.ts";
import { appendChange } from "../../store/changes/change-log.ts";
import { loggedWrite } from "../../store/changes/logged-write.ts";
import type { Db, ModelContext } from "../context.ts";
import { updateEntity } from "../entity.ts";
import { transact } from "../store-errors.ts";
import { type AuthenticatorRow, type Authenticators, certificatesOf } from "./authenticators.ts";

/** How long both certificates count at most, when the holder asked for that. */
const OVERLAP_MS = 7 * 86_400_000;

/** Renewal of the certificates that the network has issued to identities (docs/protocol/enrollment.md, "Extending"). */
export class CertificateExtensions {
  readonly #ctx: ModelContext;
  readonly #authenticators: Authenticators;

  constructor(ctx: ModelContext, authenticators: Authenticators) {
    this.#ctx = ctx;
    this.#authenticators = authenticators;
  }

  /**
   * Issues a new certificate for the one that a client presents (leaf first), with the same alternative names. Until {@link confirm} the old one counts, or
   * both when the holder asks for that.
   * @throws ApiError 400 unless the presented leaf is the authenticator's, issued by the network, for clients, and usable by the identity's policy; 404
   */
  async extend(
    id: string,
    identityId: string,
    presented: readonly X509Certificate[],
    { csr, overlaps }: { readonly csr: string; readonly overlaps: boolean },
  ): Promise<{ certPem: string }> {
    const { store, pki, now } = this.#ctx;
    const row = await this.#authenticators.owned(store.db, id, identityId);
    requireExtendable(row);
    const leaf = await this.#current(row, presented);
    const issued = await pki.issueIdentityCertificate(csr, leaf);
    await store.transaction(async (trx) => {
      const { numUpdatedRows } = await trx
        .updateTable("authenticator")
        .set({
          unverified_cert_pem: issued.pem,
          unverified_fingerprint: issued.fingerprint,
          unverified_counts_until: overlaps ? new Date(now().getTime() + OVERLAP_MS) : null,
          updated_at: now(),
        })
        .where("id", "=", id)
        .where("fingerprint", "=", row.fingerprint)
        .executeTakeFirst();
      if (numUpdatedRows === 0n) throw notCurrent();
      await appendChange(trx, { kind: "authenticator", key: id, op: "update" });
    });
    return { certPem: issued.pem };
  }

  /**
   * Puts an extended certificate in force. The old one no longer authenticates; sessions made with it go on, and may be used with either.
   * @throws ApiError 400 when it is not the one that was issued last, 404
   */
  async confirm(id: string, identityId: string, certPem: string): Promise<void> {
    const [certificate] = certificatesOf(certPem);
    const print = fingerprint(certificate);
    await transact(this.#ctx.store, async (trx) => {
      // What was asked of the holder meanwhile must not be overwritten by what was read before.
      await trx.selectFrom("authenticator").select("id").where("id", "=", id).forUpdate().execute();
      const row = await this.#authenticators.owned(trx, id, identityId);
      if (row.unverified_fingerprint === null || row.unverified_fingerprint !== print) {
        throw apiError("INVALID_CLIENT_CERT", unhandledCause("the certificate is not the one that was issued last"));
      }
      const hasRolledKeys = !isSameKey(certificate, row.cert_pem);
      // A holder that kept its key although it was asked for a new one is still asked.
      const isStillAsked = row.is_key_roll_requested && !hasRolledKeys;
      const { numUpdatedRows } = await trx
        .updateTable("authenticator")
        .set({
          cert_pem: row.unverified_cert_pem,
          fingerprint: print,
          unverified_cert_pem: null,
          unverified_fingerprint: null,
          unverified_counts_until: null,
          is_extend_requested: isStillAsked,
          is_key_roll_requested: isStillAsked,
          last_extend_rolled_keys: hasRolledKeys,
          extend_requested_at: isStillAsked ? undefined : null,
          updated_at: this.#ctx.now(),
        })
        .where("id", "=", id)
        .where("unverified_fingerprint", "=", print)
        .executeTakeFirst();
      if (numUpdatedRows === 0n) throw notCurrent();
      await loggedWrite(
        trx,
        sql`WITH holding AS (UPDATE api_session SET cert_fingerprints = array_append(cert_fingerprints, ${print})
          WHERE authenticator_id = ${id} RETURNING id)`,
        { changes: [{ kind: "api_session", op: "update", of: "holding" }] },
      );
      await appendChange(trx, { kind: "authenticator", key: id, op: "update" });
    });
  }

  /**
   * Asks the holder of a certificate to extend it, with a new key when `rollKeys`: its client learns it at the next authentication.
   * @throws ApiError 404, 400 for an authenticator that cannot be extended
   */
  async request(id: string, rollKeys: boolean): Promise<void> {
    const { store, now } = this.#ctx;
    await store.transaction(async (trx) => {
      requireExtendable(await this.#authenticators.get(trx, id));
      const at = now();
      await updateEntity(trx, "authenticator", id, {
        is_extend_requested: true,
        is_key_roll_requested: rollKeys,
        extend_requested_at: at,
        updated_at: at,
      });
      await appendChange(trx, { kind: "authenticator", key: id, op: "update" });
    });
  }

  async #current(row: AuthenticatorRow, presented: readonly X509Certificate[]): Promise<X509Certificate> {
    const { store, pki, now } = this.#ctx;
    const [leaf, ...intermediates] = presented;
    if (leaf === undefined || fingerprint(leaf) !== row.fingerprint) throw notCurrent();
    const ignoreDates = (await allowsExpired(store.db, row.identity_id)) ? ("leaf" as const) : false;
    try {
      verifyLeaf({ leaf, intermediates, anchors: pki.trustAnchors, at: now(), ignoreDates });
    } catch (error) {
      if (!(error instanceof CertificateError)) throw error;
      throw apiError("INVALID_CLIENT_CERT", unhandledCause(error.message));
    }
    if (!isForClients(leaf)) throw apiError("INVALID_CLIENT_CERT", unhandledCause("it is not meant for clients"));
    return leaf;
  }
}

function requireExtendable(row: AuthenticatorRow): void {
  if (row.method === "cert" && row.is_issued_by_network) return;
  throw apiError(
    "INVALID_AUTHENTICATOR_PROPERTIES",
    unhandledCause("only certificates issued by the network can be extended"),
  );
}

function notCurrent(): Error {
  return apiError(
    "INVALID_CLIENT_CERT",
    unhandledCause("the connection must present the certificate that is to be extended"),
  );
}

async function allowsExpired(db: Db, identityId: string): Promise<boolean> {
  const row = await db
    .selectFrom("identity")
    .innerJoin("auth_policy", "auth_policy.id", "identity.auth_policy_id")
    .select("auth_policy.cert_allow_expired as isAllowed")
    .where("identity.id", "=", identityId)
    .executeTakeFirst();
  return row?.isAllowed ?? false;
}

function isSameKey(certificate: X509Certificate, otherPem: string | null): boolean {
  if (otherPem === null) return false;
  const [other] = parseCertificates(otherPem);
  return other !== undefined && certificate.publicKey.equals(other.publicKey);
}
