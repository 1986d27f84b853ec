import {
  BaseType,
  type Channel,
  ChannelClosedError,
  ConnType,
  EdgeHeader,
  EdgeType,
  FIRST_ROUTER_CONN_ID,
  type FrameView,
  HEADER_ENTRY_PREFIX_LENGTH,
  Headers,
  type Message,
  messageOf,
  type Outgoing,
  type Underlay,
  XgressType,
} from "@sallyport/wire";
import { CountedOutput, linkCounters } from "../forwarder/counted-output.ts";
import type { TransitRoom } from "../forwarder/transit-queue.ts";
import type { CircuitCarrier, ClientCircuit, ClientListener, PendingRequest } from "./channel-members.ts";
import type { EdgeCounters } from "./edge-counters.ts";
import {
  connIdOf,
  type Denial,
  DeniedError,
  NO_CONN_ID,
  stateClosed,
  stateClosedFor,
  XGRESS_CLOSED,
} from "./edge-messages.ts";
import { SdkCircuit } from "./flow-control/sdk-circuit.ts";
import { SdkCircuits } from "./flow-control/sdk-circuits.ts";
import type { EdgeOptions } from "./options.ts";
import { isOf, type SdkSession } from "./sdk-session.ts";
import { traceAnswerToSdk, traceFromSdk, traceResponseFromSdk } from "./trace-route.ts";

const LAST_CONN_ID = 0xffff_ffff;
/** Data whose handling takes longer is measured, when the router is to measure it. */
const LONG_DATA_MS = 5;

export type ChannelMember = ClientCircuit | ClientListener;

/** What the services of the edge do with the requests of an SDK. */
export interface SdkRequests {
  connect(sdk: SdkChannel, connId: number, message: Message): void;
  connectByService(sdk: SdkChannel, connId: number, message: Message): void;
  bind(sdk: SdkChannel, connId: number, message: Message): void;
  /** The channel has a circuit or a listener more. */
  granted(sdk: SdkChannel, member: ChannelMember): void;
  /** Messages about the whole channel, by content type. */
  readonly ofChannel: ReadonlyMap<number, (sdk: SdkChannel, message: Message) => void>;
}

/**
 * One admitted SDK: its connections and listeners by connection id, and who of them has stopped the reading of its
 * channel. Data goes straight from the read buffer to the circuit; everything else is a message.
 */
export class SdkChannel implements CircuitCarrier {
  readonly channel: Channel;
  /** Follows updates: a session may get other certificates, and another token. */
  session: SdkSession;
  /** Of the listener it came by. */
  readonly options: EdgeOptions;
  readonly #requests: SdkRequests;
  readonly #counts: EdgeCounters;
  readonly #dataDelay: ((ns: number) => void) | undefined;
  #signOfLife: NodeJS.Timeout | undefined;
  /** Payloads of circuits whose flow control the SDK does. */
  readonly counters = linkCounters();
  readonly #connections = new Map<number, ClientCircuit>();
  readonly #circuits = new SdkCircuits();
  readonly #listeners = new Map<number, ClientListener>();
  readonly #connecting = new Map<number, PendingRequest>();
  readonly #stoppedBy = new Set<ClientCircuit>();
  #outputs: CountedOutput[] = [];
  #nextConnId: number = FIRST_ROUTER_CONN_ID;

  constructor(
    channel: Channel,
    session: SdkSession,
    o: {
      requests: SdkRequests;
      options: EdgeOptions;
      counts: EdgeCounters;
      /** Takes what is slow to be handled, in nanoseconds. */
      dataDelay?: ((ns: number) => void) | undefined;
    },
  ) {
    this.channel = channel;
    this.session = session;
    this.options = o.options;
    this.#requests = o.requests;
    this.#counts = o.counts;
    this.#dataDelay = o.dataDelay;
  }

  /** Takes over the channel's frames and messages, first those that came before the SDK was admitted. */
  start(early: readonly FrameView[] = []): void {
    const channel = this.channel;
    const handlers = this.#handlers();
    for (const [contentType, handler] of handlers) channel.handle(contentType, handler);
    channel.onFrame =
      this.#dataDelay === undefined
        ? (frame, underlay) => this.#onFrame(frame, underlay)
        : (frame, underlay) => this.#timed(frame, underlay);
    for (const frame of early) {
      if (frame.contentType === EdgeType.Data) this.#data(frame);
      else handlers.get(frame.contentType)?.(messageOf(frame));
    }
  }

  #handlers(): Map<number, (message: Message) => void> {
    const requests = this.#requests;
    return new Map<number, (message: Message) => void>([
      [EdgeType.Connect, (message) => this.#request(message, (id) => requests.connect(this, id, message))],
      [EdgeType.ConnectV2, (message) => this.#request(message, (id) => requests.connectByService(this, id, message))],
      [EdgeType.Bind, (message) => this.#request(message, (id) => requests.bind(this, id, message))],
      [EdgeType.StateClosed, (message) => this.#closedBySdk(message)],
      [EdgeType.Unbind, (message) => this.#unbind(message)],
      [EdgeType.UpdateBind, (message) => this.#listenerOf(message)?.update(message)],
      [EdgeType.HealthEvent, (message) => this.#listenerOf(message)?.healthEvent(message)],
      [EdgeType.TraceRoute, (message) => this.#trace(message)],
      [EdgeType.TraceRouteResponse, (message) => this.#traceResponse(message)],
      [XgressType.Control, (message) => this.#circuits.control(message)],
      [XgressType.Close, (message) => this.#circuits.close(message)],
      [EdgeType.ConnInspectRequest, (message) => this.#inspect(message)],
      ...[...requests.ofChannel].map(([type, handle]) => [type, (message: Message) => handle(this, message)] as const),
    ]);
  }

  /** Sends a message unless the channel is gone; `via` keeps it behind data sent on the same connection. */
  send(out: Outgoing, via?: Underlay): void {
    this.#whileOpen(() => this.channel.send(out, via?.isClosed === true ? undefined : via));
  }

  reply(to: Message, out: Outgoing): void {
    this.#whileOpen(() => this.channel.reply(to, out));
  }

  /** The output that carries the data of a connection; `undefined` when the channel is closed. */
  outputFor(connId: number): CountedOutput | undefined {
    if (this.channel.isClosed) return undefined;
    if (this.#outputs.length === 1 && this.channel.underlays.length === 1) {
      const only = this.#outputs[0] as CountedOutput;
      if (only.underlay === this.channel.underlays[0]) return only;
    }
    const underlay = this.channel.underlayFor(connId);
    for (const output of this.#outputs) if (output.underlay === underlay) return output;
    const made = new CountedOutput(underlay, this.counters);
    this.#outputs = [...this.#outputs.filter((output) => !output.underlay.isClosed), made];
    return made;
  }

  /** Room for what waits for this SDK, see `SdkCircuits`. */
  roomOf(budget: TransitRoom): TransitRoom {
    return this.#circuits.roomOf(budget);
  }

  // Connection ids ----------------------------------------------------------------------------------------------------

  isTaken(connId: number): boolean {
    return this.#connections.has(connId) || this.#listeners.has(connId) || this.#connecting.has(connId);
  }

  /** A free id of the router's own range, for a connection dialed to this SDK. */
  newConnId(): number {
    for (;;) {
      const id = this.#nextConnId;
      this.#nextConnId = id === LAST_CONN_ID ? FIRST_ROUTER_CONN_ID : id + 1;
      if (!this.isTaken(id)) return id;
    }
  }

  /** Nothing would break if the channel ended now; its listeners are then kept by the SDK's other routers. */
  get isIdle(): boolean {
    return this.#connections.size === 0 && this.#connecting.size === 0;
  }

  /** It has listeners here, which circuits of others come to. */
  get isHosting(): boolean {
    return this.#listeners.size > 0;
  }

  /** As `isIdle`, except for datagrams, whose senders know that some are lost. */
  get hasDatagramsOnly(): boolean {
    return this.#connecting.size === 0 && this.#connections.values().every((each) => each.carriesDatagrams);
  }

  /** As many dials and binds of this SDK as may be are not decided yet. */
  get isWaitingForMost(): boolean {
    return this.#connecting.size >= this.options.maxConnecting;
  }

  /** @returns false when another request about this id is not decided yet */
  addConnecting(connId: number, pending: PendingRequest): boolean {
    return this.#connecting.getOrInsert(connId, pending) === pending;
  }

  removeConnecting(connId: number): void {
    this.#connecting.delete(connId);
  }

  addConnection(connection: ClientCircuit): void {
    this.#connections.set(connection.connId, connection);
    if (connection instanceof SdkCircuit) this.#circuits.add(connection);
    this.#requests.granted(this, connection);
  }

  forget(connection: ClientCircuit): void {
    if (this.#connections.get(connection.connId) === connection) this.#connections.delete(connection.connId);
    if (connection instanceof SdkCircuit) this.#circuits.delete(connection);
  }

  addListener(listener: ClientListener): void {
    this.#listeners.set(listener.connId, listener);
    this.#requests.granted(this, listener);
  }

  removeListener(listener: ClientListener): void {
    if (this.#listeners.get(listener.connId) === listener) this.#listeners.delete(listener.connId);
  }

  /** Its circuits, for inspection. */
  connections(): Iterable<ClientCircuit> {
    return this.#connections.values();
  }

  /** Tokens of the dial and bind sessions in use on this channel. */
  *sessionTokens(): Iterable<string> {
    for (const { grant } of this.#grants()) if (grant.sessionToken !== "") yield grant.sessionToken;
  }

  /** Circuits and listeners, with what they exist by. */
  members(): ChannelMember[] {
    return [...this.#connections.values(), ...this.#listeners.values()];
  }

  *#grants(): Iterable<ChannelMember | PendingRequest> {
    yield* this.#connections.values();
    yield* this.#listeners.values();
    yield* this.#connecting.values();
  }

  // Ends --------------------------------------------------------------------------------------------------------------

  /** A session was removed, which its token or its id names: its connections end, and requests with it are given up. */
  closeSession(tokenOrId: string, reason: Denial): void {
    for (const connection of [...this.#connections.values()]) {
      if (isOf(connection.grant, tokenOrId)) connection.close(reason);
    }
    for (const pending of [...this.#connecting.values()]) {
      if (isOf(pending.grant, tokenOrId)) pending.abort.abort(new DeniedError(reason));
    }
  }

  /** The channel is gone: everything on it ends. */
  channelClosed(): void {
    clearInterval(this.#signOfLife);
    const listeners = [...this.#listeners.values()];
    this.#listeners.clear();
    for (const pending of [...this.#connecting.values()])
      pending.abort.abort(new Error("the client's connection was lost"));
    this.#connecting.clear();
    for (const connection of [...this.#connections.values()]) connection.channelClosed();
    for (const listener of listeners) listener.remove();
  }

  // Push-back ---------------------------------------------------------------------------------------------------------

  /** A connection holds as much as it may: nothing more is read from this SDK until it, and all others, have room again. */
  stopReadingFor(connection: ClientCircuit): void {
    // Again each time: a connection that joined the channel since is read until then.
    for (const underlay of this.channel.underlays) underlay.pause();
    const isStopped = this.#stoppedBy.size > 0;
    this.#stoppedBy.add(connection);
    if (isStopped) return;
    // Its latency probes are not read either; something to read keeps it from taking the router for dead.
    const { stoppedHeartbeatMs } = this.options;
    this.#signOfLife = setInterval(() => this.send({ contentType: BaseType.Heartbeat }), stoppedHeartbeatMs);
    this.#signOfLife.unref();
  }

  resumeReadingFor(connection: ClientCircuit): void {
    if (!this.#stoppedBy.delete(connection) || this.#stoppedBy.size > 0) return;
    clearInterval(this.#signOfLife);
    for (const underlay of this.channel.underlays) underlay.resume();
  }

  /** Sending may be what closes the channel: the bytes that wait for an SDK which reads nothing have a limit. */
  #whileOpen(act: () => void): void {
    if (this.channel.isClosed) return;
    try {
      act();
    } catch (error) {
      if (!(error instanceof ChannelClosedError)) throw error;
    }
  }

  // Messages ----------------------------------------------------------------------------------------------------------

  #onFrame(frame: FrameView, underlay: Underlay): boolean {
    const type = frame.contentType;
    if (type === EdgeType.Data) return this.#data(frame);
    if (type !== XgressType.Payload && type !== XgressType.Acknowledgement) return false;
    const outcome = this.#circuits.frame(frame, underlay);
    if (outcome === "taken" || outcome === "late") return true;
    if (type === XgressType.Payload) this.#counts.droppedPayloads++;
    else this.#counts.droppedAcks++;
    if (outcome === "lost") return true;
    const { connId } = this.#circuits.view;
    // Without a connection id there is no one to tell; the sender's patience ends it.
    if (type === XgressType.Acknowledgement && connId >= 0) this.send(stateClosed(connId, XGRESS_CLOSED));
    return true;
  }

  /** As `#onFrame`; takes the time. */
  #timed(frame: FrameView, underlay: Underlay): boolean {
    const started = performance.now();
    const isTaken = this.#onFrame(frame, underlay);
    const tookMs = performance.now() - started;
    if (tookMs > LONG_DATA_MS) this.#dataDelay?.(tookMs * 1e6);
    return isTaken;
  }

  #data(frame: FrameView): boolean {
    const b = frame.buffer;
    let p = frame.headersStart;
    while (p + HEADER_ENTRY_PREFIX_LENGTH <= frame.headersEnd) {
      const length = b.readInt32LE(p + 4);
      if (b.readInt32LE(p) === EdgeHeader.ConnId && length === 4) {
        const connection = this.#connections.get(b.readUInt32LE(p + HEADER_ENTRY_PREFIX_LENGTH));
        if (connection === undefined) this.#counts.droppedMessages++;
        else connection.data(frame);
        return true;
      }
      p += HEADER_ENTRY_PREFIX_LENGTH + length;
    }
    return true;
  }

  #request(message: Message, act: (connId: number) => void): void {
    const connId = connIdOf(message);
    if (connId !== undefined) act(connId);
    else this.reply(message, { contentType: EdgeType.StateClosed, body: Buffer.from(NO_CONN_ID, "utf8") });
  }

  #listenerOf(message: Message): ClientListener | undefined {
    const connId = connIdOf(message);
    return connId === undefined ? undefined : this.#listeners.get(connId);
  }

  #closedBySdk(message: Message): void {
    const connId = connIdOf(message);
    if (connId === undefined) return;
    this.#connections.get(connId)?.closedBySdk();
    this.#connecting.get(connId)?.abort.abort(new Error("the client gave up"));
    this.#listeners.get(connId)?.remove();
  }

  #unbind(message: Message): void {
    const connId = connIdOf(message);
    if (connId === undefined) return;
    this.#listeners.get(connId)?.remove();
    this.send(stateClosedFor(message, connId, "unbound"));
  }

  #trace(message: Message): void {
    const connId = connIdOf(message);
    const connection = connId === undefined ? undefined : this.#connections.get(connId);
    if (connId === undefined || connection === undefined) return;
    const onwards = traceFromSdk(message, connection.circuitId);
    if (onwards === undefined) this.reply(message, traceAnswerToSdk(connId, message));
    else connection.sendControl(onwards);
  }

  #traceResponse(message: Message): void {
    const connId = connIdOf(message);
    const connection = connId === undefined ? undefined : this.#connections.get(connId);
    connection?.sendControl(traceResponseFromSdk(message, connection.circuitId));
  }

  #inspect(message: Message): void {
    const connId = connIdOf(message);
    if (connId === undefined) return;
    let type: number = ConnType.Invalid;
    let text = `invalid conn id [${connId}]`;
    if (this.#listeners.has(connId)) {
      type = ConnType.Bind;
      text = `listener ${this.#listeners.get(connId)?.terminatorId}`;
    } else if (this.#connections.has(connId)) {
      type = ConnType.Dial;
      text = `circuit ${this.#connections.get(connId)?.circuitId}`;
    }
    const headers = new Headers().setU32(EdgeHeader.ConnId, connId).setByte(EdgeHeader.ConnType, type);
    this.reply(message, { contentType: EdgeType.ConnInspectResponse, headers, body: Buffer.from(text, "utf8") });
  }
}
