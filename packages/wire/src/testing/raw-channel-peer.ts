import { once } from "node:events";
import { type ConnectionOptions, connect, type TLSSocket } from "node:tls";
import { BaseType } from "../catalogue/base.ts";
import { DEFAULT_LIMITS, FrameParser } from "../frame/frame.ts";
import { Headers } from "../frame/headers.ts";
import { encodeMessage, type Message, messageOf, type Outgoing } from "../frame/message.ts";
import type { Identity } from "../identity/identity.ts";

/** The other end of a channel, written by hand: a TLS socket, bytes, and nothing in between. For tests. */
export class RawChannelPeer {
  readonly socket: TLSSocket;
  /** Everything received. */
  bytes: Buffer = Buffer.alloc(0);
  readonly messages: Message[] = [];
  /** Resolves when the connection is gone, with everything received before. */
  readonly closed: Promise<Buffer>;
  #wake: (() => void)[] = [];
  #gone = false;

  private constructor(socket: TLSSocket) {
    this.socket = socket;
    const parser = new FrameParser(DEFAULT_LIMITS, (frame) => this.messages.push(messageOf(frame)));
    let framed = true;
    socket.on("data", (chunk: Buffer) => {
      this.bytes = Buffer.concat([this.bytes, chunk]);
      try {
        if (framed) parser.push(chunk);
      } catch {
        framed = false;
      }
      this.#wakeAll();
    });
    socket.on("error", () => {});
    this.closed = new Promise((resolve) => {
      socket.once("close", () => {
        this.#gone = true;
        this.#wakeAll();
        resolve(this.bytes);
      });
    });
  }

  static async connect(
    port: number,
    identity?: Identity,
    options: ConnectionOptions & { readonly localAddress?: string } = {},
  ): Promise<RawChannelPeer> {
    const socket = connect({
      host: "127.0.0.1",
      port,
      rejectUnauthorized: false,
      ...(identity === undefined ? {} : { cert: identity.certPem, key: identity.keyPem }),
      ...options,
    });
    socket.setNoDelay(true);
    await once(socket, "secureConnect");
    return new RawChannelPeer(socket);
  }

  write(bytes: Buffer): this {
    this.socket.write(bytes);
    return this;
  }

  send(out: Outgoing, sequence = 1): this {
    return this.write(encodeMessage(out, sequence));
  }

  hello(idToken: string, headers: Headers = new Headers(), sequence = -1): this {
    return this.send({ contentType: BaseType.Hello, headers, body: Buffer.from(idToken) }, sequence);
  }

  /** The first message that `wanted` accepts, as soon as it is there; fails when the connection ends before. */
  async message(wanted: (message: Message) => boolean = () => true): Promise<Message> {
    for (;;) {
      const at = this.messages.findIndex(wanted);
      const [message] = at < 0 ? [] : this.messages.splice(at, 1);
      if (message !== undefined) return message;
      if (this.#gone) throw new Error("the connection ended before the message came");
      await new Promise<void>((resolve) => this.#wake.push(resolve));
    }
  }

  destroy(): void {
    this.socket.destroy();
  }

  #wakeAll(): void {
    for (const wake of this.#wake.splice(0)) wake();
  }
}
