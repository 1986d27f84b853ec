export { type Address, AddressError, addressFromUrl, formatAddress, parseAddress } from "./address.ts";
export { type AlpnChoice, type AlpnEntry, selectAlpn } from "./alpn.ts";
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
export type { Channel, ChannelLimits, HeartbeatOptions, MessageHandler, RequestOptions, Underlay } from "./channel.ts";
export { byteMap, decodeControl, encodeControl } from "./control-message.ts";
export { type DialOptions, type DialUnderlayOptions, dialChannel, dialUnderlay } from "./dialer.ts";
export * from "./errors.ts";
export {
  DEFAULT_LIMITS,
  FRAME_MAGIC,
  FRAME_PREFIX_LENGTH,
  type FrameLimits,
  FrameParser,
  type FrameView,
  HELLO_LIMITS,
  UNKNOWN_VERSION_RESPONSE,
  writeFramePrefix,
} from "./frame.ts";
export * as ctrlPb from "./generated/ctrl_pb.ts";
export * as edgeCtrlPb from "./generated/edge_ctrl_pb.ts";
export * as metricsPb from "./generated/metrics_pb.ts";
export { Headers } from "./headers.ts";
export type { Hello } from "./hello.ts";
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
export { randomBase62Id } from "./ids.ts";
export { type AcceptOptions, acceptChannels } from "./listener.ts";
export { type Logger, silentLogger } from "./log.ts";
export { encodeMessage, frameLengthOf, type Message, messageOf, type Outgoing, writeMessage } from "./message.ts";
export type { Output } from "./output.ts";
export { type Peer, peerOf, remoteAddress } from "./peer.ts";
export { ReconnectingDialer, type ReconnectOptions } from "./reconnect.ts";
export { covers } from "./server-certificates.ts";
export { Slab } from "./slab.ts";
export { TlsPort, type TlsPortOptions, type TlsPortUser } from "./tls-port.ts";
export { type LeafTrust, verifyLeaf } from "./trust.ts";
export { PROTOCOL_VERSION, parseVersionInfo, type VersionInfo, versionInfo } from "./version.ts";
export { x509 } from "./x509.ts";
export {
  AckBatch,
  type AckBatchOptions,
  AckTemplate,
  AckView,
  ackBatchDefaults,
  readAck,
} from "./xgress/acknowledgement.ts";
export { type FlowOptions, flowDefaults } from "./xgress/flow-options.ts";
export {
  alignedPayloadSize,
  ms16,
  PayloadTemplate,
  PayloadView,
  payloadHeaders,
  readPayload,
} from "./xgress/payload.ts";
export { Arrival, ReceiveBuffer, type ReceiveBufferDetail } from "./xgress/receive-buffer.ts";
export { SendBuffer, type SendBufferDetail } from "./xgress/send-buffer.ts";
