import { randomBytes } from "node:crypto";
import type { Socket } from "node:net";
import { abortable, errorText } from "@sallyport/async";
import { HandshakeError, ProtocolError } from "../errors.ts";
import { HELLO_LIMITS, UNKNOWN_VERSION_RESPONSE } from "../frame/frame.ts";
import type { Headers } from "../frame/headers.ts";
import { boundedLog, type Logger } from "../log.ts";
import { type SharedPlace, SharedPlaces } from "../shared-places.ts";
import { SocketReader } from "../socket/socket-reader.ts";
import type { SecureSocket } from "../socket/stream-socket.ts";
import type { ChannelPort } from "../socket/tls-port.ts";
import { type Channel, type ChannelLimits, limitsOf } from "./channel.ts";
import { type ChannelGroup, decideGroup } from "./group.ts";
import { encodeResult, type Hello, helloOf, type ResultParts, readFirstFrame, resultHeadersFor } from "./hello.ts";
import { MessageChannel } from "./message-channel.ts";
import { type Peer, peerOf, remoteAddress } from "./peer.ts";

/** Default of the time that a connection may take for its hello. */
export const HELLO_TIMEOUT_MS = 5_000;
const MAX_HELLOS = 1_000;
/** How long the unknown-version response may take to leave. */
const LINGER_MS = 1_000;
const CONNECTION_ID_BYTES = 9;
const MAX_LABEL_ID = 64;

export interface AcceptOptions extends ChannelLimits {
  /** For logs and labels: `ctrl`, `link`, `edge`, … */
  readonly name: string;
  readonly protocols: readonly string[];
  readonly acceptsNoAlpn: boolean;
  /** Header 8 of every result: the id of this controller or router. */
  readonly id: string;
  /** Runs before the result, within the hello's time limit. What it throws closes the connection without a result. */
  authorize?(hello: Hello, peer: Peer): Promise<void>;
  resultHeaders?(hello: Hello, peer: Peer): Headers;
  /** Gets every new channel; set handlers before returning, reading starts then. A thrown error closes the channel. */
  onChannel(channel: Channel): void;
  /** Milliseconds for hello, authorization and result together; 5,000 when not given. */
  readonly helloTimeoutMs?: number;
  /**
   * Hellos in progress at a time, at most half of them from one address; 1,000 when not given. When full, a new connection displaces the oldest one
   * whose hello has not arrived. If all have arrived, the new connection is closed.
   */
  readonly maxHellos?: number;
  /** Grants grouped channels to peers that ask for one. */
  readonly grouped?: boolean;
  readonly log: Logger;
}

/**
 * Accepts channels on a shared TLS port (docs/protocol/channel.md, "Accepting").
 *
 * A connection without client certificate is closed; a first frame of another version gets the unknown-version
 * response; everything else that is wrong before the result closes the connection without an answer.
 * @returns stops accepting and ends hellos in progress; channels that were handed out stay
 */
export function acceptChannels(port: ChannelPort, options: AcceptOptions): () => void {
  const acceptor = new Acceptor(options);
  const unregister = port.register({
    name: options.name,
    protocols: options.protocols,
    acceptsNoAlpn: options.acceptsNoAlpn,
    onSocket: (socket) => acceptor.accept(socket),
  });
  return () => {
    unregister();
    acceptor.stop();
  };
}

class Acceptor {
  readonly #options: AcceptOptions;
  readonly #log: Logger;
  readonly #groups = new Map<string, ChannelGroup>();
  /** Hellos in progress. */
  readonly #exchanges = new Set<AbortController>();
  readonly #maxHellos: number;
  readonly #places: SharedPlaces;

  constructor(options: AcceptOptions) {
    this.#maxHellos = options.maxHellos ?? MAX_HELLOS;
    this.#places = new SharedPlaces({ places: this.#maxHellos, perAddress: Math.ceil(this.#maxHellos / 2) });
    // One for all channels: what peers make the log say is bounded however often they come.
    this.#log = boundedLog(options.log);
    this.#options = options;
  }

  stop(): void {
    for (const exchange of this.#exchanges) exchange.abort(new HandshakeError("STOPPED", "the listener was stopped"));
  }

  accept(socket: SecureSocket): void {
    const reader = new SocketReader();
    reader.useExisting(socket);
    const address = remoteAddress(socket);
    this.#exchange(socket, reader).catch((error: unknown) => {
      this.#logRefusal(address, error);
      if (error instanceof ProtocolError && error.code === "BAD_MAGIC") {
        socket.end(UNKNOWN_VERSION_RESPONSE, () => socket.destroy());
        setTimeout(() => socket.destroy(), LINGER_MS).unref();
      } else {
        socket.destroy();
      }
    });
  }

  async #exchange(socket: SecureSocket, reader: SocketReader): Promise<void> {
    const exchange = new AbortController();
    const place = this.#takePlace(socket, exchange);
    const timeoutMs = this.#options.helloTimeoutMs ?? HELLO_TIMEOUT_MS;
    const late = new HandshakeError("HELLO_TIMEOUT", `no complete hello within ${timeoutMs} ms`);
    const timer = setTimeout(() => exchange.abort(late), timeoutMs);
    this.#exchanges.add(exchange);
    try {
      const peer = peerOf(socket);
      if (peer.fingerprint === undefined) {
        throw new HandshakeError("NO_CLIENT_CERTIFICATE", "a channel needs a client certificate, none was presented");
      }
      const message = await readFirstFrame(reader, HELLO_LIMITS, exchange.signal);
      // The peer has done its part: what takes time from here on is ours.
      place.settle();
      const hello = helloOf(message);
      await this.#join(socket, reader, hello, message.sequence, peer, exchange.signal);
    } finally {
      clearTimeout(timer);
      place.release();
      this.#exchanges.delete(exchange);
    }
  }

  /** @throws HandshakeError `TOO_MANY_HELLOS` when no connection can give way; one that does fails with the same code */
  #takePlace(socket: SecureSocket, exchange: AbortController): SharedPlace {
    const tooMany = `${this.#maxHellos} connections, or ${Math.ceil(this.#maxHellos / 2)} of one address, are in their hello`;
    const place = this.#places.take(socket.remoteAddress ?? "", () =>
      exchange.abort(new HandshakeError("TOO_MANY_HELLOS", `${tooMany}; this one had not sent it for longest`)),
    );
    if (place === undefined) throw new HandshakeError("TOO_MANY_HELLOS", tooMany);
    return place;
  }

  async #join(
    socket: SecureSocket,
    reader: SocketReader,
    hello: Hello,
    sequence: number,
    peer: Peer,
    signal: AbortSignal,
  ): Promise<void> {
    const asked = this.#decide(hello, peer);
    if (asked.kind !== "join") await abortable(Promise.resolve(this.#options.authorize?.(hello, peer)), signal);
    if (socket.destroyed) throw new HandshakeError("CLOSED_BY_PEER", "the peer went away before it was answered");
    // Decided again: while this hello was authorized, another may have made or ended the group it names.
    const decision = this.#decide(hello, peer);
    if (decision.kind === "join") {
      const { channel, secret } = decision.group;
      const group = { type: decision.type, secret };
      socket.write(encodeResult(this.#result(hello, sequence, peer, channel.connectionId, group)));
      channel.addUnderlay(socket, reader, decision.type).start();
      this.#log.info({ channel: channel.label, underlay: decision.type }, "underlay joined");
      return;
    }
    const isGrouped = decision.kind === "first";
    const connectionId = (isGrouped ? decision.connectionId : undefined) ?? newConnectionId();
    const type = isGrouped ? decision.type : "";
    const group = isGrouped ? { type, secret: decision.secret } : undefined;
    const result = this.#result(hello, sequence, peer, connectionId, group);
    const channel = new MessageChannel({
      label: `${this.#options.name}[${hello.idToken.slice(0, MAX_LABEL_ID)} ${peer.address}]`,
      peer,
      remoteId: hello.idToken,
      hello,
      result,
      connectionId,
      isGrouped,
      ...limitsOf(this.#options),
      log: this.#log,
    });
    const underlay = channel.addUnderlay(socket, reader, type);
    if (isGrouped) {
      this.#groups.set(connectionId, { channel, secret: decision.secret, fingerprint: peer.fingerprint });
      channel.onClose(() => this.#groups.delete(connectionId));
    }
    socket.write(encodeResult(result));
    try {
      this.#options.onChannel(channel);
    } catch (error) {
      this.#log.error({ channel: channel.label, err: error }, "a new channel could not be taken over");
      channel.close(error instanceof Error ? error : undefined);
      return;
    }
    underlay.start();
  }

  #decide(hello: Hello, peer: Peer) {
    return this.#options.grouped === true
      ? decideGroup(hello, peer.fingerprint, this.#groups)
      : ({ kind: "single" } as const);
  }

  #result(hello: Hello, sequence: number, peer: Peer, connectionId: string, group: ResultParts["group"]): Headers {
    const extra = this.#options.resultHeaders?.(hello, peer);
    return resultHeadersFor(hello, sequence, { connectionId, id: this.#options.id, group, extra });
  }

  #logRefusal(address: string, error: unknown): void {
    const code = error instanceof Error && "code" in error ? error.code : undefined;
    const fields = { listener: this.#options.name, peer: address, code, reason: errorText(error) };
    this.#log.info(fields, "connection refused");
  }
}

/** Opaque, unique in this process and beyond. */
function newConnectionId(): string {
  return randomBytes(CONNECTION_ID_BYTES).toString("base64url").replaceAll(/[-_]/g, "0");
}

export interface AcceptOnOptions {
  /** For logs and the label. */
  readonly name: string;
  /** Header 8 of the result. */
  readonly id: string;
  /** Bytes of the connection that were read already. */
  readonly early: Buffer;
  readonly helloTimeoutMs: number;
  /** Gets the channel; set handlers before returning, reading starts then. */
  onChannel(channel: Channel): void;
  readonly log: Logger;
}

/** Requests of local tools are small. */
const MAX_BODY = 1024 * 1024;

/**
 * Accepts a channel on a connection that exists and is trusted by other means than a certificate: a local tool on a
 * Unix socket (docs/protocol/channel.md, "Accepting"). No other listener may take the socket's data from now on.
 *
 * @throws ProtocolError, HandshakeError or ChannelClosedError when there is no hello; the socket is left to the caller
 */
export async function acceptOn(socket: Socket, o: AcceptOnOptions): Promise<void> {
  const reader = new SocketReader();
  reader.useExisting(socket, "data");
  reader.hold(Buffer.from(o.early));
  socket.setTimeout(0);
  const late = new AbortController();
  const timer = setTimeout(() => {
    late.abort(new HandshakeError("HELLO_TIMEOUT", `no complete hello within ${o.helloTimeoutMs} ms`));
  }, o.helloTimeoutMs);
  try {
    const message = await readFirstFrame(reader, HELLO_LIMITS, late.signal);
    const hello = helloOf(message);
    const connectionId = randomBytes(CONNECTION_ID_BYTES).toString("hex");
    const result = resultHeadersFor(hello, message.sequence, { connectionId, id: o.id });
    const channel = new MessageChannel({
      label: `${o.name}[${hello.idToken.slice(0, MAX_LABEL_ID)}]`,
      peer: { address: "local", certificates: [] },
      remoteId: hello.idToken,
      hello,
      result,
      connectionId,
      isGrouped: false,
      ...limitsOf({ maxBody: MAX_BODY }),
      log: o.log,
    });
    const underlay = channel.addUnderlay(socket, reader, "");
    socket.write(encodeResult(result));
    o.onChannel(channel);
    underlay.start();
  } finally {
    clearTimeout(timer);
  }
}
