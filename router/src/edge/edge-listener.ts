import type { X509Certificate } from "node:crypto";
import { errorText } from "@sallyport/async";
import {
  acceptChannels,
  BaseHeader,
  boundedLog,
  type Channel,
  type ChannelPort,
  capabilityMask,
  EDGE_ALPN,
  EdgeHeader,
  EdgeType,
  type FrameView,
  Headers,
  type Hello,
  ipOf,
  KeptFrame,
  type Logger,
  RouterBinding,
  RouterCapability,
  SharedPlaces,
  type Underlay,
  versionInfo,
} from "@sallyport/wire";
import type { Access } from "../access/ports.ts";
import type { ControlPlane, IdentityChannel } from "../control/control-plane.ts";
import type { Forwarder } from "../forwarder/forwarder.ts";
import { admit, ClientRefusedError } from "./admission.ts";
import { Connector } from "./connector.ts";
import { type EdgeCounters, edgeCounters } from "./edge-counters.ts";
import { sessionEnded } from "./edge-messages.ts";
import { EdgeEgress } from "./hosting/edge-egress.ts";
import { Hosting } from "./hosting/hosting.ts";
import { EDGE_LIMITS, type EdgeOptions, type EdgeSettings } from "./options.ts";
import { SdkChannel, type SdkRequests } from "./sdk-channel.ts";
import { isJwt, opaqueSession, type SdkSession } from "./sdk-session.ts";
import { ServicePermissions } from "./tokens/service-permissions.ts";
import { TokenChannels } from "./tokens/token-channels.ts";

/** An SDK that sends more than this before it is admitted is not one. */
const MAX_EARLY_BYTES = 256 * 1024;

/**
 * What an SDK sends between the answer to its hello and its admission. Its connections are no longer read after the
 * first such frame, but what is in memory already, and what comes on connections that join meanwhile, must not be lost.
 */
class EarlyFrames {
  readonly frames: FrameView[] = [];
  readonly #paused = new Set<Underlay>();
  #bytes = 0;

  constructor(channel: Channel) {
    for (const underlay of channel.underlays) this.#pause(underlay);
    channel.onFrame = (frame, underlay) => {
      if (frame.contentType < EdgeType.PostureResponse) return false;
      this.#pause(underlay);
      const length = frame.end - frame.start;
      this.#bytes += length;
      if (this.#bytes > MAX_EARLY_BYTES) channel.close(new Error("too much was sent before the channel was admitted"));
      else this.frames.push(new KeptFrame(length).copyOf(frame));
      return true;
    };
  }

  /** Has the connections read again. */
  resume(): void {
    for (const underlay of this.#paused) underlay.resume();
    this.#paused.clear();
  }

  #pause(underlay: Underlay): void {
    if (this.#paused.has(underlay)) return;
    this.#paused.add(underlay);
    underlay.pause();
  }
}

/** One address that SDKs are served at. */
export interface EdgePort {
  /** The shared TLS port, or one for web sockets; the edge takes ALPN `ziti-edge` and connections that offer none. */
  readonly port: ChannelPort;
  readonly options: EdgeSettings & Partial<EdgeOptions>;
}

/** What SDKs are served with. */
interface EdgeParts {
  readonly ports: readonly EdgePort[];
  readonly control: ControlPlane;
  /** What access tokens are worth. */
  readonly access: Access;
  readonly forwarder: Forwarder;
  /** The network's CAs at the moment: what session certificates must chain to. */
  readonly anchors: () => readonly X509Certificate[];
  readonly counters?: EdgeCounters | undefined;
  /** Takes what data was slow to be handled, in nanoseconds; nothing is measured without. */
  readonly dataDelay?: ((ns: number) => void) | undefined;
  /** Is given each channel of an SDK whose hello was answered, before anything else passes it. */
  readonly onChannel?: ((channel: Channel) => void) | undefined;
  readonly log: Logger;
}

interface SendAwayOptions {
  /** Circuits that carry datagrams, which have no end of their own, are not waited for. */
  readonly cutsDatagrams?: boolean;
  /** SDKs that host are left alone: they may not be at another router yet. */
  readonly sparesHosts?: boolean;
}

/**
 * Serves SDKs at all its ports: admission, dials, listeners, and the egress binding `edge`
 * (docs/protocol/data-path.md, "Edge").
 */
export class EdgeListener {
  readonly #parts: EdgeParts;
  readonly #control: ControlPlane;
  readonly #log: Logger;
  /** SDKs that come and go, which a busy router has many of. */
  readonly #comings: Logger;
  readonly #counters: EdgeCounters;
  readonly #hosting: Hosting;
  readonly #tokens: TokenChannels;
  readonly #requests: SdkRequests;
  readonly #sdks = new Set<SdkChannel>();
  readonly #waiting = new Map<Channel, AbortController>();
  /** Channels by identity. */
  readonly #channelsOf = new Map<string, number>();
  readonly #stops: (() => void)[] = [];
  readonly #listening: (() => void)[] = [];
  readonly #connector: Connector;

  constructor(parts: EdgeParts) {
    this.#parts = parts;
    this.#control = parts.control;
    this.#log = boundedLog(parts.log);
    this.#comings = boundedLog(parts.log, { perReason: 10, perMessage: 300 });
    this.#counters = parts.counters ?? edgeCounters();
    const { control, access, forwarder, log } = parts;
    const permissions = new ServicePermissions(access);
    this.#hosting = new Hosting(control, permissions, log);
    this.#connector = new Connector(control, forwarder, permissions, log);
    this.#tokens = new TokenChannels({ access, permissions, hosting: this.#hosting, log: this.#log });
    this.#stops.push(() => this.#tokens.close());
    this.#requests = {
      connect: (sdk, connId, message) => this.#connector.connect(sdk, connId, message),
      connectByService: (sdk, connId, message) => this.#connector.connectByService(sdk, connId, message),
      bind: (sdk, connId, message) => this.#hosting.bind(sdk, connId, message),
      granted: (sdk, member) => this.#tokens.granted(sdk, member),
      ofChannel: this.#tokens.messages,
    };
    this.#follow(parts.control);
    this.#stops.push(
      parts.forwarder.registerEgress(RouterBinding.Edge, new EdgeEgress(this.#hosting, parts.forwarder)),
    );
    try {
      for (const { port, options } of parts.ports) this.#listen(port, { ...EDGE_LIMITS, ...options });
    } catch (error) {
      this.close();
      throw error;
    }
  }

  /** Admitted SDK channels. */
  get channels(): number {
    return this.#sdks.size;
  }

  sdks(): readonly SdkChannel[] {
    return [...this.#sdks];
  }

  get bindings(): number {
    return this.#hosting.count;
  }

  /**
   * Takes no more SDKs and no more dials, and closes the channels of SDKs without a circuit, which then go to another
   * router. To be repeated: a channel that carries circuits is left until they have ended.
   * @returns channels that are left
   */
  sendAway({ cutsDatagrams = false, sparesHosts = false }: SendAwayOptions = {}): number {
    this.#connector.stop();
    for (const stop of this.#listening.splice(0)) stop();
    for (const sdk of [...this.#sdks]) {
      if (sparesHosts && sdk.isHosting) continue;
      if (sdk.isIdle || (cutsDatagrams && sdk.hasDatagramsOnly)) sdk.channel.close();
    }
    return this.#sdks.size;
  }

  /** Takes no more SDKs at any port and closes the channels of those connected. */
  close(): void {
    for (const stop of this.#listening.splice(0)) stop();
    for (const stop of this.#stops.splice(0).reverse()) stop();
    for (const [channel, abort] of this.#waiting) {
      abort.abort();
      channel.close();
    }
    for (const sdk of [...this.#sdks]) sdk.channel.close();
  }

  #listen(port: ChannelPort, options: EdgeOptions): void {
    const places = new SharedPlaces({ places: options.maxWaiting, perAddress: Math.ceil(options.maxWaiting / 2) });
    this.#listening.push(
      acceptChannels(port, {
        name: "edge",
        protocols: [EDGE_ALPN],
        acceptsNoAlpn: true,
        id: this.#control.routerId,
        grouped: true,
        helloTimeoutMs: options.connectTimeoutMs,
        ...options.limits,
        log: this.#log,
        resultHeaders: (hello) => this.#resultHeaders(hello),
        onChannel: (channel) => this.#accept(channel, options, places),
      }),
    );
  }

  /** What this router can do at this moment. SDKs read it once per connection. */
  #resultHeaders(hello: Hello): Headers {
    const { control, access } = this.#parts;
    // Just after its start a router has no data model. SDKs with access tokens are not admitted before it has: they may rely on it.
    const hasModel = access.isReady || isJwt(hello.headers.getString(EdgeHeader.SessionToken) ?? "");
    const headers = new Headers()
      .setString(BaseHeader.HelloVersion, versionInfo())
      .setBool(EdgeHeader.SupportsBindSuccess, true);
    const bits: number[] = [RouterCapability.MultiChannel, RouterCapability.BindSuccess];
    if (hasModel) {
      headers.setBool(EdgeHeader.SupportsPostureChecks, true);
      bits.push(RouterCapability.PostureChecks, RouterCapability.ServiceSubscriptions);
      if (control.takesServiceCircuits) bits.push(RouterCapability.ConnectV2);
    }
    return headers.set(EdgeHeader.RouterCapabilities, capabilityMask(bits));
  }

  #follow(control: ControlPlane): void {
    this.#stops.push(
      control.onApiSessionRemoved((session) => {
        for (const sdk of [...this.#sdks]) {
          if (isOpaque(sdk, session.id)) sdk.channel.close(new Error("the API session was removed"));
        }
      }),
      control.onApiSessionUpdated((session) => {
        for (const sdk of this.#sdks) if (isOpaque(sdk, session.id)) sdk.session = opaqueSession(session);
      }),
      control.onSessionRemoved((token) => {
        for (const sdk of this.#sdks) sdk.closeSession(token, sessionEnded());
        this.#hosting.closeSession(token);
      }),
      control.onTerminatorLost((id, outcome) => this.#hosting.terminatorLost(id, outcome)),
      control.onValidateTerminators(RouterBinding.Edge, (terminator, fix) => this.#hosting.validate(terminator, fix)),
    );
    control.setTokenSource({
      // Access tokens are not kept alive: they end by themselves.
      apiSessionTokens: () => new Set([...this.#opaque()].map((sdk) => sdk.session.token)),
      sessionTokens: () => new Set([...this.#opaque()].flatMap((sdk) => [...sdk.sessionTokens()])),
    });
  }

  *#opaque(): Iterable<SdkChannel> {
    for (const sdk of this.#sdks) if (sdk.session.kind === "opaque") yield sdk;
  }

  /** A hello was answered; what the SDK sends is only acted on when it is known who it is. */
  #accept(channel: Channel, options: EdgeOptions, places: SharedPlaces): void {
    this.#parts.onChannel?.(channel);
    const abort = new AbortController();
    const place = places.take(ipOf(channel.peer.address), () =>
      abort.abort(new ClientRefusedError("too many channels wait for their API session; this one has waited longest")),
    );
    const early = new EarlyFrames(channel);
    this.#waiting.set(channel, abort);
    channel.onClose(() => abort.abort());
    admit(channel, this.#parts, {
      anchors: this.#parts.anchors(),
      timeoutMs: options.lookupApiSessionTimeoutMs,
      signal: abort.signal,
    })
      .then((session) => {
        if (channel.isClosed) return;
        this.#requireRoom(session.identityId, options.maxChannels);
        this.#serve(
          new SdkChannel(channel, session, {
            requests: this.#requests,
            options,
            counts: this.#counters,
            dataDelay: this.#parts.dataDelay,
          }),
          early.frames,
        );
        early.resume();
      })
      .catch((error: unknown) => {
        this.#counters.connectsFailed++;
        if (error instanceof ClientRefusedError && error.isUnknownSession) {
          this.#counters.invalidTokens++;
          if (!this.#control.isConnected()) this.#counters.invalidTokensDuringSync++;
        }
        if (!channel.isClosed) {
          const fields = { peer: channel.peer.address, client: channel.remoteId, reason: errorText(error) };
          this.#log.warn(fields, "SDK not admitted");
        }
        channel.close();
      })
      .finally(() => {
        place?.release();
        this.#waiting.delete(channel);
      });
  }

  /** @throws ClientRefusedError when the identity has as many channels as it may have */
  #requireRoom(identityId: string, most: number): void {
    if ((this.#channelsOf.get(identityId) ?? 0) < most) return;
    throw new ClientRefusedError(`identity ${identityId} has ${most} channels here, which is the most one may have`);
  }

  #serve(sdk: SdkChannel, early: readonly FrameView[]): void {
    const connection: IdentityChannel = {
      identityId: sdk.session.identityId,
      connectionId: sdk.channel.connectionId,
      remoteAddress: sdk.channel.peer.address,
      localAddress: sdk.options.advertise,
    };
    const { identityId } = connection;
    this.#sdks.add(sdk);
    this.#channelsOf.set(identityId, (this.#channelsOf.get(identityId) ?? 0) + 1);
    this.#counters.connects++;
    // What its device says of itself may be among what came early.
    this.#tokens.add(sdk);
    sdk.start(early);
    this.#control.identityConnected(connection);
    this.#comings.info({ identityId, peer: connection.remoteAddress }, "SDK connected");
    sdk.channel.onClose((reason) => {
      this.#sdks.delete(sdk);
      const left = (this.#channelsOf.get(identityId) ?? 1) - 1;
      if (left > 0) this.#channelsOf.set(identityId, left);
      else this.#channelsOf.delete(identityId);
      this.#counters.disconnects++;
      this.#tokens.remove(sdk);
      sdk.channelClosed();
      this.#control.identityDisconnected(connection);
      this.#comings.info({ identityId, peer: connection.remoteAddress, reason: reason?.message }, "SDK disconnected");
    });
  }
}

function isOpaque({ session }: { readonly session: SdkSession }, id: string): boolean {
  return session.kind === "opaque" && session.id === id;
}
