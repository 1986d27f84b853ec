import { BaseHeader, BaseType, ReflectedHeaders } from "../catalogue/base.ts";
import { ChannelClosedError, ProtocolError, WireError } from "../errors.ts";
import { DEFAULT_LIMITS, type FrameLimits, type FrameView } from "../frame/frame.ts";
import { Headers, scanHeaderBlock } from "../frame/headers.ts";
import { frameLengthOf, type Message, messageOf, type Outgoing, writeMessage } from "../frame/message.ts";
import { boundedLog, type Logger } from "../log.ts";
import type { OutputLimits } from "../socket/slab-output.ts";
import type { SocketReader } from "../socket/socket-reader.ts";
import { SocketUnderlay, type UnderlayOwner } from "../socket/socket-underlay.ts";
import type { StreamSocket } from "../socket/stream-socket.ts";
import type {
  Channel,
  ChannelParts,
  HeartbeatOptions,
  MessageHandler,
  ObservedMessage,
  RequestOptions,
  Underlay,
} from "./channel.ts";
import { Heartbeats } from "./heartbeat.ts";
import type { Hello } from "./hello.ts";
import type { Peer } from "./peer.ts";
import { Requests } from "./requests.ts";

/** Unknown content types are logged once each, and no more than this many of them. */
const MAX_LOGGED_TYPES = 32;
const NO_REPLY = -1;
const NO_BODY = new Uint8Array(0);

/**
 * A channel over one or several connections: sequence numbers, dispatch, requests and replies, liveness and the end
 * (docs/protocol/channel.md). Frames reach `onFrame` before anything is allocated; all else happens per message.
 */
export class MessageChannel implements Channel, UnderlayOwner {
  readonly label: string;
  readonly peer: Peer;
  readonly remoteId: string;
  readonly hello: Hello;
  readonly result: Headers;
  readonly connectionId: string;
  readonly isGrouped: boolean;
  readonly limits: FrameLimits;
  readonly outputLimits: OutputLimits;
  readonly closed: Promise<Error | undefined>;
  onFrame?: ((frame: FrameView, underlay: Underlay) => boolean) | undefined;
  observer?: ((message: ObservedMessage) => void) | undefined;
  readonly #log: Logger;
  readonly #underlays: SocketUnderlay[] = [];
  readonly #handlers = new Map<number, MessageHandler>();
  readonly #requests = new Requests();
  readonly #loggedTypes = new Set<number>();
  readonly #closeCallbacks: ((reason?: Error) => void)[] = [];
  readonly #resolveClosed: (reason: Error | undefined) => void;
  #otherHandler: MessageHandler | undefined;
  #heartbeats: Heartbeats | undefined;
  #defaultType: string | undefined;
  #sequence = 0;
  #isClosed = false;
  #reason: Error | undefined;

  constructor(parts: ChannelParts) {
    this.label = parts.label;
    this.peer = parts.peer;
    this.remoteId = parts.remoteId;
    this.hello = parts.hello;
    this.result = parts.result;
    this.connectionId = parts.connectionId;
    this.isGrouped = parts.isGrouped;
    this.limits = parts.limits;
    this.outputLimits = parts.outputLimits;
    this.#log = boundedLog(parts.log);
    const { promise, resolve } = Promise.withResolvers<Error | undefined>();
    this.closed = promise;
    this.#resolveClosed = resolve;
    this.#handlers.set(BaseType.Ping, (message) => this.replyResult(message, true));
    this.#handlers.set(BaseType.Latency, (message) => this.replyResult(message, true));
    for (const silent of [BaseType.Heartbeat, BaseType.LatencyResponse, BaseType.ReconnectPing]) {
      this.#handlers.set(silent, () => {});
    }
  }

  get channel(): Channel {
    return this;
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  get underlays(): readonly Underlay[] {
    return this.#underlays;
  }

  /** Adds a connection whose hello was exchanged. The type of the first one is the channel's default type. */
  addUnderlay(socket: StreamSocket, reader: SocketReader, type: string): SocketUnderlay {
    const underlay = new SocketUnderlay(socket, reader, type, this);
    if (this.#isClosed) {
      underlay.close(this.#closedError());
      return underlay;
    }
    this.#defaultType ??= type;
    this.#underlays.push(underlay);
    return underlay;
  }

  onClose(cb: (reason?: Error) => void): void {
    if (this.#isClosed) {
      this.#runCloseCallback(cb);
    } else {
      this.#closeCallbacks.push(cb);
    }
  }

  send(out: Outgoing, via?: Underlay): void {
    this.#write(out, this.nextSequence(), via);
  }

  request(out: Outgoing, options?: RequestOptions): Promise<Message> {
    const sequence = this.nextSequence();
    return this.#requests.wait(sequence, `message type ${out.contentType} on ${this.label}`, options, () =>
      this.#write(out, sequence, options?.via),
    );
  }

  reply(to: Message, out: Outgoing, via?: Underlay): void {
    const headers = out.headers?.clone() ?? new Headers();
    for (const [key, value] of to.headers.entries()) {
      if (key >= ReflectedHeaders.first && key <= ReflectedHeaders.last) headers.set(key, value);
    }
    headers.setI32(BaseHeader.ReplyFor, to.sequence);
    this.send({ ...out, headers }, via);
  }

  replyResult(to: Message, ok: boolean, text = ""): void {
    this.reply(to, {
      contentType: BaseType.Result,
      headers: new Headers().setI32(BaseHeader.ReplyFor, to.sequence).setBool(BaseHeader.ResultSuccess, ok),
      body: Buffer.from(text, "utf8"),
    });
  }

  handle(contentType: number, handler: MessageHandler): void {
    this.#handlers.set(contentType, handler);
  }

  handleOther(handler: MessageHandler): void {
    this.#otherHandler = handler;
  }

  underlayFor(key: number, type = this.#defaultType): Underlay {
    const candidates = this.#underlays.filter((underlay) => underlay.type === type);
    const chosen = candidates[Math.abs(key) % candidates.length] ?? this.#underlays[0];
    if (chosen === undefined) throw this.#closedError();
    return chosen;
  }

  get queuedBytes(): number {
    return this.#underlays.reduce((sum, underlay) => sum + underlay.output.pending, 0);
  }

  get isFull(): boolean {
    return this.#defaults().every((underlay) => underlay.output.isFull);
  }

  onDrain(cb: () => void): void {
    const defaults = this.#defaults();
    if (defaults.length === 0 || !this.isFull) {
      queueMicrotask(cb);
      return;
    }
    let called = false;
    for (const underlay of defaults) {
      underlay.output.onDrain(() => {
        if (!called) {
          called = true;
          cb();
        }
      });
    }
  }

  close(reason?: Error): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#reason = reason;
    this.#heartbeats?.stop();
    for (const underlay of this.#underlays.splice(0)) {
      underlay.close(reason instanceof ProtocolError ? reason : undefined);
    }
    this.#requests.failAll(this.#closedError());
    this.#resolveClosed(reason);
    for (const cb of this.#closeCallbacks.splice(0)) this.#runCloseCallback(cb);
  }

  enableHeartbeats(options: HeartbeatOptions): void {
    this.#heartbeats?.stop();
    if (!this.#isClosed) this.#heartbeats = new Heartbeats(options, this);
  }

  async probe(timeoutMs: number): Promise<boolean> {
    return (await this.#heartbeats?.probe(timeoutMs)) ?? false;
  }

  get latencyMs(): number | undefined {
    return this.#heartbeats?.latencyMs;
  }

  /** One counter for all connections, from 1; -1 is skipped because it means "no sequence" in replies. */
  nextSequence(): number {
    this.#sequence = (this.#sequence + 1) | 0;
    if (this.#sequence === NO_REPLY) this.#sequence = 0;
    return this.#sequence;
  }

  frameArrived(frame: FrameView, underlay: SocketUnderlay): void {
    frame.carriesHeartbeat = scanHeaderBlock(frame.buffer, frame.headersStart, frame.headersEnd);
    if (frame.carriesHeartbeat) this.#heartbeats?.received(frame, underlay);
    if (this.onFrame !== undefined && this.#consumed(this.onFrame, frame, underlay)) return;
    this.#dispatch(messageOf(frame));
  }

  underlayClosed(underlay: SocketUnderlay, reason: Error | undefined): void {
    const at = this.#underlays.indexOf(underlay);
    if (at >= 0) this.#underlays.splice(at, 1);
    if (this.#isClosed) return;
    const heir = this.#defaults().find((candidate) => !candidate.isClosed);
    if (heir === undefined) {
      this.#logEnd(reason);
      this.close(reason);
      return;
    }
    this.#log.info({ channel: this.label, underlay: underlay.type, reason: reason?.message }, "underlay lost");
    this.#heartbeats?.askAgain();
    const unsent = underlay.output.takeUnsent();
    if (unsent.length > 0) this.#inherit(heir, unsent);
  }

  #inherit(heir: SocketUnderlay, unsent: Buffer): void {
    try {
      const offset = heir.output.reserve(unsent.length);
      unsent.copy(heir.output.slab, offset);
    } catch (error) {
      // Too much for the heir as well, which closed for that; no caller could act on it.
      if (!(error instanceof ChannelClosedError)) throw error;
    }
  }

  #defaults(): SocketUnderlay[] {
    return this.#underlays.filter((underlay) => underlay.type === this.#defaultType);
  }

  #logEnd(reason: Error | undefined): void {
    const fields = { channel: this.label, reason: reason?.message };
    if (reason instanceof ProtocolError) {
      this.#log.warn({ ...fields, code: reason.code }, "channel closed: the peer broke the protocol");
    } else {
      this.#log.debug(fields, "channel closed");
    }
  }

  #write(out: Outgoing, sequence: number, via?: Underlay): void {
    this.#assertAcceptable(out);
    const underlay = via ?? this.#defaults()[0];
    if (this.#isClosed || underlay === undefined) throw this.#closedError();
    const { output } = underlay;
    const offset = output.reserve(frameLengthOf(out));
    writeMessage(output.slab, offset, out, sequence);
    if (this.observer === undefined) return;
    const replyFor = out.headers?.getI32(BaseHeader.ReplyFor) ?? NO_REPLY;
    const { contentType, headers, body = NO_BODY } = out;
    this.observer({ isReceived: false, contentType, sequence, replyFor, length: body.length, headers, body });
  }

  /** Larger header blocks end the whole channel at the other end: such a message is refused where only its sender fails. */
  #assertAcceptable({ contentType, headers }: Outgoing): void {
    const length = headers?.byteLength ?? 0;
    if (length <= DEFAULT_LIMITS.maxHeaders) return;
    throw new WireError(
      "MESSAGE_TOO_LARGE",
      `a message of type ${contentType} has ${length} bytes of headers, at most ${DEFAULT_LIMITS.maxHeaders} can be sent`,
    );
  }

  #closedError(): ChannelClosedError {
    const why = this.#reason === undefined ? "" : `: ${this.#reason.message}`;
    return new ChannelClosedError(`${this.label} is closed${why}`, "CHANNEL_CLOSED", { cause: this.#reason });
  }

  #consumed(
    onFrame: (frame: FrameView, underlay: Underlay) => boolean,
    frame: FrameView,
    underlay: SocketUnderlay,
  ): boolean {
    try {
      return onFrame(frame, underlay);
    } catch (error) {
      if (error instanceof ProtocolError) throw error;
      this.#handlerFailed(frame.contentType, error);
      return true;
    }
  }

  #dispatch(message: Message): void {
    if (this.observer !== undefined) {
      const { contentType, sequence, replyFor = NO_REPLY, headers, body } = message;
      this.observer({ isReceived: true, contentType, sequence, replyFor, length: body.length, headers, body });
    }
    if (this.#requests.settle(message)) return;
    const handler = this.#handlers.get(message.contentType) ?? this.#otherHandler;
    if (handler !== undefined) {
      this.#run(handler, message);
    } else if (message.contentType === BaseType.Result) {
      this.#log.debug({ channel: this.label, replyFor: message.replyFor }, "dropped a reply that no request waits for");
    } else {
      this.#unknown(message);
    }
  }

  #run(handler: MessageHandler, message: Message): void {
    try {
      const pending = handler(message, this);
      if (pending instanceof Promise) {
        pending.catch((error: unknown) => this.#handlerFailed(message.contentType, error));
      }
    } catch (error) {
      this.#handlerFailed(message.contentType, error);
    }
  }

  /** A reply that finds the channel closed is no fault of the handler. */
  #handlerFailed(contentType: number, error: unknown): void {
    const fields = { channel: this.label, contentType, err: error };
    if (error instanceof ChannelClosedError) {
      this.#log.debug(fields, "the channel closed while a message was handled");
    } else {
      this.#log.error(fields, "handling a message failed");
    }
  }

  #unknown(message: Message): void {
    if (this.#loggedTypes.has(message.contentType) || this.#loggedTypes.size >= MAX_LOGGED_TYPES) return;
    this.#loggedTypes.add(message.contentType);
    this.#log.info(
      { channel: this.label, contentType: message.contentType },
      "messages of an unknown content type are dropped",
    );
  }

  #runCloseCallback(cb: (reason?: Error) => void): void {
    try {
      cb(this.#reason);
    } catch (error) {
      this.#log.error({ channel: this.label, err: error }, "a close callback failed");
    }
  }
}
