export {
  type Address,
  AddressError,
  addressFromUrl,
  countedAddress,
  formatAddress,
  formatHostPort,
  type HostPort,
  parseAddress,
  plainAddress,
} from "./address.ts";
export * from "./catalogue/base.ts";
export * from "./catalogue/capabilities.ts";
export * from "./catalogue/control.ts";
export * from "./catalogue/edge.ts";
export * from "./catalogue/link.ts";
export * from "./catalogue/management.ts";
export * from "./catalogue/xgress.ts";
export type {
  Channel,
  ChannelLimits,
  HeartbeatOptions,
  MessageHandler,
  ObservedMessage,
  RequestOptions,
  Underlay,
} from "./channel/channel.ts";
export { type ChannelDialOptions, type DialUnderlayOptions, dialChannel, dialUnderlay } from "./channel/dialer.ts";
export type { Hello } from "./channel/hello.ts";
export {
  type AcceptOnOptions,
  type AcceptOptions,
  acceptChannels,
  acceptOn,
  HELLO_TIMEOUT_MS,
} from "./channel/listener.ts";
export { ipOf, type Peer, peerOf, remoteAddress } from "./channel/peer.ts";
export { ReconnectingDialer, type ReconnectOptions } from "./channel/reconnect.ts";
export { byteMap, controlJson, decodeControl, encodeControl } from "./control-message.ts";
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
} from "./frame/frame.ts";
export { HEADER_ENTRY_PREFIX_LENGTH, Headers, writeU32Header } from "./frame/headers.ts";
export { encodeMessage, frameLengthOf, type Message, messageOf, type Outgoing, writeMessage } from "./frame/message.ts";
export * as ctrlPb from "./generated/ctrl_pb.ts";
export * as edgeClientPb from "./generated/edge_client_pb.ts";
export * as edgeCtrlPb from "./generated/edge_ctrl_pb.ts";
export * as metricsPb from "./generated/metrics_pb.ts";
export * as mgmtPb from "./generated/mgmt_pb.ts";
export {
  type CertificateRequest,
  createCsr,
  createKeyPair,
  type KeyCurve,
  type KeyKind,
  type PrivateKeyPem,
  type SigningKeys,
  signingKeys,
} from "./identity/certificate-request.ts";
export {
  CertificateError,
  commonName,
  fingerprint,
  nameParts,
  parseCertificates,
  pemBlocks,
  readPrivateKey,
  spiffeId,
  splitPem,
} from "./identity/certificates.ts";
export { controllerCheck, controllerIdProblem, controllerTrust } from "./identity/controller-id.ts";
export {
  type Identity,
  type IdentityConfig,
  IdentityError,
  type IdentityPem,
  identityFromPem,
  type KeyedPem,
  loadIdentity,
  type PemSource,
  pemSource,
  type ServerCertificatePem,
  tlsParameters,
  withServerCertificates,
} from "./identity/identity.ts";
export { covers } from "./identity/server-certificates.ts";
export {
  hasUsableKey,
  IssuerSearch,
  isUsableKey,
  type LeafTrust,
  type PresentedChain,
  verifyLeaf,
} from "./identity/trust.ts";
export { x509 } from "./identity/x509.ts";
export { base62Id, randomBase62Id } from "./ids.ts";
export { boundedLog, type LineBounds, type Logger, lineBounds, shownText, silentLogger } from "./log.ts";
export { type PlacesLimits, SharedConnections, type SharedPlace, SharedPlaces } from "./shared-places.ts";
export { type AlpnChoice, type AlpnEntry, selectAlpn } from "./socket/alpn.ts";
export { FairOutput, type Waiter } from "./socket/fair-output.ts";
export { peekClientHello } from "./socket/handshake/client-hello.ts";
export { HandshakeTurns } from "./socket/handshake/handshake-turns.ts";
export { Handshakes } from "./socket/handshake/handshakes.ts";
export { connectThroughProxy, type HttpProxy, proxyOf } from "./socket/http-proxy.ts";
export { listen, listenAdvice } from "./socket/listen.ts";
export { Slab } from "./socket/slab.ts";
export { DEFAULT_MAX_PENDING, type Output } from "./socket/slab-output.ts";
export { SocketOutput } from "./socket/socket-output.ts";
export { cutSocket, lingerSocket } from "./socket/stream-socket.ts";
export { ThreadPort, type ThreadPortOptions } from "./socket/threads/thread-port.ts";
export {
  type ChannelPort,
  type ChannelPortUser,
  HANDSHAKE_TIMEOUT_MS,
  serverTlsOptions,
  TlsPort,
  type TlsPortOptions,
  type TlsPortUser,
} from "./socket/tls-port.ts";
export { installUserBuffer } from "./socket/user-buffer.ts";
export { isAtLeast, PROTOCOL_VERSION, parseVersionInfo, type VersionInfo, versionInfo } from "./version.ts";
export { type XgressCounters, type XgressLoad, xgressCounters, xgressLoad } from "./xgress/counters.ts";
export { CircuitFrame, writeCircuitFrame, writeFrame } from "./xgress/frames/circuit-frame.ts";
export {
  answerTraceRoute,
  type ControlMessage,
  type ControlReply,
  controlFrame,
  readControl,
} from "./xgress/frames/control-message.ts";
export { FramePool, KeptFrame } from "./xgress/frames/frame-pool.ts";
export { FrameQueue } from "./xgress/frames/frame-queue.ts";
export {
  ALIGNED_PAYLOAD_SIZE,
  ms16,
  PayloadTemplate,
  PayloadView,
  payloadHeaders,
  readPayload,
} from "./xgress/frames/payload.ts";
export type { Delivery, LocalPort } from "./xgress/local-port.ts";
export { type FlowOptions, flowDefaults, type XgressOptions, xgressDefaults } from "./xgress/options.ts";
export type { Side, XgressEnd, XgressFabric, XgressPath } from "./xgress/path.ts";
export {
  AckBatch,
  type AckBatchOptions,
  AckTemplate,
  AckView,
  ackBatchDefaults,
  readAck,
} from "./xgress/receive/acknowledgement.ts";
export { Arrival, ReceiveBuffer, type ReceiveBufferDetail } from "./xgress/receive/receive-buffer.ts";
export type { BodySealer } from "./xgress/send/payload-writer.ts";
export { SendBuffer, type SendBufferDetail } from "./xgress/send/send-buffer.ts";
export { AckScheduler, type AckSource, type Scanned, ScanTimer } from "./xgress/timers.ts";
export { CLOSED_BY_NETWORK, CLOSED_BY_OTHER_END, Xgress, type XgressParts } from "./xgress/xgress.ts";
