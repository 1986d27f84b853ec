import type { X509Certificate } from "node:crypto";
import { apiError, fieldError, unauthorized } from "@sallyport/api";
import { CertificateError, fingerprint, parseCertificates, verifyLeaf } from "@sallyport/wire";
import type { Db, ModelContext } from "../model/context.ts";
import type { EnrollmentRow } from "../model/identity/enrollments.ts";
import type { Model } from "../model/model.ts";
import { translated } from "../model/store-errors.ts";
import type { EnrollmentMethod } from "../store/schema.ts";
import { withCsrErrors } from "./csr-errors.ts";

/** An enrollment as it comes, whichever of the forms it was sent in. */
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
  readonly peerCertificates: readonly X509Certificate[];
}

/** What the enrolled party gets. */
export interface Enrolled {
  readonly cert?: string;
  readonly serverCert?: string;
  readonly ca?: string;
  readonly username?: string;
}

/**
 * Turns invitations into credentials (docs/protocol/enrollment.md). Each is used up in the transaction that makes the credential,
 * so a token works once; a failure leaves it usable.
 */
export class Enrolling {
  readonly #ctx: ModelContext;
  readonly #model: Model;

  constructor(ctx: ModelContext, model: Model) {
    this.#ctx = ctx;
    this.#model = model;
  }

  async enroll(request: EnrollRequest): Promise<Enrolled> {
    switch (request.method) {
      case "ott":
        return this.#claimed("ott", request, (trx, row) => this.#withCertificate(trx, row, request.csr));
      case "ottca":
        return this.#claimed("ottca", request, (trx, row) => this.#withOwnCertificate(trx, row, request));
      case "updb":
        return this.#claimed("updb", request, (trx, row) => this.#withPassword(trx, row, request));
      case "erott":
      case "trott":
        return this.#claimed(request.method, request, (trx, row) => this.#router(trx, row, request));
      case "ca":
        // Authorities whose holders enroll by themselves are registered over operations of their own; without one nobody can.
        throw apiError("ENROLLMENT_NO_VALID_CAS");
      default:
        throw apiError("INVALID_ENROLL_METHOD");
    }
  }

  /**
   * New certificates for the router whose certificate the connection presents; the old one stops to authenticate at once.
   * @throws ApiError 401 when there is none such, when the router is disabled, and when the certificate has ended
   */
  async extendRouter(
    presented: readonly X509Certificate[],
    request: { readonly certCsr: string; readonly serverCertCsr: string },
  ): Promise<Enrolled> {
    const [leaf] = presented;
    if (leaf === undefined) throw unauthorized("no client certificate was presented");
    return this.#ctx.store.transaction(async (trx) => {
      const router = await this.#model.routers.findByFingerprint(trx, fingerprint(leaf));
      if (router === undefined) throw unauthorized("the client certificate belongs to no router");
      if (router.disabled) throw unauthorized(`router ${router.id} is disabled`);
      if (leaf.validToDate < this.#ctx.now()) {
        throw unauthorized(`the certificate of router ${router.id} ended on ${leaf.validTo}: it has to enroll again`);
      }
      const issued = await withCsrErrors(() =>
        this.#ctx.pki.issueRouterCertificates({ routerId: router.id, ...request }),
      );
      await this.#model.routers.setCertificate(trx, router.id, issued.client);
      return { cert: issued.client.pem, serverCert: issued.server.pem };
    });
  }

  async #claimed(
    method: EnrollmentMethod,
    request: EnrollRequest,
    use: (trx: Db, row: EnrollmentRow) => Promise<Enrolled>,
  ): Promise<Enrolled> {
    return translated(() =>
      this.#ctx.store.transaction(async (trx) => {
        const row = await this.#model.enrollments.claim(trx, request.token, method);
        const answer = await use(trx, row);
        await this.#model.enrollments.complete(trx, row);
        return answer;
      }),
    );
  }

  async #withCertificate(trx: Db, row: EnrollmentRow, csr: string | undefined): Promise<Enrolled> {
    if (csr === undefined || csr.trim() === "") throw apiError("MISSING_OR_INVALID_CSR");
    const issued = await withCsrErrors(() => this.#ctx.pki.issueIdentityCertificate(csr));
    await this.#model.authenticators.insert(trx, identityOf(row), {
      method: "cert",
      certPem: issued.pem,
      fingerprint: issued.fingerprint,
      isIssuedByNetwork: true,
    });
    return { cert: issued.pem };
  }

  async #withOwnCertificate(trx: Db, row: EnrollmentRow, request: EnrollRequest): Promise<Enrolled> {
    const ca = await trx
      .selectFrom("ca")
      .selectAll()
      .where("id", "=", row.ca_id ?? "")
      .executeTakeFirst();
    if (ca === undefined || !ca.is_ott_ca_enrollment_enabled) throw apiError("ENROLLMENT_CA_NOT_VALID");
    const [leaf, ...intermediates] = request.peerCertificates;
    if (leaf === undefined) throw apiError("CERT_FAILED_VALIDATION");
    try {
      verifyLeaf({ leaf, intermediates, anchors: parseCertificates(ca.cert_pem), at: this.#ctx.now() });
    } catch (error) {
      if (error instanceof CertificateError) throw apiError("CERT_FAILED_VALIDATION");
      throw error;
    }
    const print = fingerprint(leaf);
    const other = await trx
      .selectFrom("authenticator")
      .select("id")
      .where("fingerprint", "=", print)
      .executeTakeFirst();
    if (other !== undefined) {
      throw apiError("CERT_IN_USE", { message: "certificate in use", data: { fingerprint: print } });
    }
    await this.#model.authenticators.insert(trx, identityOf(row), {
      method: "cert",
      certPem: leaf.toString(),
      fingerprint: print,
      isIssuedByNetwork: false,
      caId: ca.id,
    });
    return {};
  }

  async #withPassword(trx: Db, row: EnrollmentRow, request: EnrollRequest): Promise<Enrolled> {
    if (request.password === undefined) throw fieldError("password", "password is required");
    const username = request.username ?? row.username;
    if (username === null || username === "") throw fieldError("username", "username is required");
    const identityId = identityOf(row);
    const credential = await this.#model.authenticators.passwordCredential(trx, identityId, username, request.password);
    await this.#model.authenticators.insert(trx, identityId, credential);
    return { username };
  }

  async #router(trx: Db, row: EnrollmentRow, request: EnrollRequest): Promise<Enrolled> {
    const { certCsr, serverCertCsr } = request;
    if (!certCsr || !serverCertCsr) throw apiError("MISSING_OR_INVALID_CSR");
    const routerId = row.router_id;
    if (routerId === null) throw apiError("INVALID_ENROLLMENT_TOKEN");
    const issued = await withCsrErrors(() =>
      this.#ctx.pki.issueRouterCertificates({ routerId, certCsr, serverCertCsr }),
    );
    await this.#model.routers.setCertificate(trx, routerId, issued.client);
    return { cert: issued.client.pem, serverCert: issued.server.pem, ca: this.#ctx.pki.caBundlePem };
  }
}

function identityOf(row: EnrollmentRow): string {
  if (row.identity_id === null) throw apiError("INVALID_ENROLLMENT_TOKEN");
  return row.identity_id;
}
