import {
  BaseHeader,
  BaseType,
  type Channel,
  ConnType,
  EdgeHeader,
  EdgeType,
  type FrameView,
  firstRouterConnId,
  Headers,
  type Message,
  type Output,
} from "@sallyport/wire";

/** Who takes the messages of one connection id: a connection, an attempt to make one, or a hosted service. */
export interface EdgeEndpoint {
  /** Type and text that a router learns when it inspects the id. */
  readonly connType: (typeof ConnType)[keyof typeof ConnType];
  describe(): string;
  /** Data, in place: the bytes `start..end` of `buffer` are valid only during the call. `flags` are bits of `EdgeFlag`. */
  onData(buffer: Buffer, start: number, end: number, flags: number): void;
  onMessage(message: Message): void;
  /** The connection to the router is gone, and with it this id. */
  onLost(reason: Error | undefined): void;
}

const entryPrefix = 8;
const probeTimeoutMs = 10_000;

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
  /** Last measured round trip in milliseconds. */
  latencyMs: number | undefined;
  readonly #endpoints = new Map<number, EdgeEndpoint>();
  readonly #pausedBy = new Set<EdgeEndpoint>();
  #nextId = 0;
  #frames = 0;

  constructor(channel: Channel, router: string) {
    this.channel = channel;
    this.router = router;
    this.tellsBindSuccess = channel.result.getBool(EdgeHeader.SupportsBindSuccess) === true;
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
    });
  }

  get isClosed(): boolean {
    return this.channel.isClosed;
  }

  /** Where Data frames are written. @throws ChannelClosedError */
  get output(): Output {
    return this.channel.underlayFor(0).output;
  }

  /** A connection on it is not read by its application, so nothing comes through. */
  get isPaused(): boolean {
    return this.#pausedBy.size > 0;
  }

  /** Gives an endpoint a connection id of ours. */
  register(endpoint: EdgeEndpoint): number {
    do {
      this.#nextId = (this.#nextId % (firstRouterConnId - 1)) + 1;
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

  /** Forgets the id if it is still this endpoint's. */
  remove(id: number, endpoint: EdgeEndpoint): void {
    this.resume(endpoint);
    if (this.#endpoints.get(id) === endpoint) this.#endpoints.delete(id);
  }

  /**
   * Stops reading from the router, for every connection on it: the last resort of a connection whose reader does not
   * keep up. Reading goes on when everybody who paused has resumed or is gone.
   */
  pause(by: EdgeEndpoint): void {
    if (this.#pausedBy.size === 0) for (const underlay of this.channel.underlays) underlay.pause();
    this.#pausedBy.add(by);
  }

  resume(by: EdgeEndpoint): void {
    if (!this.#pausedBy.delete(by) || this.#pausedBy.size > 0) return;
    for (const underlay of this.channel.underlays) underlay.resume();
  }

  /** Measures the round trip. A router that neither answers nor sends anything else meanwhile is given up. */
  async probe(): Promise<void> {
    const framesBefore = this.#frames;
    const startedAt = performance.now();
    try {
      await this.channel.request(
        {
          contentType: BaseType.Latency,
          headers: new Headers().setU64(BaseHeader.Correlation, process.hrtime.bigint()),
        },
        { timeoutMs: probeTimeoutMs },
      );
      this.latencyMs = performance.now() - startedAt;
    } catch (error) {
      if (this.isClosed || this.#frames !== framesBefore || this.isPaused) return;
      this.channel.close(error instanceof Error ? error : undefined);
    }
  }

  #onFrame(frame: FrameView): boolean {
    this.#frames++;
    if (frame.contentType !== EdgeType.Data) return false;
    const { buffer, headersEnd } = frame;
    let id = -1;
    let flags = 0;
    let at = frame.headersStart;
    while (at + entryPrefix <= headersEnd) {
      const key = buffer.readInt32LE(at);
      const length = buffer.readUInt32LE(at + 4);
      const value = at + entryPrefix;
      at = value + length;
      if (length !== 4) continue;
      if (key === EdgeHeader.ConnId) id = buffer.readUInt32LE(value);
      else if (key === EdgeHeader.Flags) flags = buffer.readUInt32LE(value);
    }
    // Data for an id that is gone was on its way when the connection closed: dropped.
    this.#endpoints.get(id)?.onData(buffer, frame.bodyStart, frame.end, flags);
    return true;
  }

  #dispatch(message: Message): void {
    const id = message.headers.getU32(EdgeHeader.ConnId);
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
