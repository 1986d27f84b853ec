import type { X509Certificate } from "node:crypto";
import { once } from "node:events";
import { isIP, type Socket } from "node:net";
import { type ConnectionOptions, connect, type TLSSocket } from "node:tls";
import { abortable, type CertificateDates, presentedCertificate, tlsErrorText } from "@sallyport/async";
import { parseAddress } from "../address.ts";
import { BaseHeader } from "../catalogue/base.ts";
import { ChannelClosedError, HandshakeError, ProtocolError, WireError } from "../errors.ts";
import { DEFAULT_LIMITS, HELLO_LIMITS } from "../frame/frame.ts";
import { Headers } from "../frame/headers.ts";
import { commonName, fingerprint } from "../identity/certificates.ts";
import { controllerCheck } from "../identity/controller-id.ts";
import type { Identity } from "../identity/identity.ts";
import { type Logger, silentLogger } from "../log.ts";
import { connectThroughProxy, type HttpProxy } from "../socket/http-proxy.ts";
import { SocketReader } from "../socket/socket-reader.ts";
import { type Channel, type ChannelLimits, limitsOf } from "./channel.ts";
import { encodeHello, type Hello, readFirstFrame, resultOf } from "./hello.ts";
import { MessageChannel } from "./message-channel.ts";
import { peerOf } from "./peer.ts";

const DIAL_TIMEOUT_MS = 15_000;
const KEEP_ALIVE_MS = 15_000;

export interface ChannelDialOptions extends ChannelLimits {
  /** `tls:host:port` */
  readonly address: string;
  readonly identity: Identity;
  /** Whether the listener must be a controller, as far as its certificate says what it is. */
  readonly isToController?: boolean;
  /**
   * The listener must present this certificate, in place of one that leads to the anchors. Nothing else of it is looked at, such as its dates: both sides know it
   * from the same source.
   */
  readonly peerFingerprint?: string;
  /** The one ALPN name to offer; none when not given. */
  readonly alpn?: string;
  readonly hello: { readonly idToken: string; readonly headers?: Headers };
  /** Milliseconds for connecting, TLS and hello together; 15,000 when not given. */
  readonly timeoutMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Local IP to connect from. */
  readonly localAddress?: string;
  readonly proxy?: HttpProxy;
  readonly log?: Logger;
}

/** What joining a group needs to know of the dial that made it. */
interface GroupMembership {
  readonly options: ChannelDialOptions;
  readonly channel: MessageChannel;
  readonly secret: Buffer;
}

const memberships = new WeakMap<Channel, GroupMembership>();

/**
 * Connects, exchanges hello and result, and gives a channel (docs/protocol/channel.md, "Dialling"). Reading starts in the
 * next turn of the event loop, so that handlers set right after the `await` miss nothing.
 *
 * The listener must present a certificate for the dialled host that leads to the identity's anchors. Which controller
 * or router it is says `remoteId`; compare it when it matters.
 * @throws HandshakeError `DIAL_FAILED` or `DIAL_TIMEOUT`, ProtocolError when the answer is none or a refusal, AddressError,
 * or the signal's reason
 */
export async function dialChannel(options: ChannelDialOptions): Promise<Channel> {
  const hello: Hello = {
    idToken: options.hello.idToken,
    headers: options.hello.headers?.clone() ?? new Headers(),
  };
  const { socket, reader, result } = await exchange(options, hello);
  const isGrouped = [hello.headers, result].every((headers) => headers.getBool(BaseHeader.IsGrouped) === true);
  const secret = result.get(BaseHeader.GroupSecret);
  if (isGrouped && (secret === undefined || secret.length === 0)) {
    socket.destroy();
    throw new ProtocolError("NO_GROUP_SECRET", "the listener granted a grouped channel without a group secret");
  }
  const peer = peerOf(socket);
  const [leaf] = peer.certificates;
  const remoteId = result.getString(BaseHeader.Id) ?? (leaf && commonName(leaf)) ?? "";
  const own = hello.headers.getString(BaseHeader.ConnectionId);
  const channel = new MessageChannel({
    label: `${options.alpn ?? "channel"}[${remoteId} ${peer.address}]`,
    peer,
    remoteId,
    hello,
    result,
    connectionId: (own === "" ? undefined : own) ?? result.getString(BaseHeader.ConnectionId) ?? "",
    isGrouped,
    ...limitsOf(options),
    log: options.log ?? silentLogger,
  });
  const type = isGrouped ? (hello.headers.getString(BaseHeader.Type) ?? "") : "";
  const underlay = channel.addUnderlay(socket, reader, type);
  if (isGrouped && secret !== undefined) memberships.set(channel, { options, channel, secret });
  setImmediate(() => underlay.start());
  return channel;
}

export interface DialUnderlayOptions {
  /** `edge.control`, `link.ack`, … */
  readonly type: string;
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

/**
 * Adds a connection to a grouped channel that `dialChannel` made, to the same address with the same identity. The listener's
 * certificate must have the same name as the first connection's: the listener gets the group's secret.
 * @throws HandshakeError `NOT_GROUPED` or `WRONG_PEER`, and as `dialChannel`
 */
export async function dialUnderlay(channel: Channel, options: DialUnderlayOptions): Promise<void> {
  const membership = memberships.get(channel);
  if (membership === undefined) {
    throw new HandshakeError("NOT_GROUPED", `${channel.label} is not a grouped channel that was dialled here`);
  }
  const headers = channel.hello.headers
    .clone()
    .setString(BaseHeader.ConnectionId, channel.connectionId)
    .setString(BaseHeader.Type, options.type)
    .setBool(BaseHeader.IsGrouped, true)
    .set(BaseHeader.GroupSecret, membership.secret);
  headers.delete(BaseHeader.IsFirstGroupConnection);
  const { timeoutMs = membership.options.timeoutMs, signal } = options;
  const { socket, reader } = await exchange(
    { ...membership.options, timeoutMs, signal },
    { idToken: channel.hello.idToken, headers },
    channel.peer.certificates[0],
  );
  if (channel.isClosed) {
    socket.destroy();
    throw new ChannelClosedError(`${channel.label} closed while a connection was added to it`);
  }
  membership.channel.addUnderlay(socket, reader, options.type).start();
}

interface HelloExchange {
  readonly socket: TLSSocket;
  readonly reader: SocketReader;
  readonly result: Headers;
}

/** @param expected a certificate of the listener that has to answer; the name counts, since certificates are renewed */
async function exchange(options: ChannelDialOptions, hello: Hello, expected?: X509Certificate): Promise<HelloExchange> {
  const timeoutMs = options.timeoutMs ?? DIAL_TIMEOUT_MS;
  const deadline = new AbortController();
  const timer = setTimeout(
    () =>
      deadline.abort(new HandshakeError("DIAL_TIMEOUT", `${options.address} did not answer within ${timeoutMs} ms`)),
    timeoutMs,
  );
  const signal = options.signal ? AbortSignal.any([deadline.signal, options.signal]) : deadline.signal;
  const reader = new SocketReader();
  let socket: TLSSocket | undefined;
  try {
    socket = await openSocket(options, reader, signal);
    await connected(socket, options.address, signal);
    if (options.proxy !== undefined) reader.useExisting(socket);
    if (expected !== undefined) assertNamedAs(expected, socket, options.address);
    if (options.peerFingerprint !== undefined) assertPresented(options.peerFingerprint, socket, options.address);
    socket.write(encodeHello(hello));
    return { socket, reader, result: resultOf(await readFirstFrame(reader, HELLO_REPLY_LIMITS, signal)) };
  } catch (error) {
    socket?.destroy();
    if (signal.aborted || error instanceof WireError) throw error;
    throw dialFailed(options.address, error);
  } finally {
    clearTimeout(timer);
  }
}

function assertNamedAs(expected: X509Certificate, socket: TLSSocket, address: string): void {
  const wanted = commonName(expected);
  const leaf = socket.getPeerX509Certificate();
  const name = leaf === undefined ? undefined : commonName(leaf);
  if (name === wanted) return;
  throw new HandshakeError(
    "WRONG_PEER",
    `expected ${wanted ?? "a certificate without a name"} at ${address}, where the group began; got ${name ?? "no certificate"}`,
  );
}

function assertPresented(wanted: string, socket: TLSSocket, address: string): void {
  const leaf = socket.getPeerX509Certificate();
  const found = leaf === undefined ? "none" : fingerprint(leaf);
  if (found === wanted) return;
  throw new HandshakeError("WRONG_PEER", `expected the certificate ${wanted} at ${address}, found ${found}`);
}

/** Results carry more than hellos do: a controller lists its API addresses in one. */
const HELLO_REPLY_LIMITS = { maxHeaders: DEFAULT_LIMITS.maxHeaders, maxBody: HELLO_LIMITS.maxBody };

async function openSocket(options: ChannelDialOptions, reader: SocketReader, signal: AbortSignal): Promise<TLSSocket> {
  const { protocol, host, port } = parseAddress(options.address);
  if (protocol !== "tls") {
    throw new HandshakeError(
      "PROTOCOL_UNSUPPORTED",
      `cannot dial ${options.address}: only tls addresses are supported`,
    );
  }
  const { proxy, localAddress } = options;
  const security: ConnectionOptions = {
    // Also of a connection that is there already: whose certificate is asked for.
    host,
    secureContext: options.identity.clientContext(),
    servername: isIP(host) === 0 ? host : "",
    ...(options.peerFingerprint === undefined ? {} : { rejectUnauthorized: false }),
    ...(options.isToController ? { checkServerIdentity: controllerCheck(options.identity.anchors) } : {}),
    ...(options.alpn === undefined ? {} : { ALPNProtocols: [options.alpn] }),
  };
  if (proxy !== undefined) {
    const tunnel = await connectThroughProxy(proxy, { host, port }, { signal, localAddress });
    return connect({ ...security, socket: withKeepAlive(tunnel) });
  }
  const direct = { ...security, localAddress, port, onread: reader.onread };
  const socket = connect(direct);
  reader.useDialled(socket);
  return withKeepAlive(socket);
}

function withKeepAlive<S extends Socket>(socket: S): S {
  socket.setNoDelay(true);
  socket.setKeepAlive(true, KEEP_ALIVE_MS);
  return socket;
}

async function connected(socket: TLSSocket, address: string, signal: AbortSignal): Promise<void> {
  const settled = new AbortController();
  const presented = presentedCertificate(socket);
  // Listens for errors, too, until the end of this function: the caller's reader takes over before the next event.
  const closed = once(socket, "close", { signal: settled.signal }).then(() => {
    throw new Error("the connection was closed during the handshake");
  });
  const secured = Promise.race([once(socket, "secureConnect", { signal: settled.signal }), closed]);
  try {
    await abortable(
      secured.catch((error: unknown) => Promise.reject(dialFailed(address, error, presented()))),
      signal,
    );
  } finally {
    settled.abort();
  }
}

function dialFailed(address: string, error: unknown, presented?: CertificateDates): HandshakeError {
  const reason = tlsErrorText(error, presented);
  return new HandshakeError("DIAL_FAILED", `cannot connect to ${address}: ${reason}`, { cause: error });
}
