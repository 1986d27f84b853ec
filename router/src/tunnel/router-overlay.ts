import { EndToEnd, KEY_BYTES, type Sodium } from "@sallyport/sdk";
import type {
  ConnectionKind,
  HostedTerminator,
  Overlay,
  OverlayConnection,
  OverlayDial,
  OverlayHosting,
  OverlayIdentity,
  OverlayService,
} from "@sallyport/tunnel";
import { type Logger, PeerData, precedenceName, Xgress, type XgressOptions } from "@sallyport/wire";
import type { TunnelControl } from "../control/tunnel/tunnel-control.ts";
import type { TunnelerService, TunnelIdentity } from "../control/tunnel/tunnel-identity.ts";
import type { Forwarder } from "../forwarder/forwarder.ts";
import { CircuitConnection } from "./circuit-connection.ts";
import { TunnelEgress } from "./egress.ts";
import { HostedTerminators, type TerminatorControl } from "./hosted-terminators.ts";

/** Settings of circuits that start or end in the tunneler. */
export interface TunnelXgress {
  readonly xgress: XgressOptions;
  /** See `CircuitConnection`. */
  readonly mtu: number;
}

export interface RouterOverlayOptions {
  readonly routerId: string;
  readonly control: TerminatorControl & Pick<TunnelControl, "onIdentity" | "createCircuit">;
  readonly forwarder: Forwarder;
  readonly sodium: Sodium;
  /** What makes terminator ids this router's own. */
  readonly secret: string;
  /** Of circuits that start here, and of those that end here. */
  readonly dialed: TunnelXgress;
  readonly hosted: TunnelXgress;
  readonly log: Logger;
  /** See `HostedTerminators`. */
  readonly onTerminatorCreated?: (ns: number) => void;
  /** See `HostedTerminators`; for tests. */
  readonly settleMs?: number;
}

const NO_IDENTITY: OverlayIdentity = { id: "", name: "", appData: {} };
const NO_SERVICES: ReadonlyMap<string, OverlayService> = new Map();

/**
 * The network under the router's own tunneler: circuits start and end in the router itself, as the identity that has the
 * router's id (docs/protocol/data-path.md, "Tunnel"). Without such an identity, or with a disabled one, there are no
 * services.
 */
export class RouterOverlay implements Overlay {
  /** What `dialers` of the binding `tunnel` are. */
  readonly egress: TunnelEgress;
  readonly #o: RouterOverlayOptions;
  readonly #hosted: HostedTerminators;
  readonly #connections = new Set<CircuitConnection>();
  readonly #unsubscribes = new Set<() => void>();
  #identity: OverlayIdentity;

  constructor(options: RouterOverlayOptions) {
    this.#o = options;
    this.#identity = { ...NO_IDENTITY, id: options.routerId };
    this.#hosted = new HostedTerminators(options);
    this.egress = new TunnelEgress({
      ...options,
      find: (id) => this.#hosted.find(id),
      terminate: (request, kind, endToEnd) =>
        this.#open({ ...request, side: "terminator" }, kind, endToEnd, options.hosted),
    });
  }

  get identity(): OverlayIdentity {
    return this.#identity;
  }

  /** Terminators of this router, and connections. */
  get counts(): { readonly terminators: number; readonly connections: number } {
    return { terminators: this.#hosted.size, connections: this.#connections.size };
  }

  /** Whether a terminator of the binding `tunnel` is here; answered when the services are known. */
  hasTerminator(id: string): Promise<boolean> {
    return this.#hosted.isHere(id);
  }

  onServices(listener: (services: ReadonlyMap<string, OverlayService>) => void): () => void {
    const unsubscribe = this.#o.control.onIdentity((identity) => {
      this.#identity = identity ?? { ...NO_IDENTITY, id: this.#o.routerId };
      this.#hosted.servicesKnown();
      listener(identity === undefined ? NO_SERVICES : servicesOf(identity));
    });
    this.#unsubscribes.add(unsubscribe);
    return () => {
      this.#unsubscribes.delete(unsubscribe);
      unsubscribe();
    };
  }

  async dial(service: OverlayService, o: OverlayDial): Promise<OverlayConnection> {
    o.signal?.throwIfAborted();
    const { sodium } = this.#o;
    const own = service.isEncrypted ? sodium.createKeyPair() : undefined;
    const peerData = new Map<number, Buffer>();
    if (own !== undefined) peerData.set(PeerData.PublicKey, own.publicKey);
    if (Object.keys(o.appData).length > 0) peerData.set(PeerData.AppData, Buffer.from(JSON.stringify(o.appData)));
    if (o.localAddress !== undefined) peerData.set(PeerData.InitiatorLocalAddress, Buffer.from(o.localAddress));
    if (o.remoteAddress !== undefined) peerData.set(PeerData.InitiatorRemoteAddress, Buffer.from(o.remoteAddress));
    // The answer is always awaited: a circuit that was built must be taken down, even when the client has left.
    const circuit = await this.#o.control.createCircuit({
      serviceName: service.name,
      instanceId: o.instanceId,
      peerData,
      timeoutMs: o.timeoutMs,
    });
    try {
      o.signal?.throwIfAborted();
      const peerKey = circuit.peerData.get(PeerData.PublicKey);
      if (own !== undefined && peerKey?.length !== KEY_BYTES) {
        throw new Error(`service ${service.name} is encrypted from end to end, and its host sent no key`);
      }
      const endToEnd =
        own === undefined || peerKey === undefined
          ? undefined
          : new EndToEnd({ sodium, keys: sodium.sessionKeys("client", own, peerKey) });
      return this.#open({ ...circuit, side: "initiator" }, o.kind, endToEnd, this.#o.dialed);
    } catch (error) {
      this.#o.forwarder.giveUp(circuit);
      throw error;
    }
  }

  async host(service: OverlayService, o: OverlayHosting): Promise<HostedTerminator> {
    return this.#hosted.host(service, o);
  }

  async close(): Promise<void> {
    for (const unsubscribe of this.#unsubscribes) unsubscribe();
    this.#unsubscribes.clear();
    this.#hosted.close();
    for (const connection of [...this.#connections]) connection.close("the tunneler stops");
  }

  #open(
    circuit: { circuitId: string; address: string; side: "initiator" | "terminator" },
    kind: ConnectionKind,
    endToEnd: EndToEnd | undefined,
    { xgress: options, mtu }: TunnelXgress,
  ): CircuitConnection {
    const { circuitId, address, side } = circuit;
    const connection: CircuitConnection = new CircuitConnection({
      ...{ circuitId, kind, endToEnd, mtu, hopType: "xgress/tunnel" },
      onEnd: () => this.#connections.delete(connection),
    });
    const xgress = new Xgress({ fabric: this.#o.forwarder, circuitId, address, side, port: connection.port, options });
    this.#connections.add(connection);
    if (side === "initiator") xgress.start();
    connection.join(xgress);
    return connection;
  }
}

function servicesOf(identity: TunnelIdentity): Map<string, OverlayService> {
  const { defaultCost } = identity;
  const defaultPrecedence = precedenceName(identity.defaultPrecedence);
  const of = (service: TunnelerService): OverlayService => ({
    ...service,
    ...{ defaultCost, defaultPrecedence },
    precedence: service.precedence === undefined ? undefined : precedenceName(service.precedence),
  });
  return new Map([...identity.services].map(([id, service]) => [id, of(service)]));
}
