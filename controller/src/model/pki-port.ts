import type { X509Certificate } from "node:crypto";

/** A certificate that the network issued. */
export interface IssuedCertificate {
  /** Leaf and intermediates without the root. */
  readonly pem: string;
  readonly leafPem: string;
  /** SHA-1 of the leaf's DER, lower-case hex. */
  readonly fingerprint: string;
  readonly notBefore: Date;
  readonly notAfter: Date;
}

/** What the model needs of the network's PKI (`pki/pki.ts`). Requests that cannot be used fail with a `CsrError`. */
export interface ModelPki {
  issueIdentityCertificate(csrPem: string): Promise<IssuedCertificate>;
  issueRouterCertificates(request: {
    readonly routerId: string;
    readonly certCsr: string;
    readonly serverCertCsr: string;
  }): Promise<{ readonly client: IssuedCertificate; readonly server: IssuedCertificate }>;
  issueSessionCertificate(
    csrPem: string,
    session: { readonly identityId: string; readonly apiSessionId: string; readonly certificateId: string },
  ): Promise<IssuedCertificate>;
  readonly caBundlePem: string;
  caBundlePkcs7Base64(): string;
  readonly trustAnchors: readonly X509Certificate[];
  /** A compact JWT signed with the key of the certificate that the API is served with. */
  signJwt(claims: Record<string, unknown>): string;
}
