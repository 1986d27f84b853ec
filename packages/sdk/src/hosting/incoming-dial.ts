import { ConnType, EdgeHeader, EdgeType, Headers, type Message } from "@sallyport/wire";
import { carrierOn } from "../circuit/carrier-choice.ts";
import { MessageConnection } from "../circuit/message-connection.ts";
import type { ConnectionKeys } from "../crypto/end-to-end.ts";
import type { EdgeChannel, EdgeEndpoint } from "../edge-channel.ts";
import { ConnectionClosedError } from "../errors.ts";

/** What is known of the binding that a dial came to. */
export interface DialTarget {
  readonly edge: EdgeChannel;
  /** Connection id of the binding. */
  readonly bindId: number;
  readonly service: string;
  /** Our identity's name. */
  readonly identityName: string;
  readonly crypto: ConnectionKeys | undefined;
  /** The dial was answered, or its router no longer waits. */
  readonly onDone: (dial: IncomingDial) => void;
}

/** A dial to a hosted service, which waits for its answer: routers give up after five seconds. */
export class IncomingDial {
  readonly service: string;
  readonly circuitId: string;
  /** Name of the identity that dials, as its router announced it. */
  readonly callerId: string | undefined;
  /** Bytes that the dialer gave along. */
  readonly appData: Buffer | undefined;
  readonly #target: DialTarget;
  readonly #message: Message;
  readonly #ended = new AbortController();
  #isAnswered = false;

  constructor(message: Message, target: DialTarget) {
    this.#message = message;
    this.#target = target;
    const { headers } = message;
    this.service = target.service;
    this.circuitId = headers.getString(EdgeHeader.CircuitId) ?? "";
    this.callerId = headers.getString(EdgeHeader.CallerId);
    this.appData = headers.get(EdgeHeader.AppData);
  }

  /** Aborted when the router no longer waits for an answer. */
  get signal(): AbortSignal {
    return this.#ended.signal;
  }

  /**
   * Takes the connection. Data waits until its `start` is called.
   *
   * @param o.datagrams messages are datagrams, not pieces of a stream
   * @throws ConnectionClosedError when it was answered already, or its router no longer waits
   */
  async accept(o: { readonly datagrams?: boolean | undefined } = {}): Promise<MessageConnection> {
    this.#answer();
    const given = this.#message.headers.getU32(EdgeHeader.RouterProvidedConnId);
    if (given !== undefined) {
      this.#succeed(given);
      return this.#connect(given, o);
    }
    // A router of an early generation gives no id: it takes ours, and tells when it is ready.
    const waiting = new AwaitedStart(this.#target.edge);
    this.#succeed(waiting.id);
    await waiting.started;
    return this.#connect(waiting.id, o);
  }

  /** Refuses the connection; the dialer gets to see the text. */
  reject(text: string): void {
    if (this.#isAnswered || this.#target.edge.isClosed) return;
    this.#answer();
    this.#reply(EdgeType.DialFailed, Buffer.from(text || "refused"));
  }

  /** The router no longer waits. */
  abandon(reason: Error): void {
    this.#isAnswered = true;
    this.#ended.abort(reason);
  }

  #answer(): void {
    if (this.#isAnswered || this.#target.edge.isClosed)
      throw new ConnectionClosedError(
        `${this.service}: the dial was answered already, or its router connection is gone`,
      );
    this.#isAnswered = true;
    this.#target.onDone(this);
  }

  #connect(id: number, o: { readonly datagrams?: boolean | undefined }): MessageConnection {
    const { edge, service, identityName, crypto } = this.#target;
    const { circuitId, callerId, appData } = this;
    const { headers } = this.#message;
    const remoteName = headers.getString(EdgeHeader.DialerIdentityName) ?? callerId ?? "";
    const connection = new MessageConnection({
      edge,
      id,
      info: { service, circuitId, callerId, appData, localName: identityName, remoteName },
      crypto,
      datagrams: o.datagrams,
      carrier: (receiver) => carrierOn(edge, id, { circuitId, side: "terminator", headers }, receiver),
    });
    connection.begin();
    return connection;
  }

  #succeed(id: number): void {
    const body = Buffer.alloc(4);
    body.writeUInt32LE(id);
    this.#reply(EdgeType.DialSuccess, body);
  }

  #reply(contentType: number, body: Buffer): void {
    const headers = new Headers().setU32(EdgeHeader.ConnId, this.#target.bindId);
    this.#target.edge.channel.reply(this.#message, { contentType, headers, body });
  }
}

/** Holds the id of an accepted connection until its router says that it may start. */
class AwaitedStart implements EdgeEndpoint {
  readonly connType = ConnType.Dial;
  readonly id: number;
  readonly started: Promise<void>;
  readonly #edge: EdgeChannel;
  readonly #settle: { resolve: () => void; reject: (error: Error) => void };

  constructor(edge: EdgeChannel) {
    this.#edge = edge;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.started = promise;
    this.#settle = { resolve, reject };
    this.id = edge.register(this);
  }

  describe(): string {
    return "accepted, not started";
  }

  onData(): void {}

  onCircuitFrame(): void {}

  onMessage(message: Message): void {
    this.#edge.remove(this.id, this);
    if (message.contentType === EdgeType.StateConnected) this.#settle.resolve();
    else this.#settle.reject(new ConnectionClosedError("the router gave the connection up before it started"));
  }

  onLost(reason: Error | undefined): void {
    this.#settle.reject(
      new ConnectionClosedError("the connection to the router was lost before it started", { cause: reason }),
    );
  }
}
