import {
  BaseHeader,
  type Channel,
  ControlHeader,
  ControlHello,
  ControlType,
  ControlUnderlay,
  capabilityMask,
  ctrlPb,
  decodeControl,
  dialChannel,
  dialUnderlay,
  EdgeCtrlType,
  edgeCtrlPb,
  encodeControl,
  Headers,
  type Identity,
  type Message,
  type Outgoing,
  RouterCapability,
} from "@sallyport/wire";

const WAIT_MS = 20_000;

export interface ScriptedRouterOptions {
  readonly port: number;
  readonly identity: Identity;
  /** Defaults to the identity's id. */
  readonly id?: string;
  /** Of OpenZiti: 1 has one connection, 2 a group of them, and other header numbers. Defaults to 1. */
  readonly generation?: 1 | 2;
  /** Connection id of an earlier channel: the hello of a reconnect. */
  readonly previousConnection?: string;
  /** Generation 2: the secret of its group, which it offers when it comes back. */
  readonly secret?: Uint8Array;
  /** Generation 2: bits of its mask; all of OpenZiti 2.1 when absent. */
  readonly capabilities?: readonly number[];
  readonly listeners?: readonly { readonly address: string; readonly protocol: string }[];
  /** Header 4; empty: none. */
  readonly version?: string;
  /** Leaves the question for circuits from before the controller's start to the test; else the answer is that there are none. */
  readonly hasFormerCircuits?: boolean;
  /** What it answers to that question, as often as it comes. */
  readonly circuits?: () => readonly object[];
  /** Raw header 10, in place of `listeners`. */
  readonly rawListeners?: Uint8Array;
  /** Further headers of the hello. */
  readonly headers?: Headers;
}

/** A router that says exactly what a test has it say, over a real control channel. Nothing it receives is lost: every message waits until it is asked for. */
export class ScriptedRouter {
  readonly id: string;
  readonly channel: Channel;
  readonly #arrived: Message[] = [];
  readonly #waiting: { readonly matches: (m: Message) => boolean; readonly take: (m: Message) => void }[] = [];

  private constructor(
    id: string,
    channel: Channel,
    { hasFormerCircuits, circuits }: Pick<ScriptedRouterOptions, "hasFormerCircuits" | "circuits">,
  ) {
    this.id = id;
    this.channel = channel;
    if (hasFormerCircuits !== true) {
      channel.handle(ControlType.InspectRequest, (message) => {
        const { requestedValues } = decodeControl(ctrlPb.InspectRequestSchema, message.body);
        if (!requestedValues.includes("circuit-routes")) this.#arrive(message);
        else
          channel.reply(message, { contentType: ControlType.InspectResponse, ...(circuits && answerOf(circuits())) });
      });
    }
    channel.handleOther((message) => this.#arrive(message));
  }

  static async connect(options: ScriptedRouterOptions): Promise<ScriptedRouter> {
    const id = options.id ?? options.identity.id;
    const headers = options.headers?.clone() ?? new Headers();
    const isNew = options.generation === 2;
    const version = options.version ?? `v${isNew ? "2.1.0" : "1.6.20"}|rev|2026-01-01|linux|amd64`;
    if (version !== "") headers.setString(ControlHello.Version, version);
    const listenersKey = isNew ? ControlHello.ListenersV2 : ControlHello.Listeners;
    if (options.rawListeners !== undefined) {
      headers.set(listenersKey, options.rawListeners);
    } else if (options.listeners !== undefined) {
      const listeners = options.listeners.map((l) => ({ ...l, groups: ["default"] }));
      headers.set(listenersKey, encodeControl(ctrlPb.ListenersSchema, { listeners }));
    }
    if (isNew) {
      const bits = options.capabilities ?? Object.values(RouterCapability);
      headers
        .set(ControlHello.CapabilitiesV2, capabilityMask(bits))
        .setBool(BaseHeader.IsGrouped, true)
        .setString(BaseHeader.Type, ControlUnderlay.Default)
        .setBool(BaseHeader.IsFirstGroupConnection, true);
      if (options.secret !== undefined) headers.set(BaseHeader.GroupSecret, options.secret);
    } else {
      headers.set(
        ControlHello.RouterMetadata,
        encodeControl(ctrlPb.RouterMetadataSchema, { capabilities: [ctrlPb.RouterCapability.LinkManagement] }),
      );
    }
    if (options.previousConnection !== undefined) {
      headers.setString(BaseHeader.ConnectionId, options.previousConnection);
    }
    const channel = await dialChannel({
      address: `tls:127.0.0.1:${options.port}`,
      identity: options.identity,
      alpn: "ziti-ctrl",
      hello: { idToken: id, headers },
      timeoutMs: WAIT_MS,
    });
    return new ScriptedRouter(id, channel, options);
  }

  /** Generation 2: adds a connection of a type, `ctrl.high` as OpenZiti's routers do some seconds after the first. */
  async join(type: string = ControlUnderlay.High): Promise<void> {
    await dialUnderlay(this.channel, { type });
  }

  /** Ends the connections of a type. */
  leave(type: string = ControlUnderlay.High): void {
    for (const underlay of [...this.channel.underlays]) if (underlay.type === type) underlay.close();
  }

  /** The next message of a type (that `matches`), also one that has arrived already. */
  async next(contentType: number, matches: (m: Message) => boolean = () => true): Promise<Message> {
    const isWanted = (m: Message) => m.contentType === contentType && matches(m);
    const at = this.#arrived.findIndex(isWanted);
    const [waiting] = at < 0 ? [] : this.#arrived.splice(at, 1);
    if (waiting !== undefined) return waiting;
    const { promise, resolve, reject } = Promise.withResolvers<Message>();
    const timer = setTimeout(
      () => reject(new Error(`router ${this.id}: no message of type ${contentType} came; others: ${this.#types()}`)),
      WAIT_MS,
    );
    this.#waiting.push({ matches: isWanted, take: resolve });
    return promise.finally(() => clearTimeout(timer));
  }

  /** Messages of a type that have arrived and were not asked for. */
  pending(contentType: number): Message[] {
    return this.#arrived.filter((m) => m.contentType === contentType);
  }

  send(contentType: number, body?: Uint8Array, headers?: Headers): void {
    this.channel.send({
      contentType,
      ...(body === undefined ? {} : { body }),
      ...(headers === undefined ? {} : { headers }),
    });
  }

  request(out: Outgoing): Promise<Message> {
    return this.channel.request(out, { timeoutMs: WAIT_MS });
  }

  /** Resolves when the controller has worked off everything sent so far that needs no store. */
  async roundTrip(): Promise<void> {
    await this.request({ contentType: 1 });
  }

  /** Answers the controller's hello, as an edge router does; the session synchronisation starts. */
  async hello(port = 3022): Promise<void> {
    const serverHello = await this.next(EdgeCtrlType.ServerHello);
    const hostname = `${this.id}.example`;
    const body = encodeControl(edgeCtrlPb.ClientHelloSchema, {
      version: "v1.6.20",
      hostname,
      listeners: [{ advertise: { value: `tls:${hostname}:${port}`, protocol: "tls", hostname, port } }],
    });
    this.channel.reply(serverHello, { contentType: EdgeCtrlType.ClientHello, body });
  }

  async nextRoute(circuitId?: string): Promise<{ message: Message; route: ctrlPb.Route }> {
    const decode = (m: Message) => decodeControl(ctrlPb.RouteSchema, m.body);
    const message = await this.next(
      ControlType.Route,
      (m) => circuitId === undefined || decode(m).circuitId === circuitId,
    );
    return { message, route: decode(message) };
  }

  async nextUnroute(): Promise<ctrlPb.Unroute> {
    return decodeControl(ctrlPb.UnrouteSchema, (await this.next(ControlType.Unroute)).body);
  }

  acceptRoute(message: Message, peerData: ReadonlyMap<number, Uint8Array> = new Map()): void {
    const route = decodeControl(ctrlPb.RouteSchema, message.body);
    const headers = new Headers()
      .setU32(ControlHeader.RouteResultAttempt, route.attempt)
      .setBool(ControlHeader.RouteResultSuccess, true);
    for (const [key, value] of peerData) headers.set(key, value);
    this.channel.reply(message, { contentType: ControlType.RouteResult, headers, body: Buffer.from(route.circuitId) });
  }

  refuseRoute(message: Message, code: number, text: string): void {
    const route = decodeControl(ctrlPb.RouteSchema, message.body);
    const headers = new Headers()
      .setU32(ControlHeader.RouteResultAttempt, route.attempt)
      .setString(ControlHeader.RouteResultError, text)
      .setByte(ControlHeader.RouteResultErrorCode, code);
    this.channel.reply(message, { contentType: ControlType.RouteResult, headers, body: Buffer.from(route.circuitId) });
  }

  close(): void {
    this.channel.close();
  }

  #arrive(message: Message): void {
    const at = this.#waiting.findIndex((w) => w.matches(message));
    const [waiter] = at < 0 ? [] : this.#waiting.splice(at, 1);
    if (waiter === undefined) this.#arrived.push(message);
    else waiter.take(message);
  }

  #types(): string {
    return this.#arrived.map((m) => m.contentType).join(", ");
  }
}

function answerOf(circuits: readonly object[]) {
  const values = [{ name: "circuit-routes", value: JSON.stringify({ circuits }) }];
  return { body: encodeControl(ctrlPb.InspectResponseSchema, { success: true, errors: [], values }) };
}
