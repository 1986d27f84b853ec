import { randomUUID } from "node:crypto";
import {
  acceptChannels,
  BaseHeader,
  type Channel,
  capabilityMask,
  dialChannel,
  EDGE_ALPN,
  EdgeHeader,
  EdgeType,
  Headers,
  type Identity,
  identityFromPem,
  type Message,
  RouterCapability,
  silentLogger,
  TlsPort,
  versionInfo,
  XgressType,
} from "@sallyport/wire";
import { TestAuthority } from "@sallyport/wire/testing";
import { headerOrders } from "@sallyport/wire/testing/header-orders";
import { EdgeChannel } from "../edge-channel.ts";
import type { LoginResult } from "../login/login.ts";
import { askForGroup } from "../router-pool.ts";

interface Side {
  readonly channel: Channel;
  readonly id: number;
}

interface TinyRouterOptions {
  /** It takes channels of several connections. */
  readonly grouped?: boolean;
  /** What it announces; the version info of this program when left out. */
  readonly version?: string;
  /** It takes dials by the id of a service. */
  readonly connectsByService?: boolean;
}

/**
 * Just enough of an edge router, on real TLS, to test the SDK's half of the protocol without a controller: a session
 * token is a service name, and both sides of a connection are on this router.
 */
export class TinyRouter {
  /** Every message that arrived, in order. */
  readonly received: Message[] = [];
  /** Leaves the flow control of circuits to the SDKs that can do it. */
  flowControl = false;
  /** Payloads and acknowledgements that are lost on their way. */
  loses: (message: Message) => boolean = () => false;
  /** Those that wait until `release`, while other messages pass them. */
  holds: (message: Message) => boolean = () => false;
  /** Leaves out connection ids of its own, as early routers did. */
  isLegacy = false;
  /** Text to refuse dials with. */
  refusal: string | undefined;
  /** What programs read with it. */
  refusalHeaders = new Headers();
  /** What it says of the next access token of a session; undefined: it takes it. */
  tokenRefusal: string | undefined;
  /** Orders the headers of Data, payloads and acknowledgements, as programs do that keep them in a hash table. */
  order: (headers: Headers) => Headers = (headers) => headers;
  /** Changes the body of Data on its way. */
  tamper: (body: Buffer, flags: number) => { body: Buffer; flags: number } = (body, flags) => ({ body, flags });
  readonly #port: TlsPort;
  readonly #authority: TestAuthority;
  readonly #channels: Channel[] = [];
  readonly #hosts = new Map<string, Side & { readonly key: Buffer | undefined }>();
  readonly #links = new Map<Channel, Map<number, Side>>();
  /** Dials sent to a host and not answered yet, oldest first: hosts answer in order. */
  readonly #dials = new Map<Channel, ((answer: Message) => void)[]>();
  readonly #held: (() => void)[] = [];
  #expected: { readonly contentType: number; readonly resolve: () => void }[] = [];
  #nextId = 0x8000_0000;

  private constructor(port: TlsPort, authority: TestAuthority, o: TinyRouterOptions) {
    this.#port = port;
    this.#authority = authority;
    const { grouped = false, version = versionInfo(), connectsByService = false } = o;
    acceptChannels(port, {
      name: "edge",
      protocols: [EDGE_ALPN],
      acceptsNoAlpn: true,
      id: "tiny",
      grouped,
      resultHeaders: () =>
        new Headers()
          .setString(BaseHeader.HelloVersion, version)
          .setBool(EdgeHeader.SupportsBindSuccess, true)
          .set(EdgeHeader.RouterCapabilities, capabilityMask(connectsByService ? [RouterCapability.ConnectV2] : [])),
      onChannel: (channel) => this.#take(channel),
      log: silentLogger,
    });
  }

  static async start(o: TinyRouterOptions = {}): Promise<TinyRouter> {
    // Named by chance: an application may trust several of them at once.
    const authority = await TestAuthority.create(`Tiny ${randomUUID()}`);
    const identity = await authority.identity("tiny");
    return new TinyRouter(await TlsPort.listen({ host: "127.0.0.1", port: 0, identity }), authority, o);
  }

  /** `tls:host:port` */
  get address(): string {
    return `tls:127.0.0.1:${this.#port.port}`;
  }

  /** A client's identity, which trusts this router and others. */
  async identity(name: string, others: readonly TinyRouter[] = []): Promise<Identity> {
    const { certPem, keyPem } = await this.#authority.identity(name);
    const authorities = [this, ...others].map((router) => router.#authority.certPem);
    return identityFromPem({ certPem, keyPem, caPem: authorities.join("\n") });
  }

  /** What a pool logs in with as that client: every router takes its token. */
  async login(name: string, others: readonly TinyRouter[] = []): Promise<() => Promise<LoginResult>> {
    const identity = await this.identity(name, others);
    const result = { kind: "legacy", token: "api-session", identityId: name, identityName: name, identity } as const;
    return async () => result;
  }

  /** A client's connection to it; `grouped` asks for a channel of several. */
  async connect(name: string, grouped = false): Promise<EdgeChannel> {
    const headers = new Headers().setString(EdgeHeader.SessionToken, "api-session");
    const channel = await dialChannel({
      address: this.address,
      identity: await this.identity(name),
      alpn: EDGE_ALPN,
      hello: { idToken: name, headers: grouped ? askForGroup(headers) : headers },
    });
    return new EdgeChannel(channel, "tiny");
  }

  /** Sends a message to the client that connected as number `index`. */
  send(index: number, contentType: number, headers: Headers, body?: Buffer): void {
    this.#channels[index]?.send({ contentType, headers, ...(body === undefined ? {} : { body }) });
  }

  /** Resolves when the next message of this type has arrived. */
  asked(contentType: number): Promise<void> {
    return new Promise((resolve) => this.#expected.push({ contentType, resolve }));
  }

  /** Takes down the circuits of the client that connected as number `index`. */
  unroute(index: number): void {
    const channel = this.#channels[index];
    if (channel === undefined) return;
    for (const id of this.#links.get(channel)?.keys() ?? []) {
      channel.send({ contentType: EdgeType.StateClosed, headers: connId(id), body: Buffer.from("xgress unrouted") });
    }
  }

  /** Lets go what `holds` has kept, in its order. */
  release(): void {
    for (const send of this.#held.splice(0)) send();
  }

  messages(contentType: number): Message[] {
    return this.received.filter((message) => message.contentType === contentType);
  }

  /** Reads nothing any more, as a router behind a line that is silently cut; `n`: from the n-th connection of each client. */
  freeze(n?: number): void {
    for (const { underlays } of this.#channels) {
      for (const underlay of n === undefined ? underlays : underlays.slice(n, n + 1)) underlay.pause();
    }
  }

  /** Drops every connection, as a router that goes away. */
  dropAll(): void {
    for (const channel of this.#channels) channel.close();
  }

  async close(): Promise<void> {
    this.dropAll();
    await this.#port.close();
  }

  #take(channel: Channel): void {
    this.#channels.push(channel);
    this.#links.set(channel, new Map());
    this.#dials.set(channel, []);
    const on = (type: number, handler: (message: Message) => void) =>
      channel.handle(type, (message) => {
        this.received.push(message);
        this.#expected = this.#expected.filter((expected) => {
          if (expected.contentType !== type) return true;
          expected.resolve();
          return false;
        });
        handler(message);
      });
    on(EdgeType.Bind, (message) => this.#bind(channel, message));
    on(EdgeType.Unbind, () => {});
    on(EdgeType.UpdateToken, (message) => {
      const refusal = this.tokenRefusal;
      if (refusal === undefined) channel.reply(message, { contentType: EdgeType.UpdateTokenSuccess });
      else channel.reply(message, { contentType: EdgeType.UpdateTokenFailure, body: Buffer.from(refusal) });
    });
    on(EdgeType.Connect, (message) => this.#connectThrough(channel, message, message.body.toString()));
    on(EdgeType.ConnectV2, (message) =>
      this.#connectThrough(channel, message, message.headers.getString(EdgeHeader.ServiceId) ?? ""),
    );
    // Handled at once, in the order of the wire: data of the new connection may follow in the same read.
    on(EdgeType.DialSuccess, (message) => this.#dials.get(channel)?.shift()?.(message));
    on(EdgeType.DialFailed, (message) => this.#dials.get(channel)?.shift()?.(message));
    on(EdgeType.ConnInspectResponse, () => {});
    on(EdgeType.TraceRouteResponse, () => {});
    // The first hop is this router; nothing is behind it.
    on(EdgeType.TraceRoute, (message) => {
      if (message.headers.getU32(EdgeHeader.TraceHopCount) !== 1) return;
      const headers = connId(message.headers.getU32(EdgeHeader.ConnId) ?? 0)
        .setString(EdgeHeader.TraceHopType, "xgress/edge")
        .setString(EdgeHeader.TraceHopId, "");
      channel.reply(message, { contentType: EdgeType.TraceRouteResponse, headers });
    });
    const pass = (message: Message): void => {
      const peer = this.#peerOf(channel, message);
      if (peer === undefined || this.loses(message)) return;
      const headers = this.order(message.headers.clone().setU32(EdgeHeader.ConnId, peer.id));
      const send = () => peer.channel.send({ contentType: message.contentType, headers, body: message.body });
      if (this.holds(message)) this.#held.push(send);
      else send();
    };
    on(XgressType.Payload, pass);
    on(XgressType.Acknowledgement, pass);
    on(XgressType.Close, () => {});
    on(EdgeType.StateClosed, (message) => {
      const peer = this.#peerOf(channel, message);
      peer?.channel.send({ contentType: EdgeType.StateClosed, headers: connId(peer.id), body: Buffer.from("closed") });
    });
    on(EdgeType.Data, (message) => {
      const peer = this.#peerOf(channel, message);
      if (peer === undefined) return;
      const { body, flags } = this.tamper(message.body, message.headers.getU32(EdgeHeader.Flags) ?? 0);
      const headers = flags === 0 ? connId(peer.id) : connId(peer.id).setU32(EdgeHeader.Flags, flags);
      peer.channel.send({ contentType: EdgeType.Data, headers: this.order(headers), body });
    });
  }

  #peerOf(channel: Channel, message: Message): Side | undefined {
    return this.#links.get(channel)?.get(message.headers.getU32(EdgeHeader.ConnId) ?? -1);
  }

  #bind(channel: Channel, message: Message): void {
    const id = message.headers.getU32(EdgeHeader.ConnId) ?? 0;
    this.#hosts.set(message.body.toString(), { channel, id, key: message.headers.get(EdgeHeader.PublicKey) });
    channel.reply(message, { contentType: EdgeType.StateConnected, headers: connId(id) });
    channel.send({ contentType: EdgeType.BindSuccess, headers: connId(id) });
  }

  #connectThrough(channel: Channel, message: Message, service: string): void {
    const id = message.headers.getU32(EdgeHeader.ConnId) ?? 0;
    const host = this.#hosts.get(service);
    const refuse = (text: string) => {
      const headers = this.refusalHeaders.clone().setU32(EdgeHeader.ConnId, id);
      channel.reply(message, { contentType: EdgeType.StateClosed, headers, body: Buffer.from(text) });
    };
    if (host === undefined || this.refusal !== undefined) {
      refuse(this.refusal ?? "service has no terminators");
      return;
    }
    const headers = connId(host.id).setString(EdgeHeader.CircuitId, "circuit-1");
    const given = this.#nextId++;
    if (this.#leavesFlowControl(message)) withFlowControl(headers, `host-${given}`);
    if (!this.isLegacy) headers.setU32(EdgeHeader.RouterProvidedConnId, given);
    for (const key of [EdgeHeader.PublicKey, EdgeHeader.CallerId, EdgeHeader.AppData, EdgeHeader.ConnectionMarker]) {
      const value = message.headers.get(key);
      if (value !== undefined) headers.set(key, value);
    }
    this.#dials.get(host.channel)?.push((answer) => {
      if (answer.contentType === EdgeType.DialSuccess) this.#connected({ channel, id }, host, message, answer);
      else refuse(answer.body.toString());
    });
    host.channel.send({ contentType: EdgeType.Dial, headers, body: Buffer.from(service) });
  }

  #leavesFlowControl(connect: Message): boolean {
    return this.flowControl && connect.headers.getBool(EdgeHeader.UseXgressToSdk) === true;
  }

  #connected(client: Side, host: Side & { readonly key: Buffer | undefined }, message: Message, answer: Message): void {
    const { channel, id } = client;
    const hostId = answer.body.readUInt32LE();
    this.#links.get(channel)?.set(id, { channel: host.channel, id: hostId });
    this.#links.get(host.channel)?.set(hostId, { channel, id });
    const connected = connId(id).setString(EdgeHeader.CircuitId, "circuit-1");
    if (this.#leavesFlowControl(message)) withFlowControl(connected, `client-${hostId}`);
    if (host.key !== undefined) connected.set(EdgeHeader.PublicKey, host.key);
    channel.reply(message, { contentType: EdgeType.StateConnected, headers: connected });
    if (this.isLegacy) host.channel.reply(answer, { contentType: EdgeType.StateConnected, headers: connId(hostId) });
  }
}

/** For `TinyRouter.order`: each message has the headers in the next of their orders. */
export function everyOrder(): (headers: Headers) => Headers {
  let turn = 0;
  return (headers) => {
    const orders = headerOrders(headers);
    return orders[turn++ % orders.length] as Headers;
  };
}

function connId(id: number): Headers {
  return new Headers().setU32(EdgeHeader.ConnId, id);
}

function withFlowControl(headers: Headers, address: string): void {
  headers
    .setBool(EdgeHeader.UseXgressToSdk, true)
    .setString(EdgeHeader.XgressCtrlId, "ctrl")
    .setString(EdgeHeader.XgressAddress, address);
}
