import { EventEmitter, once } from "node:events";
import type { MessageInitShape } from "@bufbuild/protobuf";
import {
  type Channel,
  dialChannel,
  EDGE_ALPN,
  EdgeHeader,
  EdgeType,
  edgeClientPb,
  encodeControl,
  type FrameView,
  Headers,
  type Identity,
  type Message,
  ServiceIdentifierType,
  silentLogger,
  XgressFlag,
  XgressHeader,
  XgressType,
} from "@sallyport/wire";

/** One connection as a scripted SDK sees it. */
export class TestConnection extends EventEmitter {
  readonly sdk: TestSdk;
  readonly connId: number;
  received = 0;
  finReceived = false;
  closedReason: string | undefined;
  /** Takes the body of a Data message; the bytes are valid during the call. */
  onData: (buffer: Buffer, start: number, end: number, flags: number) => void = () => {};

  constructor(sdk: TestSdk, connId: number) {
    super();
    this.sdk = sdk;
    this.connId = connId;
  }

  send(body: Uint8Array, flags?: number, uuid?: Uint8Array): void {
    const headers = new Headers().setU32(EdgeHeader.ConnId, this.connId);
    if (flags !== undefined) headers.setU32(EdgeHeader.Flags, flags);
    if (uuid !== undefined) headers.set(EdgeHeader.Uuid, uuid);
    this.sdk.channel.send({ contentType: EdgeType.Data, headers, body });
  }

  /** Waits while the channel holds more than it should. */
  async drained(): Promise<void> {
    if (this.sdk.channel.isFull) await new Promise<void>((resolve) => this.sdk.channel.onDrain(resolve));
  }

  finish(): void {
    this.send(Buffer.alloc(0), 1);
  }

  close(): void {
    const headers = new Headers().setU32(EdgeHeader.ConnId, this.connId);
    this.sdk.channel.send({ contentType: EdgeType.StateClosed, headers });
    this.sdk.connections.delete(this.connId);
  }

  /** Resolves with the reason when the router closes the connection. */
  async whenClosed(): Promise<string> {
    if (this.closedReason === undefined) await once(this, "closed");
    return this.closedReason as string;
  }

  async whenFin(): Promise<void> {
    if (!this.finReceived) await once(this, "fin");
  }

  async whenReceived(bytes: number): Promise<void> {
    while (this.received < bytes) await once(this, "data");
  }
}

/** What programs read of a refusal, or of an end. */
export interface StructuredError {
  readonly code: number;
  readonly message: string;
  readonly retryHint: number;
  readonly failingPostureCheckIds?: readonly string[];
}

/** @throws Error when the code header does not say the same, or the error has what clients cannot read */
export function structuredError({ headers }: Message): StructuredError | undefined {
  const text = headers.getString(EdgeHeader.StructuredError);
  if (text === undefined) return undefined;
  const error = JSON.parse(text) as StructuredError & { cause?: unknown };
  if ("cause" in error) throw new Error("a structured error has a cause");
  if (headers.getU32(EdgeHeader.ErrorCode) !== error.code)
    throw new Error("header 1014 is not the code of header 1033");
  return error;
}

/** How a scripted SDK answers a Dial. */
export type DialAnswer = "accept" | "legacy" | { refuse: string } | "silence";

/** An SDK by hand: a real channel and bare messages. */
export class TestSdk {
  readonly channel: Channel;
  readonly connections = new Map<number, TestConnection>();
  readonly closed: { connId: number; reason: string; error: StructuredError | undefined }[] = [];
  readonly events = new EventEmitter();
  readonly messages: Message[] = [];
  answerDial: DialAnswer = "accept";
  onConnection: (connection: TestConnection, dial: Message) => void = () => {};
  #nextConnId = 1;

  private constructor(channel: Channel) {
    this.channel = channel;
  }

  static async connect(
    port: number,
    client: { identity: Identity; token: string },
    o: { alpn?: boolean; headers?: Headers } = {},
  ): Promise<TestSdk> {
    const channel = await dialChannel({
      address: `tls:127.0.0.1:${port}`,
      identity: client.identity,
      ...(o.alpn === false ? {} : { alpn: EDGE_ALPN }),
      hello: {
        idToken: "test-sdk",
        headers: (o.headers ?? new Headers()).setString(EdgeHeader.SessionToken, client.token),
      },
      log: silentLogger,
    });
    const sdk = new TestSdk(channel);
    channel.onFrame = (frame) => frame.contentType === EdgeType.Data && sdk.#data(frame);
    channel.handle(EdgeType.Dial, (message) => sdk.#dial(message));
    channel.handle(EdgeType.StateClosed, (message) => sdk.#stateClosed(message));
    channel.handleOther((message) => {
      sdk.#endMark(message);
      sdk.messages.push(message);
      sdk.events.emit("message", message);
    });
    return sdk;
  }

  /** Sends Connect and returns the raw answer. */
  async requestConnect(
    token: string,
    o: { connId?: number; headers?: Headers } = {},
  ): Promise<{ connId: number; answer: Message }> {
    const connId = o.connId ?? this.#nextConnId++;
    const headers = (o.headers ?? new Headers()).setU32(EdgeHeader.ConnId, connId);
    const connection = new TestConnection(this, connId);
    const known = this.connections.get(connId);
    if (known === undefined) this.connections.set(connId, connection);
    const answer = await this.channel.request({ contentType: EdgeType.Connect, headers, body: Buffer.from(token) });
    if (answer.contentType !== EdgeType.StateConnected && known === undefined) this.connections.delete(connId);
    return { connId, answer };
  }

  async connect(token: string, o: { headers?: Headers; connId?: number } = {}): Promise<TestConnection> {
    const { connId, answer } = await this.requestConnect(token, o);
    if (answer.contentType !== EdgeType.StateConnected) throw new Error(`dial refused: ${answer.body}`);
    return this.connections.get(connId) as TestConnection;
  }

  /** Dials a service without a session and returns the raw answer. */
  async requestService(
    service: string,
    o: { byName?: boolean; headers?: Headers } = {},
  ): Promise<{ connId: number; answer: Message }> {
    const connId = this.#nextConnId++;
    const headers = (o.headers ?? new Headers())
      .setU32(EdgeHeader.ConnId, connId)
      .setString(EdgeHeader.ServiceId, service)
      .setByte(EdgeHeader.ServiceIdentifierType, o.byName ? ServiceIdentifierType.Name : ServiceIdentifierType.Id);
    this.connections.set(connId, new TestConnection(this, connId));
    const answer = await this.channel.request({ contentType: EdgeType.ConnectV2, headers });
    if (answer.contentType !== EdgeType.StateConnected) this.connections.delete(connId);
    return { connId, answer };
  }

  async connectService(service: string, o: { byName?: boolean; headers?: Headers } = {}): Promise<TestConnection> {
    const { connId, answer } = await this.requestService(service, o);
    if (answer.contentType !== EdgeType.StateConnected) throw new Error(`dial refused: ${answer.body}`);
    return this.connections.get(connId) as TestConnection;
  }

  /** Tells the router what its device looks like. */
  report(...responses: MessageInitShape<typeof edgeClientPb.PostureResponseSchema>[]): void {
    const body = encodeControl(edgeClientPb.PostureResponsesSchema, { responses });
    this.channel.send({ contentType: EdgeType.PostureResponse, body });
  }

  /** Sends Bind and returns the raw answer. */
  async requestBind(
    token: string,
    o: { connId?: number; headers?: Headers } = {},
  ): Promise<{ connId: number; answer: Message }> {
    const connId = o.connId ?? this.#nextConnId++;
    const headers = (o.headers ?? new Headers()).setU32(EdgeHeader.ConnId, connId);
    const answer = await this.channel.request({ contentType: EdgeType.Bind, headers, body: Buffer.from(token) });
    return { connId, answer };
  }

  /** Binds as current SDKs do and waits until the terminator exists. */
  async bind(token: string, o: { connId?: number; listenerId?: string; routerIds?: boolean } = {}): Promise<number> {
    const headers = new Headers().setBool(EdgeHeader.SupportsBindSuccess, true);
    if (o.routerIds !== false) headers.setBool(EdgeHeader.RouterProvidedConnId, true);
    if (o.listenerId !== undefined) headers.setString(EdgeHeader.ListenerId, o.listenerId);
    const { connId, answer } = await this.requestBind(token, {
      ...(o.connId === undefined ? {} : { connId: o.connId }),
      headers,
    });
    if (answer.contentType !== EdgeType.StateConnected) throw new Error(`bind refused: ${answer.body}`);
    const message = await this.nextMessage();
    if (message.contentType !== EdgeType.BindSuccess)
      throw new Error(`expected BindSuccess, got ${message.contentType}`);
    return connId;
  }

  unbind(connId: number): void {
    this.channel.send({ contentType: EdgeType.Unbind, headers: new Headers().setU32(EdgeHeader.ConnId, connId) });
  }

  /** The oldest message not yet asked for. */
  async nextMessage(): Promise<Message> {
    if (this.messages.length === 0) await once(this.events, "message");
    return this.messages.shift() as Message;
  }

  async whenStateClosed(connId: number): Promise<string> {
    for (;;) {
      const known = this.closed.find((c) => c.connId === connId);
      if (known !== undefined) return known.reason;
      await once(this.events, "closed");
    }
  }

  close(): void {
    this.channel.close();
  }

  #data(frame: FrameView): boolean {
    const b = frame.buffer;
    let connId = -1;
    let flags = 0;
    for (let p = frame.headersStart; p + 8 <= frame.headersEnd; p += 8 + b.readInt32LE(p + 4)) {
      const key = b.readInt32LE(p);
      if (key === EdgeHeader.ConnId) connId = b.readUInt32LE(p + 8);
      else if (key === EdgeHeader.Flags) flags = b.readUInt32LE(p + 8);
    }
    const connection = this.connections.get(connId);
    if (connection === undefined) return true;
    connection.received += frame.end - frame.bodyStart;
    connection.onData(b, frame.bodyStart, frame.end, flags);
    connection.emit("data");
    if ((flags & 1) !== 0) {
      connection.finReceived = true;
      connection.emit("fin");
    }
    return true;
  }

  #dial(message: Message): void {
    const bindId = message.headers.getU32(EdgeHeader.ConnId) as number;
    const offered = message.headers.getU32(EdgeHeader.RouterProvidedConnId);
    const answer = this.answerDial;
    if (answer === "silence") return;
    const headers = new Headers().setU32(EdgeHeader.ConnId, bindId);
    if (typeof answer === "object") {
      this.channel.reply(message, { contentType: EdgeType.DialFailed, headers, body: Buffer.from(answer.refuse) });
      return;
    }
    const connId = offered ?? this.#nextConnId++;
    const connection = new TestConnection(this, connId);
    this.connections.set(connId, connection);
    const body = Buffer.alloc(4);
    body.writeUInt32LE(connId);
    if (offered === undefined) {
      this.channel
        .request({ contentType: EdgeType.DialSuccess, headers: headers.setI32(1, message.sequence), body })
        .then(() => this.onConnection(connection, message));
      return;
    }
    this.channel.reply(message, { contentType: EdgeType.DialSuccess, headers, body });
    this.onConnection(connection, message);
  }

  /** With flow control by the SDK: the other end takes nothing more and sends nothing more. */
  #endMark({ contentType, headers }: Message): void {
    const flags = headers.getU32(XgressHeader.Flags) ?? 0;
    const isEnd = (flags & XgressFlag.CircuitEnd) !== 0 && (flags & XgressFlag.WriteFailed) !== 0;
    if (contentType === XgressType.Payload && isEnd)
      this.#ended(headers.getU32(EdgeHeader.ConnId) as number, "the other end is gone");
  }

  #stateClosed(message: Message): void {
    const connId = message.headers.getU32(EdgeHeader.ConnId) as number;
    const reason = message.body.toString("utf8");
    this.closed.push({ connId, reason, error: structuredError(message) });
    this.events.emit("closed");
    this.#ended(connId, reason);
  }

  #ended(connId: number, reason: string): void {
    const connection = this.connections.get(connId);
    if (connection === undefined) return;
    this.connections.delete(connId);
    connection.closedReason = reason;
    connection.emit("closed");
  }
}
