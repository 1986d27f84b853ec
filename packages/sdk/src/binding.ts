import { ConnType, EdgeHeader, EdgeType, Headers, type Message, type Precedence } from "@sallyport/wire";
import { type ConnectionKeys, EdgeConnection } from "./connection.ts";
import type { KeyPair, Sodium } from "./crypto/sodium.ts";
import type { EdgeChannel, EdgeEndpoint } from "./edge-channel.ts";
import { reasonOf } from "./errors.ts";

/** What every binding of one hosted service has in common. */
export interface Hosting {
  readonly service: string;
  /** Token of the bind session. */
  readonly sessionToken: string;
  /** The same on all routers: a router takes a second bind with it for a move, not for another host. */
  readonly listenerId: string;
  /** Our identity's name. */
  readonly identityName: string;
  /** Set when the service requires end-to-end encryption. */
  readonly crypto?: { readonly sodium: Sodium; readonly keys: KeyPair } | undefined;
  readonly cost?: number | undefined;
  readonly precedence?: (typeof Precedence)[keyof typeof Precedence] | undefined;
  readonly instance?: string | undefined;
  readonly instanceSecret?: Uint8Array | undefined;
  readonly allowHalfOpen: boolean;
}

/** What a binding tells its listener. */
export interface BindingEvents {
  established(): void;
  /** The terminator is gone: refused or ended by the router (with its words), or lost with the router. */
  ended(text: string): void;
  connection(connection: EdgeConnection): void;
}

const establishTimeoutMs = 60_000;

/** A service offered on one router: its terminator (docs/protocol/edge.md "Hosting"). */
export class Binding implements EdgeEndpoint {
  readonly connType = ConnType.Bind;
  readonly edge: EdgeChannel;
  readonly #hosting: Hosting;
  readonly #events: BindingEvents;
  readonly #id: number;
  readonly #timer: NodeJS.Timeout;
  #isEnded = false;
  isEstablished = false;

  /** @throws ChannelClosedError */
  constructor(edge: EdgeChannel, hosting: Hosting, events: BindingEvents) {
    this.edge = edge;
    this.#hosting = hosting;
    this.#events = events;
    this.#id = edge.register(this);
    this.#timer = setTimeout(() => {
      this.#send(EdgeType.Unbind);
      this.#end("the router did not confirm the terminator in time");
    }, establishTimeoutMs);
    edge.channel.send({
      contentType: EdgeType.Bind,
      headers: this.#headers(),
      body: Buffer.from(hosting.sessionToken),
    });
  }

  describe(): string {
    const { service, listenerId, crypto } = this.#hosting;
    return JSON.stringify({ id: this.#id, service, listenerId, encrypted: crypto !== undefined });
  }

  onData(): void {}

  onMessage(message: Message): void {
    switch (message.contentType) {
      case EdgeType.StateConnected:
        if (!this.edge.tellsBindSuccess) this.#established();
        break;
      case EdgeType.BindSuccess:
        this.#established();
        break;
      case EdgeType.StateClosed:
        this.#end(message.body.toString("utf8") || "closed by the router");
        break;
      case EdgeType.Dial:
        this.#accept(message);
        break;
    }
  }

  onLost(reason: Error | undefined): void {
    this.#end(reason === undefined ? "the connection to the router ended" : reasonOf(reason));
  }

  /** Takes the terminator back. Connections that came through it go on. */
  close(): void {
    if (this.#isEnded) return;
    this.#finish();
    if (this.edge.isClosed) return;
    this.#send(EdgeType.Unbind);
    this.#send(EdgeType.StateClosed);
  }

  #headers(): Headers {
    const { crypto, cost, precedence, instance, instanceSecret, listenerId } = this.#hosting;
    const headers = new Headers()
      .setU32(EdgeHeader.ConnId, this.#id)
      .setBool(EdgeHeader.RouterProvidedConnId, true)
      .setString(EdgeHeader.ListenerId, listenerId)
      .setBool(EdgeHeader.SupportsInspect, true)
      .setBool(EdgeHeader.SupportsBindSuccess, true);
    if (crypto !== undefined) headers.set(EdgeHeader.PublicKey, crypto.keys.publicKey);
    if (cost !== undefined && cost > 0) headers.setU16(EdgeHeader.Cost, cost);
    if (precedence !== undefined && precedence > 0) headers.setByte(EdgeHeader.Precedence, precedence);
    if (instance !== undefined) headers.setString(EdgeHeader.TerminatorIdentity, instance);
    if (instanceSecret !== undefined) headers.set(EdgeHeader.TerminatorIdentitySecret, instanceSecret);
    return headers;
  }

  #established(): void {
    if (this.isEstablished || this.#isEnded) return;
    this.isEstablished = true;
    clearTimeout(this.#timer);
    this.#events.established();
  }

  #accept(message: Message): void {
    const refusal = this.#whyNot(message);
    if (refusal !== undefined) {
      this.#refuse(message, refusal);
      return;
    }
    let crypto: ConnectionKeys | undefined;
    try {
      crypto = this.#keysFor(message.headers.get(EdgeHeader.PublicKey));
    } catch (error) {
      this.#refuse(message, reasonOf(error));
      return;
    }
    const given = message.headers.getU32(EdgeHeader.RouterProvidedConnId);
    if (given === undefined) {
      // A router of an early generation gives no id: it takes ours, and tells when it is ready.
      const waiting = new AwaitedStart((id) => this.#connect(id, message, crypto));
      this.#succeed(message, waiting.register(this.edge));
    } else {
      this.#succeed(message, given);
      this.#connect(given, message, crypto);
    }
  }

  #whyNot(dial: Message): string | undefined {
    if (dial.body.toString("utf8") !== this.#hosting.sessionToken) return "invalid token";
    const given = dial.headers.getU32(EdgeHeader.RouterProvidedConnId);
    const isTaken = given !== undefined && this.edge.isTaken(given);
    return isTaken ? `invalid connection id, already in use (${given})` : undefined;
  }

  #keysFor(dialerKey: Buffer | undefined): ConnectionKeys | undefined {
    const { crypto } = this.#hosting;
    if (crypto === undefined) return undefined;
    if (dialerKey === undefined) throw new Error("the service requires encryption, the dialer sent no key");
    return { sodium: crypto.sodium, keys: crypto.sodium.sessionKeys("server", crypto.keys, dialerKey) };
  }

  #connect(id: number, dial: Message, crypto: ConnectionKeys | undefined): void {
    const { service, identityName, allowHalfOpen } = this.#hosting;
    const callerId = dial.headers.getString(EdgeHeader.CallerId);
    const connection = new EdgeConnection({
      edge: this.edge,
      id,
      info: {
        service,
        circuitId: dial.headers.getString(EdgeHeader.CircuitId) ?? "",
        callerId,
        appData: dial.headers.get(EdgeHeader.AppData),
        localName: identityName,
        remoteName: dial.headers.getString(EdgeHeader.DialerIdentityName) ?? callerId ?? "",
      },
      crypto,
      allowHalfOpen,
    });
    this.edge.assign(id, connection);
    connection.begin();
    this.#events.connection(connection);
  }

  #succeed(dial: Message, id: number): void {
    const body = Buffer.alloc(4);
    body.writeUInt32LE(id);
    const headers = new Headers().setU32(EdgeHeader.ConnId, this.#id);
    this.edge.channel.reply(dial, { contentType: EdgeType.DialSuccess, headers, body });
  }

  #refuse(dial: Message, text: string): void {
    const headers = new Headers().setU32(EdgeHeader.ConnId, this.#id);
    this.edge.channel.reply(dial, { contentType: EdgeType.DialFailed, headers, body: Buffer.from(text) });
  }

  #send(contentType: number): void {
    if (this.edge.isClosed) return;
    this.edge.channel.send({
      contentType,
      headers: new Headers()
        .setU32(EdgeHeader.ConnId, this.#id)
        .setString(EdgeHeader.ListenerId, this.#hosting.listenerId),
      ...(contentType === EdgeType.Unbind ? { body: Buffer.from(this.#hosting.sessionToken) } : {}),
    });
  }

  #end(text: string): void {
    if (this.#isEnded) return;
    this.#finish();
    this.#events.ended(text);
  }

  #finish(): void {
    this.#isEnded = true;
    clearTimeout(this.#timer);
    this.edge.remove(this.#id, this);
  }
}

/** Holds the id of an accepted connection until its router says that it may start. */
class AwaitedStart implements EdgeEndpoint {
  readonly connType = ConnType.Dial;
  readonly #start: (id: number) => void;
  #edge: EdgeChannel | undefined;
  #id = 0;

  constructor(start: (id: number) => void) {
    this.#start = start;
  }

  register(edge: EdgeChannel): number {
    this.#edge = edge;
    this.#id = edge.register(this);
    return this.#id;
  }

  describe(): string {
    return "accepted, not started";
  }

  onData(): void {}

  onMessage(message: Message): void {
    this.#edge?.remove(this.#id, this);
    if (message.contentType === EdgeType.StateConnected) this.#start(this.#id);
  }

  onLost(): void {}
}
