import type { X509Certificate } from "node:crypto";
import { errorText } from "@sallyport/async";
import {
  acceptChannels,
  BaseHeader,
  boundedLog,
  type Channel,
  CONTROL_ALPN,
  CONTROLLER_CAPABILITIES,
  ControlHello,
  ctrlPb,
  decodeControl,
  Headers,
  type Hello,
  hasCapability,
  type Logger,
  type Peer,
  parseVersionInfo,
  RouterCapability,
  SHARED_CAPABILITIES,
  type TlsPort,
  verifyLeaf,
  versionInfo,
} from "@sallyport/wire";
import type { Mesh } from "../links/mesh.ts";
import type { FabricOptions } from "../options.ts";
import type { FabricModel, RouterRecord } from "../ports.ts";
import { AdmissionError, admissionRefusal, TakeoverLimit } from "./admission.ts";
import { ROUTER_LINES, RouterConnection, type RouterListener } from "./router-connection.ts";
import { RememberedShares } from "./time-share.ts";

const HEARTBEAT_SEND_MS = 10_000;
const HEARTBEAT_CHECK_MS = 1_000;

interface ControlListenerParts {
  /** Is the controller one of several? */
  readonly isShared: boolean;
  readonly controllerId: string;
  readonly trustAnchors: () => readonly X509Certificate[];
  readonly model: Pick<FabricModel, "findRouter">;
  readonly mesh: Mesh;
  readonly options: Pick<
    FabricOptions,
    "routerConnectChurnLimitMs" | "now" | "maxTakeovers" | "closeUnresponsiveMs" | "maxQueuedBytes"
  >;
  /** Sets the handlers of a new connection, before anything is read from it. */
  readonly attach: (router: RouterConnection) => void;
  /** `isNewProcess`: nothing of what the router had before exists any more. */
  readonly onConnected: (router: RouterConnection, isNewProcess: boolean) => void;
  readonly onDisconnected: (router: RouterConnection, reason: Error | undefined) => void;
  readonly log: Logger;
}

/** Admits routers and turns their channels into connections. Source: docs/protocol/fabric.md, "Admission". */
export class ControlListener {
  readonly #parts: ControlListenerParts;
  readonly #takeovers: TakeoverLimit;
  readonly #routerLog: Logger;
  readonly #shares = new RememberedShares();
  /** Routers admitted whose channel is not there yet. */
  readonly #admitted = new WeakMap<Hello, RouterRecord>();

  constructor(parts: ControlListenerParts) {
    this.#parts = parts;
    this.#routerLog = boundedLog(parts.log, ROUTER_LINES);
    this.#takeovers = new TakeoverLimit(parts.options.routerConnectChurnLimitMs, parts.options.maxTakeovers);
  }

  /** Accepts routers on `port`; returns how to stop. Connections that exist then stay. */
  listen(port: TlsPort): () => void {
    const { controllerId, isShared, log } = this.#parts;
    const capabilities = isShared ? SHARED_CAPABILITIES : CONTROLLER_CAPABILITIES;
    return acceptChannels(port, {
      name: "ctrl",
      protocols: [CONTROL_ALPN],
      acceptsNoAlpn: false,
      id: controllerId,
      authorize: (hello, peer) => this.#admit(hello, peer),
      resultHeaders: () =>
        new Headers()
          .setString(ControlHello.Version, versionInfo())
          .set(ControlHello.Capabilities, capabilities)
          .set(ControlHello.CapabilitiesV2, capabilities),
      grouped: true,
      onChannel: (channel) => this.#connected(channel),
      log,
    });
  }

  /** @throws AdmissionError: the connection is closed without an answer */
  async #admit(hello: Hello, peer: Peer): Promise<void> {
    const { trustAnchors, model, mesh, options } = this.#parts;
    const { idToken: id } = hello;
    const [leaf, ...intermediates] = peer.certificates;
    let untrusted: string | undefined;
    try {
      if (leaf !== undefined) verifyLeaf({ leaf, intermediates, anchors: trustAnchors(), at: new Date(options.now()) });
    } catch (error) {
      untrusted = errorText(error);
    }
    const isTrusted = leaf !== undefined && untrusted === undefined;
    const router = isTrusted ? await model.findRouter(id) : undefined;
    const mayTakeOver = mesh.router(id) === undefined || this.#takeovers.allows(id, performance.now());
    const refusal = admissionRefusal({ fingerprint: peer.fingerprint, isTrusted, router, mayTakeOver });
    if (refusal !== undefined || router === undefined) {
      throw new AdmissionError(refusal ?? "unknown-router", id, untrusted);
    }
    this.#admitted.set(hello, router);
  }

  /** @throws when the hello's headers are unusable: the channel is closed */
  #connected(channel: Channel): void {
    const { mesh, options, log, attach, onConnected, onDisconnected } = this.#parts;
    const record = this.#admitted.get(channel.hello);
    if (record === undefined) throw new Error(`the router ${channel.remoteId} was not admitted`);
    const { headers } = channel.hello;
    const router = new RouterConnection({
      record,
      channel,
      version: parseVersionInfo(headers.getString(ControlHello.Version) ?? ""),
      listeners: this.#listenersOf(channel),
      ctrlChanListeners: this.#ctrlChanListenersOf(channel),
      connectedAt: new Date(options.now()),
      maxQueuedBytes: options.maxQueuedBytes,
      share: mesh.router(record.id)?.share ?? this.#shares.of(record.id),
      log: this.#routerLog,
    });
    attach(router);
    channel.onClose((reason) => {
      this.#shares.left(router.id, router.share, performance.now());
      onDisconnected(router, reason);
    });
    channel.enableHeartbeats({
      sendIntervalMs: HEARTBEAT_SEND_MS,
      checkIntervalMs: HEARTBEAT_CHECK_MS,
      closeUnresponsiveMs: options.closeUnresponsiveMs,
    });
    const replaced = mesh.connected(router);
    if (replaced !== undefined) {
      this.#takeovers.record(router.id, performance.now());
      replaced.channel.close(new Error(`router ${router.id} has connected again`));
    }
    log.info({ routerId: router.id, peer: channel.peer.address, version: router.version.version }, "router connected");
    const isSameProcess = (headers.get(BaseHeader.ConnectionId)?.length ?? 0) > 0;
    onConnected(router, !isSameProcess);
  }

  #listenersOf(channel: Channel): RouterListener[] {
    const { headers } = channel.hello;
    // A router with new header numbers may have the number of the old ones for what they mean on a grouped channel.
    const isNew = hasCapability(headers.get(ControlHello.CapabilitiesV2), RouterCapability.MultiChannel);
    const bytes = headers.get(isNew ? ControlHello.ListenersV2 : ControlHello.Listeners);
    const problem = "the router's link listeners cannot be decoded; no router will dial it";
    const decode = (given: Buffer) => decodeControl(ctrlPb.ListenersSchema, given).listeners;
    return this.#decoded(channel, bytes, decode, problem) ?? [];
  }

  #ctrlChanListenersOf(channel: Channel): Record<string, string[]> | undefined {
    const bytes = channel.hello.headers.get(ControlHello.CtrlChanListeners);
    const problem = "where controllers could dial the router cannot be decoded";
    const decode = (given: Buffer) => decodeControl(ctrlPb.CtrlChanListenersSchema, given).listeners;
    const listeners = this.#decoded(channel, bytes, decode, problem);
    return listeners && Object.fromEntries(listeners.map(({ address, groups }) => [address, groups]));
  }

  /** What a header of the hello says; a router that says it wrong is admitted without it. */
  #decoded<T>(
    channel: Channel,
    bytes: Buffer | undefined,
    decode: (bytes: Buffer) => T,
    problem: string,
  ): T | undefined {
    if (bytes === undefined) return undefined;
    try {
      return decode(bytes);
    } catch (err) {
      this.#parts.log.warn({ routerId: channel.remoteId, err }, problem);
      return undefined;
    }
  }
}
