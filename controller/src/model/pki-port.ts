import type { Pki } from "../pki/pki.ts";
import { WorkLimit } from "./work-limit.ts";

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
  | "certificateOf"
  | "networkCertificate"
  | "signJwt"
  | "jwtSigner"
>;

/**
 * A PKI that makes few certificates at a time: each takes some milliseconds of the process. A crowd that enrolls at once waits in line, and other requests
 * go on between two certificates; beyond a length of about a second the line is closed with 429.
 */
export function boundedPki(pki: ModelPki): ModelPki {
  const limit = new WorkLimit({ atATime: 2, inLine: 400, retryAfterSeconds: 2 });
  return {
    issueIdentityCertificate: (...args) => limit.run(() => pki.issueIdentityCertificate(...args)),
    issueRouterCertificates: (...args) => limit.run(() => pki.issueRouterCertificates(...args)),
    issueSessionCertificate: (...args) => limit.run(() => pki.issueSessionCertificate(...args)),
    caBundlePkcs7Base64: (...args) => pki.caBundlePkcs7Base64(...args),
    certificateOf: (...args) => pki.certificateOf(...args),
    signJwt: (...args) => pki.signJwt(...args),
    get caBundlePem() {
      return pki.caBundlePem;
    },
    get clientBundlePem() {
      return pki.clientBundlePem;
    },
    get trustAnchors() {
      return pki.trustAnchors;
    },
    get networkCertificate() {
      return pki.networkCertificate;
    },
    get jwtSigner() {
      return pki.jwtSigner;
    },
  };
}
