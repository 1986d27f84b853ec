export { type Address, AddressError, addressFromUrl, formatAddress, parseAddress } from "./address.ts";
export * from "./catalogue/base.ts";
export * from "./catalogue/control.ts";
export * from "./catalogue/edge.ts";
export * from "./catalogue/link.ts";
export * from "./catalogue/xgress.ts";
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
export { byteMap, decodeControl, encodeControl } from "./control-message.ts";
export * from "./errors.ts";
export * as ctrlPb from "./generated/ctrl_pb.ts";
export * as edgeCtrlPb from "./generated/edge_ctrl_pb.ts";
export * as metricsPb from "./generated/metrics_pb.ts";
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
