import type { X509Certificate } from "node:crypto";
import { fingerprint } from "@sallyport/wire";
import { sql } from "kysely";
import type { ModelContext } from "../../model/context.ts";
import { claimAuthenticatorId } from "../../model/identity/cas.ts";
import { type ExternalIdClaim, externalIdOf } from "../../pki/external-id-claim.ts";
import { isForClients } from "../../pki/third-party-ca.ts";
import { loggedWrite } from "../../store/changes/logged-write.ts";
import { type CertificateTrust, trustOf } from "../client-certificate.ts";
import { findPrincipal, type Principal, type Proof, refused, requireEnabled } from "./proof.ts";

/** Authentication by the certificate of the TLS connection (docs/protocol/certificate-login.md). */
export class CertificateLogin {
  readonly #ctx: ModelContext;

  constructor(ctx: ModelContext) {
    this.#ctx = ctx;
  }

  /** @param presented leaf first @throws ApiError 401 */
  async prove(presented: readonly X509Certificate[]): Promise<Proof> {
    const { db } = this.#ctx.store;
    const [leaf] = presented;
    if (leaf === undefined) throw refused("no client certificate was presented");
    const print = fingerprint(leaf);
    const now = this.#ctx.now();
    const row = await this.#authenticatorOf(print, now);
    const trust = await trustOf(db, presented, this.#ctx.pki.trustAnchors, now, row?.ca_id ?? undefined);
    if (trust === undefined) throw refused(`certificate ${print} is of no trusted issuer`);
    if (trust.ca?.claim) return this.#byClaim(trust, trust.ca.id, trust.ca.claim, print);
    if (row === undefined) throw refused(`certificate ${print} belongs to no authenticator`);
    const principal = await findPrincipal(db, "id", row.identity_id);
    if (principal === undefined) throw refused(`identity ${row.identity_id} is gone`);
    this.#requireAllowed(principal, leaf, print);
    if (row.last_auth_resolved_to_root !== trust.isProperChain) {
      await loggedWrite(
        db,
        sql`WITH noted AS (
          UPDATE authenticator SET last_auth_resolved_to_root = ${trust.isProperChain} WHERE id = ${row.id} RETURNING id)`,
        { changes: [{ kind: "authenticator", op: "update", of: "noted" }] },
      );
    }
    return {
      principal,
      authenticatorId: row.id,
      ...(trust.ca && { caId: trust.ca.id }),
      certFingerprints: [print],
      improperClientCertChain: !trust.isProperChain,
      isExtendRequested: row.is_extend_requested,
    };
  }

  /**
   * The authenticator of a certificate: of the current one, or of an extension that counts beside it until it is confirmed. One query, since between two an
   * extension could become current.
   */
  async #authenticatorOf(print: string, now: Date) {
    return await this.#ctx.store.db
      .selectFrom("authenticator")
      .select(["id", "identity_id", "ca_id", "is_extend_requested", "last_auth_resolved_to_root"])
      .where((eb) =>
        eb.or([
          eb("fingerprint", "=", print),
          eb.and([eb("unverified_fingerprint", "=", print), eb("unverified_counts_until", ">", now)]),
        ]),
      )
      .orderBy((eb) => eb("fingerprint", "=", print), "desc")
      .limit(1)
      .executeTakeFirst();
  }

  /** By the part of the certificate that its CA says is an identity's `externalId`; no authenticator is asked. */
  async #byClaim({ leaf }: CertificateTrust, caId: string, claim: ExternalIdClaim, print: string): Promise<Proof> {
    const externalId = externalIdOf(leaf, claim);
    if (externalId === undefined)
      throw refused(`certificate ${print} lacks what CA ${caId} takes the external id from`);
    // The controller sees this certificate for the first time, so its purpose has to be checked here.
    if (!isForClients(leaf)) throw refused(`certificate ${print} is not meant for clients`);
    const principal = await findPrincipal(this.#ctx.store.db, "external_id", externalId);
    if (principal === undefined) throw refused(`no identity has the external id of certificate ${print}`);
    this.#requireAllowed(principal, leaf, print);
    return {
      principal,
      authenticatorId: claimAuthenticatorId(caId),
      caId,
      claim,
      certFingerprints: [print],
      improperClientCertChain: false,
      isExtendRequested: false,
    };
  }

  #requireAllowed(principal: Principal, leaf: X509Certificate, print: string): void {
    const now = this.#ctx.now();
    requireEnabled(principal, now);
    const { policy } = principal;
    const refusal = certificateRefusal(policy, leaf, now);
    if (refusal === "forbidden") throw refused(`auth policy ${policy.id} does not allow certificates`);
    if (refusal !== undefined) throw refused(`certificate ${print} is outside its validity`);
  }
}

/** Why an auth policy does not let an identity log in by its certificate at this moment. */
export function certificateRefusal(
  policy: Pick<Principal["policy"], "cert_allowed" | "cert_allow_expired">,
  leaf: X509Certificate,
  at: Date,
): "forbidden" | "expired" | "not yet valid" | undefined {
  if (!policy.cert_allowed) return "forbidden";
  if (policy.cert_allow_expired) return undefined;
  if (at > leaf.validToDate) return "expired";
  return at < leaf.validFromDate ? "not yet valid" : undefined;
}
