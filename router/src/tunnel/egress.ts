import { errorText } from "@sallyport/async";
import { EndToEnd, KEY_BYTES, loadSodium, type Sodium } from "@sallyport/sdk";
import { type ConnectionKind, type OverlayConnection, type OverlayIncomingDial, TcpRelay } from "@sallyport/tunnel";
import { type Logger, PeerData, RouteErrorCode, Xgress } from "@sallyport/wire";
import { type EgressBinding, EgressError, type EgressRequest, type RouteError } from "../forwarder/egress.ts";
import type { Forwarder } from "../forwarder/forwarder.ts";
import { addressesOf, dialStream, targetOf } from "../xgress/transport/dial.ts";
import type { TransportEgressOptions } from "../xgress/transport/transport-egress.ts";
import { CircuitConnection } from "./circuit-connection.ts";
import type { ServiceDialHandler } from "./hosted-terminators.ts";

interface TunnelEgressOptions {
  /** The terminator of an id; undefined: it is not here. */
  readonly find: (terminatorId: string) => ServiceDialHandler | undefined;
  readonly sodium: Sodium;
  /** Makes the connection of a circuit that ends here. */
  terminate(request: EgressRequest, kind: ConnectionKind, endToEnd: EndToEnd | undefined): OverlayConnection;
  readonly log: Logger;
}

/**
 * The egress binding `tunnel`: ends circuits at what the router's own tunneler hosts. The xgress exists before the
 * controller gets its answer, because data may follow at once (docs/protocol/data-path.md, "Tunnel").
 */
export class TunnelEgress implements EgressBinding {
  readonly #o: TunnelEgressOptions;

  constructor(options: TunnelEgressOptions) {
    this.#o = options;
  }

  async dial(request: EgressRequest): Promise<Map<number, Buffer>> {
    const hosted = this.#o.find(request.destination);
    if (hosted === undefined) {
      const text = `terminator ${request.destination} is not hosted by this router's tunneler`;
      throw new EgressError(RouteErrorCode.InvalidTerminator, text);
    }
    const dialerKey = dialerKeyOf(request.peerData);
    if (dialerKey === undefined && hosted.service.isEncrypted) {
      const text = `service ${hosted.service.name} is encrypted from end to end, and the dialling end sent no key`;
      throw new EgressError(RouteErrorCode.Generic, text);
    }
    const outcome = Promise.withResolvers<Map<number, Buffer>>();
    const timeout = AbortSignal.timeout(request.timeoutMs);
    const signal = AbortSignal.any([request.signal, timeout]);
    const late = (): void => {
      const text = `service ${hosted.service.name} did not answer within ${request.timeoutMs} ms`;
      const timedOut = new EgressError(RouteErrorCode.DialTimedOut, text);
      outcome.reject(request.signal.aborted ? request.signal.reason : timedOut);
    };
    signal.addEventListener("abort", late, { once: true });
    let connection: OverlayConnection | undefined;
    const dial: OverlayIncomingDial = {
      appData: request.peerData.get(PeerData.AppData),
      callerId: request.peerData.get(PeerData.CallerId)?.toString("utf8"),
      signal,
      accept: async ({ kind, localAddress, remoteAddress }) => {
        signal.throwIfAborted();
        const answer = new Map<number, Buffer>();
        const endToEnd = dialerKey && encryptionWith(this.#o.sodium, dialerKey, answer);
        if (localAddress !== undefined) answer.set(PeerData.TerminatorLocalAddress, Buffer.from(localAddress));
        if (remoteAddress !== undefined) answer.set(PeerData.TerminatorRemoteAddress, Buffer.from(remoteAddress));
        connection = this.#o.terminate(request, kind, endToEnd);
        outcome.resolve(answer);
        return connection;
      },
      reject: (reason, cause) => outcome.reject(new EgressError(codeOf(cause), reason, { cause })),
    };
    hosted.onDial(dial).then(
      () => outcome.reject(new EgressError(RouteErrorCode.Generic, "the tunneler did not answer the dial")),
      (error: unknown) => {
        connection?.close("the dial failed");
        outcome.reject(dialError(error));
      },
    );
    try {
      return await outcome.promise;
    } finally {
      signal.removeEventListener("abort", late);
    }
  }
}

function dialError(error: unknown): EgressError {
  return error instanceof EgressError ? error : new EgressError(codeOf(error), errorText(error), { cause: error });
}

/** What the network said about the target; it may lie below what others said of it. */
function codeOf(error: unknown): RouteError {
  if (!(error instanceof Error)) return RouteErrorCode.Generic;
  if (!("code" in error)) return codeOf(error.cause);
  if (error.code === "ECONNREFUSED") return RouteErrorCode.ConnectionRefused;
  return error.code === "ETIMEDOUT" ? RouteErrorCode.DialTimedOut : codeOf(error.cause);
}

/** The egress binding `edge_transport`, with the encryption that it needs loaded. */
export async function edgeTransport(forwarder: Forwarder, options: TransportEgressOptions): Promise<EgressBinding> {
  return new EdgeTransportEgress(forwarder, await loadSodium(), options);
}

/**
 * As `transport`, for services that are encrypted from end to end: this router is the other end, and what leaves it is
 * plain (docs/protocol/data-path.md, "Transport").
 */
class EdgeTransportEgress implements EgressBinding {
  readonly #forwarder: Forwarder;
  readonly #sodium: Sodium;
  readonly #o: TransportEgressOptions;

  constructor(forwarder: Forwarder, sodium: Sodium, options: TransportEgressOptions) {
    this.#forwarder = forwarder;
    this.#sodium = sodium;
    this.#o = options;
  }

  async dial(request: EgressRequest): Promise<Map<number, Buffer>> {
    const target = targetOf(request.destination, "edge_transport", ["tcp", "tls"]);
    const dialerKey = dialerKeyOf(request.peerData);
    const { connectTimeoutMs, identity, localAddress: bind, mtu, xgress: options } = this.#o;
    const timeoutMs = connectTimeoutMs > 0 ? Math.min(connectTimeoutMs, request.timeoutMs) : request.timeoutMs;
    const socket = await dialStream({ target, identity, localAddress: bind, timeoutMs, signal: request.signal });
    const { localAddress = "", localPort, remoteAddress = "", remotePort } = socket;
    const answer = addressesOf([localAddress, localPort], [remoteAddress, remotePort]);
    const endToEnd = dialerKey && encryptionWith(this.#sodium, dialerKey, answer);
    const { circuitId, address } = request;
    const hopType = "xgress/edge_transport";
    const connection = new CircuitConnection({ circuitId, kind: "stream", endToEnd, mtu, hopType, onEnd: () => {} });
    const { port } = connection;
    connection.join(new Xgress({ fabric: this.#forwarder, circuitId, address, side: "terminator", port, options }));
    new TcpRelay(socket, connection, () => {}).start();
    return answer;
  }
}

/** The public key that the dialling end of a circuit sent along; undefined when it asks for no encryption. @throws EgressError */
function dialerKeyOf(peerData: ReadonlyMap<number, Buffer>): Buffer | undefined {
  const key = peerData.get(PeerData.PublicKey);
  if (key === undefined || key.length === KEY_BYTES) return key;
  const text = `expected a public key of ${KEY_BYTES} bytes from the dialling end, got ${key.length}`;
  throw new EgressError(RouteErrorCode.Generic, text);
}

/** The host's side of the encryption with a dialling end, with a key pair of its own, whose public half goes into `answer`. */
function encryptionWith(sodium: Sodium, dialerKey: Buffer, answer: Map<number, Buffer>): EndToEnd {
  const own = sodium.createKeyPair();
  answer.set(PeerData.PublicKey, own.publicKey);
  return new EndToEnd({ sodium, keys: sodium.sessionKeys("server", own, dialerKey) });
}
