import type { X509Certificate } from "node:crypto";
import { apiError } from "@sallyport/api";
import { commonName, fingerprint } from "@sallyport/wire";
import { sql } from "kysely";
import type { Db, ModelContext } from "../model/context.ts";
import { isIndexable } from "../model/entity.ts";
import { type CaRow, storedClaim } from "../model/identity/cas.ts";
import type { EnrollmentRow } from "../model/identity/enrollments.ts";
import type { Model } from "../model/model.ts";
import { translated } from "../model/store-errors.ts";
import { externalIdOf } from "../pki/external-id-claim.ts";
import { isForClients, issuingAuthority, searchIssuer } from "../pki/third-party-ca.ts";
import { randomEntityId } from "../store/ids.ts";
import { identityName } from "./identity-name.ts";

/** What the enrolled client or router gets. */
export interface Enrolled {
  readonly cert?: string;
  readonly serverCert?: string;
  readonly ca?: string;
  readonly username?: string;
}

/** Stores a credential that is ready, in the transaction that uses the token up. */
export type Redemption = (trx: Db, row: EnrollmentRow) => Promise<Enrolled>;

/** The identity that an invitation is for. @throws ApiError 400 when it is for a router */
export function identityOf(row: EnrollmentRow): string {
  if (row.identity_id === null) throw apiError("INVALID_ENROLLMENT_TOKEN");
  return row.identity_id;
}

/** Enrollment by a certificate of a registered authority that the connection presents (docs/protocol/enrollment.md, "Third-party certificates"). */
export class CertificateEnrolling {
  readonly #ctx: ModelContext;
  readonly #model: Model;

  constructor(ctx: ModelContext, model: Model) {
    this.#ctx = ctx;
    this.#model = model;
  }

  /** For an identity that exists, invited with method `ottca`. @throws ApiError 400, 409 `CERT_IN_USE` */
  async prepare(invitation: EnrollmentRow, presented: readonly X509Certificate[]): Promise<Redemption> {
    const identityId = identityOf(invitation);
    const ca = await this.#ctx.store.db
      .selectFrom("ca")
      .selectAll()
      .where("id", "=", invitation.ca_id ?? "")
      .executeTakeFirst();
    if (!ca?.is_verified || !ca.is_ott_ca_enrollment_enabled) throw apiError("ENROLLMENT_CA_NOT_VALID");
    const [leaf] = presented;
    if (leaf === undefined || this.#issuerOf(presented, [ca]) === undefined) throw apiError("CERT_FAILED_VALIDATION");
    return async (trx) => {
      await this.#requireStill(trx, ca, "is_ott_ca_enrollment_enabled", "ENROLLMENT_CA_NOT_VALID");
      await this.#attach(trx, identityId, ca, leaf);
      return {};
    };
  }

  /** Makes the identity of a certificate. @throws ApiError 400, 409 `CERT_IN_USE` */
  async enroll(presented: readonly X509Certificate[], requestedName: string | undefined): Promise<void> {
    const cas = await this.#ctx.store.db
      .selectFrom("ca")
      .selectAll()
      .where("is_verified", "=", true)
      .where("is_auto_ca_enrollment_enabled", "=", true)
      .orderBy("created_at")
      .orderBy("id")
      .execute();
    if (cas.length === 0) throw apiError("ENROLLMENT_NO_VALID_CAS");
    const ca = this.#issuerOf(presented, cas);
    const [leaf] = presented;
    if (ca === undefined || leaf === undefined) throw apiError("CERT_FAILED_VALIDATION");
    const id = randomEntityId();
    const name = identityName(ca.identity_name_format, {
      caName: ca.name,
      caId: ca.id,
      commonName: commonName(leaf) ?? "",
      requestedName: requestedName || id,
      identityId: id,
    });
    await translated(() =>
      this.#ctx.store.transaction(async (trx) => {
        await this.#requireStill(trx, ca, "is_auto_ca_enrollment_enabled", "ENROLLMENT_NO_VALID_CAS");
        await this.#model.identities.insertEnrolled(trx, { id, name: name || id, attributes: ca.identity_roles });
        await this.#attach(trx, id, ca, leaf);
      }),
    );
  }

  /** The authority that issued the leaf, if the leaf is valid now and meant for clients. */
  #issuerOf(presented: readonly X509Certificate[], cas: readonly CaRow[]): CaRow | undefined {
    const [leaf] = presented;
    const at = this.#ctx.now();
    if (leaf === undefined || at < leaf.validFromDate || leaf.validToDate < at || !isForClients(leaf)) return undefined;
    return issuingAuthority(searchIssuer(presented, at), cas);
  }

  /** The authority may have been withdrawn since it was read. The lock keeps it until the transaction ends. */
  async #requireStill(
    trx: Db,
    { id }: CaRow,
    column: "is_ott_ca_enrollment_enabled" | "is_auto_ca_enrollment_enabled",
    code: "ENROLLMENT_CA_NOT_VALID" | "ENROLLMENT_NO_VALID_CAS",
  ): Promise<void> {
    const row = await trx.selectFrom("ca").select(column).where("id", "=", id).forShare().executeTakeFirst();
    if (row?.[column] !== true) throw apiError(code);
  }

  /** Makes the certificate the identity's: by its external id when the authority has a claim, else as an authenticator. */
  async #attach(trx: Db, identityId: string, ca: CaRow, leaf: X509Certificate): Promise<void> {
    const print = fingerprint(leaf);
    // Of concurrent requests with one certificate, the first takes it and the others find it in use.
    await sql`SELECT pg_advisory_xact_lock(hashtextextended(${`enroll/${print}`}, 0))`.execute(trx);
    const inUse = () => apiError("CERT_IN_USE", { message: "certificate in use", data: { fingerprint: print } });
    const holder = await trx
      .selectFrom("authenticator")
      .select("id")
      .where("fingerprint", "=", print)
      .executeTakeFirst();
    if (holder !== undefined) throw inUse();
    const claim = storedClaim(ca);
    if (claim === null) {
      await this.#model.authenticators.insert(trx, identityId, {
        method: "cert",
        certPem: leaf.toString(),
        fingerprint: print,
        isIssuedByNetwork: false,
        caId: ca.id,
      });
      return;
    }
    const externalId = externalIdOf(leaf, claim);
    // What is too long to be stored is no claim.
    if (externalId === undefined || !isIndexable(externalId)) throw apiError("MISSING_CERT_CLAIM");
    const other = await trx
      .selectFrom("identity")
      .select("id")
      .where("external_id", "=", externalId)
      .where("id", "<>", identityId)
      .executeTakeFirst();
    // The holder of the certificate can authenticate already.
    if (other !== undefined) throw inUse();
    await this.#model.identities.setExternalId(trx, identityId, externalId);
  }
}
