import type { Pki } from "../pki/pki.ts";

/** What the model needs of the network's PKI. Requests that cannot be used fail with a `CsrError`. */
export type ModelPki = Pick<
  Pki,
  | "issueIdentityCertificate"
  | "issueRouterCertificates"
  | "issueSessionCertificate"
  | "caBundlePem"
  | "caBundlePkcs7Base64"
  | "clientBundlePem"
  | "trustAnchors"
  | "serverIdentity"
  | "signJwt"
  | "jwtSigner"
>;
