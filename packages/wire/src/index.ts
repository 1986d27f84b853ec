export { type Address, AddressError, addressFromUrl, formatAddress, parseAddress } from "./address.ts";
export {
  type CertificateRequest,
  createCsr,
  createKeyPair,
  type KeyCurve,
  type KeyPair,
  readPrivateKey,
  type SigningKeys,
  signingKeys,
} from "./certificate-request.ts";
export {
  CertificateError,
  commonName,
  fingerprint,
  parseCertificates,
  pemBlocks,
  spiffeId,
  splitPem,
} from "./certificates.ts";
export * from "./errors.ts";
export {
  type Identity,
  type IdentityConfig,
  IdentityError,
  type IdentityPem,
  identityFromPem,
  loadIdentity,
  type PemSource,
  pemSource,
  readPemValue,
  type ServerCertificatePem,
  tlsParameters,
} from "./identity.ts";
export { type Logger, silentLogger } from "./log.ts";
export { covers } from "./server-certificates.ts";
export { type LeafTrust, verifyLeaf } from "./trust.ts";
export { x509 } from "./x509.ts";
