import { setImmediate as nextTurn } from "node:timers/promises";
import {
  AckScheduler,
  BaseHeader,
  BaseType,
  type Channel,
  ConnType,
  EdgeHeader,
  EdgeType,
  FairOutput,
  FIRST_ROUTER_CONN_ID,
  FramePool,
  type FrameView,
  HEADER_ENTRY_PREFIX_LENGTH,
  Headers,
  hasCapability,
  isAtLeast,
  type Message,
  RouterCapability,
  ScanTimer,
  type Underlay,
  XgressType,
  xgressCounters,
} from "@sallyport/wire";
import { RouterError } from "./errors.ts";

/** What all circuits of a context share: memory, timers, and what is counted. */
export class CircuitSupplies {
  readonly pool = new FramePool();
  readonly counters = xgressCounters();
  readonly acks = new AckScheduler();
  readonly scans = new ScanTimer();

  close(): void {
    this.acks.close();
  }
}

/** Who takes the messages of one connection id: a connection, an attempt to make one, or a hosted service. */
export interface EdgeEndpoint {
  /** Type and text that a router learns when it inspects the id. */
  readonly connType: (typeof ConnType)[keyof typeof ConnType];
  describe(): string;
  /** Data, in place: the bytes `start..end` of `buffer` are valid only during the call. `flags` are bits of `EdgeFlag`. */
  onData(buffer: Buffer, start: number, end: number, flags: number): void;
  /** A payload or acknowledgement of its circuit, valid during the call only. */
  onCircuitFrame(frame: FrameView): void;
  onMessage(message: Message): void;
  /** The connection to the router is gone, and with it this id. */
  onLost(reason: Error | undefined): void;
}

/** Older routers drop data for an SDK that reads slowly, and take circuits down before their last bytes (docs/compatibility.md, "The end of a stream"). */
const EOF_SINCE = [1, 6, 16] as const;
const PROBE_TIMEOUT_MS = 10_000;
const LATENCY_INTERVAL_MS = 60_000;
const UPDATE_TIMEOUT_MS = 10_000;

/**
 * The messages of one router connection, sorted by connection id (docs/protocol/edge.md). Data goes to its endpoint
 * without an object per message; everything else arrives as a message, in the order of the wire.
 */
export class EdgeChannel {
  readonly channel: Channel;
  /** Name and address of the router, for logs and errors. */
  readonly router: string;
  /** The router tells when a terminator exists. */
  readonly tellsBindSuccess: boolean;
  /** Circuits through this router are whole when their flow control is done here. */
  readonly takesFlowControl: boolean;
  /** It decides about dials of services by access tokens itself: they need no dial session. */
  readonly connectsByService: boolean;
  /** Last measured round trip in milliseconds. */
  latencyMs: number | undefined;
  readonly circuits: CircuitSupplies;
  readonly #endpoints = new Map<number, EdgeEndpoint>();
  #isLeaving = false;
  #hasServed = false;
  readonly #pausedBy = new Set<EdgeEndpoint>();
  /** Closed here, with bytes of theirs on the way. */
  readonly #finishing = new Set<EdgeEndpoint>();
  #onDrained: (() => void) | undefined;
  #outputs: FairOutput[] = [];
  #nextId = 0;
  /** How often each connection had been read when it was last watched. */
  readonly #watched = new WeakMap<Underlay, number>();
  #probedAt = 0;

  /** @param circuits what all circuits of a context share */
  constructor(channel: Channel, router: string, circuits: CircuitSupplies = new CircuitSupplies()) {
    this.channel = channel;
    this.router = router;
    this.circuits = circuits;
    this.tellsBindSuccess = channel.result.getBool(EdgeHeader.SupportsBindSuccess) === true;
    this.takesFlowControl = channel.isGrouped || isAtLeast(versionOf(channel), EOF_SINCE);
    this.connectsByService = hasCapability(
      channel.result.get(EdgeHeader.RouterCapabilities),
      RouterCapability.ConnectV2,
    );
    channel.onFrame = (frame) => this.#onFrame(frame);
    for (const type of [EdgeType.StateConnected, EdgeType.StateClosed, EdgeType.Dial, EdgeType.BindSuccess]) {
      channel.handle(type, (message) => this.#dispatch(message));
    }
    channel.handle(EdgeType.ConnInspectRequest, (message) => this.#inspect(message));
    channel.handle(EdgeType.TraceRoute, (message) => this.#trace(message));
    channel.onClose((reason) => {
      const endpoints = [...this.#endpoints.values()];
      this.#endpoints.clear();
      for (const endpoint of endpoints) endpoint.onLost(reason);
      this.#finishing.clear();
      this.#onDrained?.();
    });
  }

  get isClosed(): boolean {
    return this.channel.isClosed;
  }

  /** The output for what belongs to a connection; the same while its underlay lives. @throws ChannelClosedError */
  outputFor(id: number): FairOutput {
    const underlay = this.channel.underlayFor(id);
    const known = this.#outputs.find((output) => output.underlay === underlay);
    if (known !== undefined) return known;
    const made = new FairOutput(underlay);
    this.#outputs = [...this.#outputs.filter((output) => !output.underlay.isClosed), made];
    return made;
  }

  /** An endpoint was closed here and goes on until the other end has everything; see {@link drained}. */
  finishing(endpoint: EdgeEndpoint): void {
    this.#finishing.add(endpoint);
  }

  finished(endpoint: EdgeEndpoint): void {
    if (this.#finishing.delete(endpoint) && this.#finishing.size === 0) this.#onDrained?.();
  }

  /** Resolves when the other ends of all connections closed here have everything, at the latest after `timeoutMs`. */
  async drained(timeoutMs: number): Promise<void> {
    if (this.#finishing.size === 0 || this.isClosed) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, timeoutMs);
      this.#onDrained = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  /** A connection on it is not read by its application, so nothing comes through. */
  get isPaused(): boolean {
    return this.#isLeaving || this.#pausedBy.size > 0;
  }

  /** Something was dialled, hosted or accepted on it: the router knows our session. */
  get hasServed(): boolean {
    return this.#hasServed;
  }

  /** The router is about to stop: what is open goes on, nothing new is made on it. */
  leave(): void {
    this.#isLeaving = true;
  }

  /** Gives an endpoint a connection id that this side chooses. */
  register(endpoint: EdgeEndpoint): number {
    do {
      this.#nextId = (this.#nextId % (FIRST_ROUTER_CONN_ID - 1)) + 1;
    } while (this.#endpoints.has(this.#nextId));
    this.#endpoints.set(this.#nextId, endpoint);
    return this.#nextId;
  }

  /** Takes an id that the router gave out, or changes who owns one. */
  assign(id: number, endpoint: EdgeEndpoint): void {
    this.#endpoints.set(id, endpoint);
  }

  isTaken(id: number): boolean {
    return this.#endpoints.has(id);
  }

  /** Tells the router that a connection is over, if it can still be told. */
  sendClosed(id: number): void {
    if (this.isClosed) return;
    this.channel.send({ contentType: EdgeType.StateClosed, headers: new Headers().setU32(EdgeHeader.ConnId, id) });
  }

  /** Forgets the id if it is still this endpoint's. */
  remove(id: number, endpoint: EdgeEndpoint): void {
    this.resume(endpoint);
    if (this.#endpoints.get(id) === endpoint) this.#endpoints.delete(id);
  }

  /** The last resort of a connection whose reader does not keep up: stops reading for every connection, until all that paused have resumed. */
  pause(by: EdgeEndpoint): void {
    if (this.#pausedBy.size === 0) for (const underlay of this.channel.underlays) underlay.pause();
    this.#pausedBy.add(by);
  }

  resume(by: EdgeEndpoint): void {
    if (!this.#pausedBy.delete(by) || this.#pausedBy.size > 0) return;
    for (const underlay of this.channel.underlays) underlay.resume();
  }

  /** Tells the router the next access token of our session. @throws RouterError when it does not take it, or what `request` throws */
  async updateToken(token: string, timeoutMs = UPDATE_TIMEOUT_MS): Promise<void> {
    const update = { contentType: EdgeType.UpdateToken, body: Buffer.from(token) };
    const { contentType, body } = await this.channel.request(update, { timeoutMs });
    if (contentType === EdgeType.UpdateTokenSuccess) return;
    const reason = body.toString() || "no reason given";
    throw new RouterError(
      "TOKEN_REFUSED",
      `router ${this.router} does not take the next token of the session: ${reason}`,
    );
  }

  /** To be called regularly: probes the connections that were silent since the last call, and from time to time all, for the round trip. */
  watch(): void {
    const { underlays } = this.channel;
    const quiet = underlays.filter((underlay) => this.#watched.get(underlay) === underlay.reads);
    for (const underlay of underlays) this.#watched.set(underlay, underlay.reads);
    const isDue = performance.now() - this.#probedAt > LATENCY_INTERVAL_MS;
    if (isDue || quiet.length > 0) void this.probe(PROBE_TIMEOUT_MS, isDue ? underlays : quiet);
  }

  /** Measures the round trip on each of these connections, and closes those on which the router sends nothing at all. */
  async probe(timeoutMs = PROBE_TIMEOUT_MS, underlays: readonly Underlay[] = this.channel.underlays): Promise<void> {
    if (this.isClosed) return;
    this.#probedAt = performance.now();
    await Promise.all([...underlays].map((underlay) => this.#probe(underlay, timeoutMs)));
  }

  async #probe(via: Underlay, timeoutMs: number): Promise<void> {
    const { reads } = via;
    const startedAt = performance.now();
    const headers = new Headers().setU64(BaseHeader.Correlation, process.hrtime.bigint());
    try {
      await this.channel.request({ contentType: BaseType.Latency, headers }, { timeoutMs, via });
      this.latencyMs = performance.now() - startedAt;
    } catch (error) {
      // What came while this process stood still is read first.
      await nextTurn();
      if (this.isClosed || via.isClosed || via.reads !== reads || this.isPaused) return;
      via.close(error instanceof Error ? error : new Error(String(error)));
    }
  }

  #onFrame(frame: FrameView): boolean {
    const type = frame.contentType;
    const isCircuits = type === XgressType.Payload || type === XgressType.Acknowledgement;
    if (type !== EdgeType.Data && !isCircuits) return false;
    const { buffer, headersEnd } = frame;
    let id = -1;
    let flags = 0;
    let at = frame.headersStart;
    while (at + HEADER_ENTRY_PREFIX_LENGTH <= headersEnd) {
      const key = buffer.readInt32LE(at);
      const length = buffer.readUInt32LE(at + 4);
      const value = at + HEADER_ENTRY_PREFIX_LENGTH;
      at = value + length;
      if (length !== 4) continue;
      if (key === EdgeHeader.ConnId) id = buffer.readUInt32LE(value);
      else if (key === EdgeHeader.Flags) flags = buffer.readUInt32LE(value);
    }
    // What comes for an id that is gone was on its way when the connection closed: dropped.
    const endpoint = this.#endpoints.get(id);
    if (isCircuits) endpoint?.onCircuitFrame(frame);
    else endpoint?.onData(buffer, frame.bodyStart, frame.end, flags);
    return true;
  }

  #dispatch(message: Message): void {
    const id = message.headers.getU32(EdgeHeader.ConnId);
    if (message.contentType !== EdgeType.StateClosed) this.#hasServed = true;
    if (id !== undefined) this.#endpoints.get(id)?.onMessage(message);
  }

  #inspect(message: Message): void {
    const id = message.headers.getU32(EdgeHeader.ConnId) ?? 0;
    const endpoint = this.#endpoints.get(id);
    this.channel.reply(message, {
      contentType: EdgeType.ConnInspectResponse,
      headers: new Headers()
        .setU32(EdgeHeader.ConnId, id)
        .setByte(EdgeHeader.ConnType, endpoint?.connType ?? ConnType.Invalid),
      body: Buffer.from(endpoint?.describe() ?? `invalid conn id [${id}]`),
    });
  }

  /** This is the last hop of every trace that comes here. */
  #trace(message: Message): void {
    const headers = new Headers()
      .setU32(EdgeHeader.ConnId, message.headers.getU32(EdgeHeader.ConnId) ?? 0)
      .setU32(EdgeHeader.TraceHopCount, Math.max((message.headers.getU32(EdgeHeader.TraceHopCount) ?? 1) - 1, 0))
      .setString(EdgeHeader.TraceHopType, "sdk/sallyport")
      .setString(EdgeHeader.TraceHopId, "");
    for (const key of [BaseHeader.Correlation, EdgeHeader.Timestamp, EdgeHeader.TraceSourceRequestId]) {
      const value = message.headers.get(key);
      if (value !== undefined) headers.set(key, value);
    }
    this.channel.send({ contentType: EdgeType.TraceRouteResponse, headers });
  }
}

/** The version that the router announces; empty when it does not. */
function versionOf(channel: Channel): string {
  return channel.result.getString(BaseHeader.HelloVersion)?.split("|")[0] ?? "";
}

export interface HeldIdOptions {
  readonly limitMs: number;
  /** For routers that inspect the id. */
  readonly describe: () => string;
  /** Whether the router needs the id no more after this message. */
  readonly isLast: (message: Message) => boolean;
  readonly onTimeout?: () => void;
}

/** Keeps the id of a connection that is over here until its router is done with it, for a limited time. It keeps no process alive. */
export class HeldId implements EdgeEndpoint {
  readonly connType = ConnType.Dial;
  readonly describe: () => string;
  readonly #edge: EdgeChannel;
  readonly #id: number;
  readonly #isLast: (message: Message) => boolean;
  readonly #timer: NodeJS.Timeout;

  constructor(edge: EdgeChannel, id: number, o: HeldIdOptions) {
    this.describe = o.describe;
    this.#edge = edge;
    this.#id = id;
    this.#isLast = o.isLast;
    this.#timer = setTimeout(() => {
      this.#forget();
      o.onTimeout?.();
    }, o.limitMs).unref();
    edge.assign(id, this);
  }

  onData(): void {}

  onCircuitFrame(): void {}

  onMessage(message: Message): void {
    if (this.#isLast(message)) this.#forget();
  }

  onLost(): void {
    clearTimeout(this.#timer);
    this.#edge.finished(this);
  }

  #forget(): void {
    this.#edge.remove(this.#id, this);
    this.onLost();
  }
}
