import { errorText } from "@sallyport/async";
import {
  BaseHeader,
  BaseType,
  encodeMessage,
  FrameParser,
  Headers,
  type Logger,
  type Message,
  messageOf,
  type Outgoing,
  ProtocolError,
  ReflectedHeaders,
} from "@sallyport/wire";
import type { WebSocket } from "ws";
import type { UpgradedBy } from "../http/upgrade.ts";

/** What a handler throws is logged; its request stays without an answer. */
export type ManagementHandler = (message: Message, channel: WebSocketChannel) => void | Promise<void>;

export interface WebSocketChannelOptions {
  readonly socket: WebSocket;
  /** For the log. */
  readonly label: string;
  /** Largest message that is taken, in bytes. */
  readonly maxMessage: number;
  readonly within: UpgradedBy["within"];
  readonly log: Logger;
}

/** Requests worked on at once; until one is done no more is read. */
const AT_ONCE = 16;
/** Bytes that may wait for the peer before a sender that can wait does so. */
const HIGH_WATER = 1024 * 1024;
const PING_MS = 20_000;
/** A client that answers no ping and takes no bytes for this long is gone. */
const SILENCE_MS = 60_000;
const PROTOCOL_ERROR = 1002;
const GOING_AWAY = 1001;

/** A channel on a WebSocket: each binary message is one frame, and there is no hello. Source: docs/protocol/management.md. */
export class WebSocketChannel {
  readonly label: string;
  /** Does the work of a request that may write: before the answer to it, other controllers know what it has written. */
  readonly within: UpgradedBy["within"];
  readonly #socket: WebSocket;
  readonly #log: Logger;
  readonly #handlers = new Map<number, ManagementHandler>();
  readonly #closeCallbacks: (() => void)[] = [];
  readonly #waiting: (() => void)[] = [];
  readonly #ping: NodeJS.Timeout;
  readonly #frames: FrameParser;
  #arrived: Message[] = [];
  #sequence = 0;
  #running = 0;
  #lastSign = performance.now();
  #isClosed = false;

  constructor({ socket, label, maxMessage, within, log }: WebSocketChannelOptions) {
    this.label = label;
    this.within = within;
    this.#socket = socket;
    this.#log = log;
    this.#frames = new FrameParser({ maxHeaders: 65_536, maxBody: maxMessage }, (frame) =>
      this.#arrived.push(messageOf(frame)),
    );
    this.#handlers.set(BaseType.Ping, (message) => this.replyResult(message, true));
    this.#handlers.set(BaseType.Latency, (message) => this.replyResult(message, true));
    for (const silent of [BaseType.Result, BaseType.Heartbeat, BaseType.LatencyResponse, BaseType.ReconnectPing]) {
      this.#handlers.set(silent, () => {});
    }
    socket.binaryType = "nodebuffer";
    socket.on("message", (data, isBinary) => this.#message(data as Buffer, isBinary));
    socket.on("pong", () => {
      this.#lastSign = performance.now();
    });
    socket.on("error", (err) => log.info({ channel: label, reason: err.message }, "a management channel failed"));
    socket.on("close", () => this.#closed());
    this.#ping = setInterval(() => this.#checkPeer(), PING_MS).unref();
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** Bytes that the peer has not taken yet. */
  get bufferedBytes(): number {
    return this.#socket.bufferedAmount;
  }

  /** Takes messages of one content type. */
  handle(contentType: number, handler: ManagementHandler): void {
    this.#handlers.set(contentType, handler);
  }

  onClose(callback: () => void): void {
    if (this.#isClosed) callback();
    else this.#closeCallbacks.push(callback);
  }

  /** Sends now, whatever waits already. Without effect on a closed channel. */
  send(out: Outgoing): void {
    if (this.#isClosed || this.#socket.readyState !== this.#socket.OPEN) return;
    this.#sequence = (this.#sequence + 1) & 0x7fffffff;
    this.#socket.send(encodeMessage(out, this.#sequence), { binary: true }, () => this.#written());
  }

  /** Sends once the peer has taken most of what waits. Resolves when it is sent, or the channel is closed. */
  async deliver(out: Outgoing): Promise<void> {
    while (!this.#isClosed && this.bufferedBytes > HIGH_WATER) {
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
    this.send(out);
  }

  reply(to: Message, out: Outgoing): void {
    const headers = out.headers?.clone() ?? new Headers();
    for (const [key, value] of to.headers.entries()) {
      if (key >= ReflectedHeaders.first && key <= ReflectedHeaders.last) headers.set(key, value);
    }
    headers.setI32(BaseHeader.ReplyFor, to.sequence);
    this.send({ ...out, headers });
  }

  replyResult(to: Message, ok: boolean, text = ""): void {
    const headers = new Headers().setBool(BaseHeader.ResultSuccess, ok);
    this.reply(to, { contentType: BaseType.Result, headers, body: Buffer.from(text, "utf8") });
  }

  close(reason: string, code = GOING_AWAY): void {
    if (this.#isClosed) return;
    this.#log.info({ channel: this.label, reason }, "management channel closed");
    this.#socket.close(code, reason.slice(0, 100));
    // The controller does not wait for a client that takes no part in the closing.
    const timer = setTimeout(() => this.#socket.terminate(), 1_000);
    this.onClose(() => clearTimeout(timer));
  }

  #message(data: Buffer, isBinary: boolean): void {
    this.#lastSign = performance.now();
    if (!isBinary) {
      this.close("text messages have no meaning here", PROTOCOL_ERROR);
      return;
    }
    try {
      this.#arrived = [];
      this.#frames.push(data);
      if (this.#arrived.length !== 1 || this.#frames.bufferedBytes > 0) {
        throw new ProtocolError("BAD_FRAME", "expected one whole frame in each message");
      }
    } catch (error) {
      this.close(errorText(error), PROTOCOL_ERROR);
      return;
    }
    for (const message of this.#arrived) this.#dispatch(message);
  }

  #dispatch(message: Message): void {
    const handler = this.#handlers.get(message.contentType);
    if (handler === undefined) {
      const text = `this controller has no requests of type ${message.contentType}`;
      this.#log.info({ channel: this.label, contentType: message.contentType }, "an unknown request was refused");
      this.replyResult(message, false, text);
      return;
    }
    this.#running += 1;
    if (this.#running >= AT_ONCE) this.#socket.pause();
    void this.#run(handler, message).finally(() => {
      this.#running -= 1;
      if (this.#running < AT_ONCE && this.#socket.isPaused) this.#socket.resume();
    });
  }

  async #run(handler: ManagementHandler, message: Message): Promise<void> {
    try {
      await handler(message, this);
    } catch (err) {
      if (err instanceof ProtocolError) {
        this.replyResult(message, false, err.message);
        return;
      }
      this.#log.error({ channel: this.label, contentType: message.contentType, err }, "a management request failed");
      this.replyResult(message, false, "the request failed; the controller's log says why");
    }
  }

  #written(): void {
    this.#lastSign = performance.now();
    if (this.#waiting.length > 0 && (this.#isClosed || this.bufferedBytes <= HIGH_WATER)) {
      for (const resolve of this.#waiting.splice(0)) resolve();
    }
  }

  #checkPeer(): void {
    // While this side reads nothing it sees no pong either; then only a peer that takes nothing is known to be gone.
    if (this.#socket.isPaused && this.bufferedBytes === 0) return;
    if (performance.now() - this.#lastSign > SILENCE_MS) {
      this.#log.info(
        { channel: this.label, waiting: this.bufferedBytes },
        "a management client does not answer any more",
      );
      this.#socket.terminate();
      return;
    }
    this.#socket.ping();
  }

  #closed(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    clearInterval(this.#ping);
    this.#written();
    for (const callback of this.#closeCallbacks.splice(0)) callback();
  }
}
