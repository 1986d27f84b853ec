import type { X509Certificate } from "node:crypto";
import { apiError, fieldError, unauthorized } from "@sallyport/api";
import { fingerprint } from "@sallyport/wire";
import type { Db, ModelContext } from "../model/context.ts";
import type { EnrollmentRow } from "../model/identity/enrollments.ts";
import type { Model } from "../model/model.ts";
import { translated } from "../model/store-errors.ts";
import type { EnrollmentMethod } from "../store/schema.ts";
import { CertificateEnrolling, type Enrolled, identityOf, type Redemption } from "./certificate-enrolling.ts";
import { withCsrErrors } from "./client-certificate.ts";
import type { TokenCheck } from "./jwt/token-check.ts";
import { TokenEnrolling } from "./token-enrolling.ts";

/** An enrollment, whatever form it was sent in. */
export interface EnrollRequest {
  readonly method: string;
  readonly token: string;
  /** PEM request of an identity. */
  readonly csr?: string | undefined;
  /** The two PEM requests of a router. */
  readonly certCsr?: string | undefined;
  readonly serverCertCsr?: string | undefined;
  readonly username?: string | undefined;
  readonly password?: string | undefined;
  /** The name that the holder of a CA's certificate asks for. */
  readonly name?: string | undefined;
  readonly peerCertificates: readonly X509Certificate[];
}

/**
 * Turns invitations into credentials (docs/protocol/enrollment.md). Signing and hashing come first, outside the transaction. One short transaction then
 * stores the credential and uses the token up, so that it works once. A failure leaves the token usable.
 */
export class Enrolling {
  /** Of those who have no invitation, but a token of an external signer. */
  readonly byToken: TokenEnrolling;
  readonly #ctx: ModelContext;
  readonly #model: Model;
  readonly #certificates: CertificateEnrolling;

  /** @param check of tokens of external signers */
  constructor(ctx: ModelContext, model: Model, check: TokenCheck) {
    this.#ctx = ctx;
    this.#model = model;
    this.#certificates = new CertificateEnrolling(ctx, model);
    this.byToken = new TokenEnrolling(ctx, model, check);
  }

  /** @throws ApiError 400, 409 when what would be stored is taken */
  async enroll(request: EnrollRequest): Promise<Enrolled> {
    switch (request.method) {
      case "ott":
        return this.#redeem("ott", request, (row) => this.#withNewCertificate(row, request.csr));
      case "ottca":
        return this.#redeem("ottca", request, (row) => this.#certificates.prepare(row, request.peerCertificates));
      case "updb":
        return this.#redeem("updb", request, (row) => this.#withPassword(row, request));
      case "erott":
      case "trott":
        return this.#redeem(request.method, request, (row) => this.#router(row, request));
      case "ca":
        await this.#certificates.enroll(request.peerCertificates, request.name);
        return {};
      default:
        throw apiError("INVALID_ENROLL_METHOD");
    }
  }

  /**
   * New certificates for the router whose certificate the connection presents; the old one no longer authenticates.
   * @throws ApiError 401 for an unknown or disabled router, and for an expired certificate
   */
  async extendRouter(
    presented: readonly X509Certificate[],
    request: { readonly certCsr: string; readonly serverCertCsr: string },
  ): Promise<Enrolled> {
    const [leaf] = presented;
    if (leaf === undefined) throw unauthorized("no client certificate was presented");
    const print = fingerprint(leaf);
    const current = async (db: Db) => {
      const router = await this.#model.routers.findByFingerprint(db, print);
      // One that still has to be confirmed over the control channel is not the router's certificate yet.
      if (router?.fingerprint !== print) throw unauthorized("the client certificate belongs to no router");
      if (router.disabled) throw unauthorized(`router ${router.id} is disabled`);
      if (leaf.validToDate < this.#ctx.now()) {
        throw unauthorized(`the certificate of router ${router.id} ended on ${leaf.validTo}: it has to enroll again`);
      }
      return router;
    };
    const { id: routerId } = await current(this.#ctx.store.db);
    const issued = await withCsrErrors(() => this.#ctx.pki.issueRouterCertificates({ routerId, ...request }));
    await this.#ctx.store.transaction(async (trx) => {
      await current(trx);
      await this.#model.routers.setCertificate(trx, routerId, issued.client, print);
    });
    return { cert: issued.client.pem, serverCert: issued.server.pem };
  }

  async #redeem(
    method: EnrollmentMethod,
    { token }: EnrollRequest,
    prepare: (row: EnrollmentRow) => Promise<Redemption>,
  ): Promise<Enrolled> {
    const { enrollments } = this.#model;
    const { store } = this.#ctx;
    const redemption = await prepare(await enrollments.find(store.db, token, method));
    return translated(() =>
      store.transaction(async (trx) => {
        const row = await enrollments.claim(trx, token, method);
        const answer = await redemption(trx, row);
        await enrollments.complete(trx, row);
        return answer;
      }),
    );
  }

  async #withNewCertificate(row: EnrollmentRow, csr: string | undefined): Promise<Redemption> {
    if (csr === undefined || csr.trim() === "") throw apiError("MISSING_OR_INVALID_CSR");
    const identityId = identityOf(row);
    const issued = await withCsrErrors(() => this.#ctx.pki.issueIdentityCertificate(csr));
    return async (trx) => {
      await this.#model.authenticators.insert(trx, identityId, {
        method: "cert",
        certPem: issued.pem,
        fingerprint: issued.fingerprint,
        isIssuedByNetwork: true,
      });
      return { cert: issued.pem };
    };
  }

  async #withPassword(row: EnrollmentRow, request: EnrollRequest): Promise<Redemption> {
    if (request.password === undefined) throw fieldError("password", "password is required");
    // The administrator has chosen it; the holder of the token cannot choose another.
    const username = row.username ?? request.username ?? "";
    if (username === "") throw fieldError("username", "username is required");
    const identityId = identityOf(row);
    const { authenticators } = this.#model;
    const { db } = this.#ctx.store;
    const credential = await authenticators.passwordCredential(db, identityId, username, request.password);
    return async (trx) => {
      await authenticators.insert(trx, identityId, credential);
      return { username };
    };
  }

  async #router(row: EnrollmentRow, request: EnrollRequest): Promise<Redemption> {
    const { certCsr, serverCertCsr } = request;
    if (!certCsr || !serverCertCsr) throw apiError("MISSING_OR_INVALID_CSR");
    const routerId = row.router_id;
    if (routerId === null) throw apiError("INVALID_ENROLLMENT_TOKEN");
    const issued = await withCsrErrors(() =>
      this.#ctx.pki.issueRouterCertificates({ routerId, certCsr, serverCertCsr }),
    );
    return async (trx) => {
      await this.#model.routers.setCertificate(trx, routerId, issued.client);
      return { cert: issued.client.pem, serverCert: issued.server.pem, ca: this.#ctx.pki.caBundlePem };
    };
  }
}
