import { randomBytes } from "node:crypto";
import { abortable, errorText } from "@sallyport/async";
import { boundedLog } from "../bounded-log.ts";
import { HandshakeError, ProtocolError } from "../errors.ts";
import { readFirstFrame } from "../frame/first-frame.ts";
import { HELLO_LIMITS, UNKNOWN_VERSION_RESPONSE } from "../frame/frame.ts";
import type { Headers } from "../frame/headers.ts";
import type { Logger } from "../log.ts";
import { type SharedPlace, SharedPlaces } from "../shared-places.ts";
import { SocketReader } from "../socket/socket-reader.ts";
import type { SecureSocket } from "../socket/stream-socket.ts";
import type { ChannelPort } from "../socket/tls-port.ts";
import type { Channel, ChannelLimits } from "./channel.ts";
import { limitsOf } from "./channel-parts.ts";
import { decideGroup, type Group } from "./group.ts";
import { encodeResult, type Hello, helloOf, resultHeadersFor } from "./hello.ts";
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
  /** Further headers for the result. */
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
  readonly #groups = new Map<string, Group>();
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
    for (const exchange of this.#exchanges) {
      exchange.abort(new HandshakeError("STOPPED", "the listener was stopped"));
    }
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

  /** @throws HandshakeError `TOO_MANY_HELLOS` when nobody can give way; who does fails with the same code */
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
    if (asked.kind !== "join") {
      await abortable(Promise.resolve(this.#options.authorize?.(hello, peer)), signal);
    }
    if (socket.destroyed) {
      throw new HandshakeError("CLOSED_BY_PEER", "the peer went away before it was answered");
    }
    // Decided again: while this hello was authorized, another may have made or ended the group it names.
    const decision = this.#decide(hello, peer);
    if (decision.kind === "join") {
      const { channel, secret } = decision.group;
      const group = { type: decision.type, secret };
      this.#answer(
        socket,
        resultHeadersFor(hello, sequence, this.#resultParts(channel.connectionId, hello, peer, group)),
      );
      channel.addUnderlay(socket, reader, decision.type).start();
      this.#log.info({ channel: channel.label, underlay: decision.type }, "underlay joined");
      return;
    }
    const isGrouped = decision.kind === "first";
    const connectionId = (isGrouped ? decision.connectionId : undefined) ?? newConnectionId();
    const type = isGrouped ? decision.type : "";
    const group = isGrouped ? { type, secret: decision.secret } : undefined;
    const result = resultHeadersFor(hello, sequence, this.#resultParts(connectionId, hello, peer, group));
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
    this.#answer(socket, result);
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

  #resultParts(connectionId: string, hello: Hello, peer: Peer, group: { type: string; secret: Buffer } | undefined) {
    const extra = this.#options.resultHeaders?.(hello, peer);
    return {
      connectionId,
      id: this.#options.id,
      ...(group === undefined ? {} : { group }),
      ...(extra === undefined ? {} : { extra }),
    };
  }

  #answer(socket: SecureSocket, result: Headers): void {
    socket.write(encodeResult(result));
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
