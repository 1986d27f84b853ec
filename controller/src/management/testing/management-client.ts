import { once } from "node:events";
import { BaseHeader, encodeMessage, FrameParser, type Message, messageOf, type Outgoing } from "@sallyport/wire";
import { WebSocket } from "ws";

const WAIT_MS = 20_000;

export interface ManagementClientOptions {
  readonly port: number;
  readonly ca: string;
  readonly token?: string;
  /** An access token. */
  readonly bearer?: string;
  readonly path?: string;
  /** Of the messages that arrive before the test asks for them: those that are kept. All when absent. */
  readonly keeps?: (message: Message) => boolean;
}

/** An operator's tool: a WebSocket that speaks the management channel. Nothing it receives is lost, unless it shall be. */
export class ManagementClient {
  readonly socket: WebSocket;
  readonly #arrived: Message[] = [];
  readonly #waiting = new Set<{ matches(message: Message): boolean; resolve(message: Message): void }>();
  readonly #keeps: (message: Message) => boolean;
  #sequence = 0;

  private constructor(socket: WebSocket, keeps: (message: Message) => boolean) {
    this.socket = socket;
    this.#keeps = keeps;
    socket.on("message", (data: Buffer) => {
      const parser = new FrameParser({ maxHeaders: 65_536, maxBody: 16 << 20 }, (frame) =>
        this.#arrive(messageOf(frame)),
      );
      parser.push(data);
    });
  }

  /** Rejects with the status in its message when the upgrade is refused. */
  static async connect(o: ManagementClientOptions): Promise<ManagementClient> {
    const socket = new WebSocket(`wss://localhost:${o.port}${o.path ?? "/fabric/v1/ws-api"}`, {
      ca: o.ca,
      headers: {
        ...(o.token !== undefined && { "zt-session": o.token }),
        ...(o.bearer !== undefined && { authorization: `Bearer ${o.bearer}` }),
      },
    });
    const client = new ManagementClient(socket, o.keeps ?? (() => true));
    await once(socket, "open");
    return client;
  }

  send(out: Outgoing): number {
    this.#sequence += 1;
    this.socket.send(encodeMessage(out, this.#sequence));
    return this.#sequence;
  }

  async request(out: Outgoing): Promise<Message> {
    const sequence = this.send(out);
    return await this.next(`a reply to ${out.contentType}`, (message) => message.replyFor === sequence);
  }

  /** A request that is answered by a Result, as its success and text. */
  async result(out: Outgoing): Promise<{ ok: boolean; text: string }> {
    const { headers, body } = await this.request(out);
    return { ok: headers.getBool(BaseHeader.ResultSuccess) === true, text: body.toString() };
  }

  async nextOf(contentType: number): Promise<Message> {
    return await this.next(`a message of type ${contentType}`, (message) => message.contentType === contentType);
  }

  async next(what: string, matches: (message: Message) => boolean): Promise<Message> {
    const at = this.#arrived.findIndex(matches);
    const [found] = at < 0 ? [] : this.#arrived.splice(at, 1);
    if (found !== undefined) return found;
    const { promise, resolve, reject } = Promise.withResolvers<Message>();
    const timer = setTimeout(() => reject(new Error(`${what} did not come`)), WAIT_MS);
    const waiter = { matches, resolve };
    this.#waiting.add(waiter);
    return await promise.finally(() => {
      clearTimeout(timer);
      this.#waiting.delete(waiter);
    });
  }

  /** Messages that the test has not asked for. */
  get count(): number {
    return this.#arrived.length;
  }

  #arrive(message: Message): void {
    for (const waiter of this.#waiting) {
      if (!waiter.matches(message)) continue;
      this.#waiting.delete(waiter);
      waiter.resolve(message);
      return;
    }
    if (this.#keeps(message)) this.#arrived.push(message);
  }
}
