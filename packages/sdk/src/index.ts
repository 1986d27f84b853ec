/**
 * Applications on the overlay: dial services and host them, end-to-end encrypted, without an open port.
 *
 * ```ts
 * import { Context, enroll } from "@sallyport/sdk";
 *
 * const identity = await enroll(await readFile("me.jwt", "utf8"));       // once; keep it in a file of mode 0600
 * const context = await Context.load(identity);                          // or the path of an identity file
 *
 * const server = await context.listen("echo");                           // net.Server-like
 * server.on("connection", (socket) => socket.pipe(socket));
 *
 * const socket = await context.dial("echo", { timeoutMs: 5_000 });       // net.Socket-like
 * http.get("http://web/", { agent: context.httpAgent() }, onResponse);   // the host name is the service
 * ```
 *
 * Identity files are interchangeable with those of OpenZiti. Every error is an `SdkError` with a `code`.
 */
export type { IdentityInfo } from "./api-session.ts";
export { EdgeConnection } from "./circuit/connection.ts";
export { type ConnectionHandler, MessageConnection } from "./circuit/message-connection.ts";
export type { TraceHop, TraceOptions } from "./circuit/trace-route.ts";
export { type ConnectOptions, Context, type ContextLogin, type ContextOptions, type DialOptions } from "./context.ts";
export { type ConnectionKeys, EndToEnd } from "./crypto/end-to-end.ts";
export { loadSodium } from "./crypto/load-sodium.ts";
export {
  KEY_BYTES,
  type KeyPair,
  MESSAGE_OVERHEAD,
  type SessionKeys,
  type Sodium,
  STREAM_HEADER_BYTES,
  type StreamDecryptor,
  type StreamEncryptor,
} from "./crypto/sodium.ts";
export { RouterDialError } from "./dial.ts";
export { type CaBundle, fetchCaBundle } from "./enrollment/ca-bundle.ts";
export { type EnrollmentBody, type EnrollOptions, enroll, postEnrollment } from "./enrollment/enroll.ts";
export { type EnrollmentToken, verifyEnrollmentToken } from "./enrollment/enrollment-token.ts";
export type { EnrollmentTrust } from "./enrollment/pinned-request.ts";
export {
  AuthenticationError,
  ConnectionClosedError,
  ControllerError,
  DialError,
  EncryptionError,
  EnrollmentError,
  IdentityFileError,
  ListenError,
  RouterError,
  SdkError,
  ServiceError,
} from "./errors.ts";
export type { Hosted, HostOptions } from "./hosting/hosted.ts";
export { IncomingDial } from "./hosting/incoming-dial.ts";
export { type ListenOptions, ServiceListener } from "./hosting/service-listener.ts";
export { ServiceAgent } from "./http-agent.ts";
export type { IdentityFile } from "./identity-file.ts";
export {
  type ExternalSigner,
  enrollByToken,
  listExternalSigners,
  type TokenEnrollOptions,
} from "./login/external-tokens.ts";
export type { KeptSession, SessionStore } from "./login/kept-session.ts";
export type { ExternalTokenQuery, OneTimeCodeQuery } from "./login/second-factors.ts";
export type { Service } from "./service-directory.ts";
