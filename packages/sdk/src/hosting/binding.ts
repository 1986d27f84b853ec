import { errorText } from "@sallyport/async";
import { ConnType, EdgeHeader, EdgeType, Headers, type Message, type Precedence } from "@sallyport/wire";
import type { ConnectionKeys } from "../crypto/end-to-end.ts";
import type { KeyPair, Sodium } from "../crypto/sodium.ts";
import type { EdgeChannel, EdgeEndpoint } from "../edge-channel.ts";
import { ConnectionClosedError } from "../errors.ts";
import { IncomingDial } from "./incoming-dial.ts";

/** What every binding of one hosted service has in common. */
export interface BindTerms {
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
  readonly precedence?: Precedence | undefined;
  readonly instance?: string | undefined;
  readonly instanceSecret?: Uint8Array | undefined;
}

/** What a binding tells its listener. */
export interface BindingEvents {
  established(): void;
  /** The terminator is gone: refused or ended by the router (with its words), or lost with the router. */
  ended(text: string): void;
  dialled(dial: IncomingDial): void;
}

const ESTABLISH_TIMEOUT_MS = 60_000;

/** A service offered on one router: its terminator (docs/protocol/edge.md "Hosting"). */
export class Binding implements EdgeEndpoint {
  readonly connType = ConnType.Bind;
  readonly edge: EdgeChannel;
  readonly #hosting: BindTerms;
  readonly #events: BindingEvents;
  readonly #id: number;
  readonly #timer: NodeJS.Timeout;
  /** Dials that wait for an answer. */
  readonly #dials = new Set<IncomingDial>();
  #isEnded = false;
  isEstablished = false;

  /** @throws ChannelClosedError */
  constructor(edge: EdgeChannel, hosting: BindTerms, events: BindingEvents) {
    this.edge = edge;
    this.#hosting = hosting;
    this.#events = events;
    this.#id = edge.register(this);
    this.#timer = setTimeout(() => {
      this.#send(EdgeType.Unbind);
      this.#end("the router did not confirm the terminator in time");
    }, ESTABLISH_TIMEOUT_MS);
    edge.channel.send({ contentType: EdgeType.Bind, headers: this.#headers(), body: this.#token() });
  }

  describe(): string {
    const { service, listenerId, crypto } = this.#hosting;
    return JSON.stringify({ id: this.#id, service, listenerId, encrypted: crypto !== undefined });
  }

  onData(): void {}

  onCircuitFrame(): void {}

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
    this.#end(reason === undefined ? "the connection to the router ended" : errorText(reason));
  }

  /** Changes how likely the terminator is chosen. */
  update(o: { readonly cost?: number | undefined; readonly precedence?: Precedence | undefined }): void {
    if (this.#isEnded || this.edge.isClosed) return;
    const headers = this.#bindHeaders();
    if (o.cost !== undefined) headers.setU16(EdgeHeader.Cost, o.cost);
    if (o.precedence !== undefined) headers.setByte(EdgeHeader.Precedence, o.precedence);
    this.edge.channel.send({ contentType: EdgeType.UpdateBind, headers, body: this.#token() });
  }

  /** Tells the network about the health of the application. */
  healthEvent(passed: boolean): void {
    if (this.#isEnded || this.edge.isClosed) return;
    const headers = this.#bindHeaders().setBool(EdgeHeader.HealthStatus, passed);
    this.edge.channel.send({ contentType: EdgeType.HealthEvent, headers, body: this.#token() });
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
      .setBool(EdgeHeader.UseXgressToSdk, this.edge.takesFlowControl)
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
      this.#refuse(message, errorText(error));
      return;
    }
    const { service, identityName } = this.#hosting;
    const dial = new IncomingDial(message, {
      edge: this.edge,
      bindId: this.#id,
      service,
      identityName,
      crypto,
      onDone: (answered) => this.#dials.delete(answered),
    });
    this.#dials.add(dial);
    this.#events.dialled(dial);
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

  #refuse(dial: Message, text: string): void {
    const headers = new Headers().setU32(EdgeHeader.ConnId, this.#id);
    this.edge.channel.reply(dial, { contentType: EdgeType.DialFailed, headers, body: Buffer.from(text) });
  }

  #send(contentType: number): void {
    if (this.edge.isClosed) return;
    const body = contentType === EdgeType.Unbind ? this.#token() : Buffer.alloc(0);
    this.edge.channel.send({ contentType, headers: this.#bindHeaders(), body });
  }

  #bindHeaders(): Headers {
    return new Headers().setU32(EdgeHeader.ConnId, this.#id).setString(EdgeHeader.ListenerId, this.#hosting.listenerId);
  }

  #token(): Buffer {
    return Buffer.from(this.#hosting.sessionToken);
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
    for (const dial of this.#dials)
      dial.abandon(new ConnectionClosedError(`${this.#hosting.service}: the listener is no longer on this router`));
    this.#dials.clear();
  }
}
