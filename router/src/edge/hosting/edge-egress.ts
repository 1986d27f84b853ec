import {
  ChannelClosedError,
  EdgeHeader,
  EdgeType,
  Headers,
  type Message,
  PeerData,
  RequestTimeoutError,
  RouteErrorCode,
} from "@sallyport/wire";
import { type EgressBinding, EgressError, type EgressRequest } from "../../forwarder/egress.ts";
import type { Forwarder } from "../../forwarder/forwarder.ts";
import type { DataCircuit } from "../data-circuit.ts";
import { edgeCircuit } from "../edge-circuit.ts";
import { saysDatagrams } from "../edge-messages.ts";
import { type SdkCircuit, withFlowControl } from "../flow-control/sdk-circuit.ts";
import { type Hosting, isTerminatorId, type SdkBinding } from "./hosting.ts";

/** Hosting applications answer within this time, or the dial fails. */
const MAX_DIAL_MS = 5_000;
/** Peer data of the dialing side that the hosting application gets, and the header it gets it in. */
const FORWARDED = [
  [PeerData.PublicKey, EdgeHeader.PublicKey],
  [PeerData.AppData, EdgeHeader.AppData],
  [PeerData.ConnectionMarker, EdgeHeader.ConnectionMarker],
  [PeerData.DialerIdentityId, EdgeHeader.DialerIdentityId],
  [PeerData.DialerIdentityName, EdgeHeader.DialerIdentityName],
] as const;

/**
 * The egress binding `edge`: ends circuits at the listener of an SDK. The xgress exists before the SDK is asked, because
 * its first data may come right behind its answer (docs/protocol/data-path.md, "Hosting").
 */
export class EdgeEgress implements EgressBinding {
  readonly #hosting: Hosting;
  readonly #forwarder: Forwarder;

  constructor(hosting: Hosting, forwarder: Forwarder) {
    this.#hosting = hosting;
    this.#forwarder = forwarder;
  }

  async dial(request: EgressRequest): Promise<Map<number, Buffer>> {
    for (;;) {
      const binding = this.#found(request);
      try {
        return await this.#dial(binding, request);
      } catch (error) {
        // A listener that was taken over goes on in a newer binding, and so does its terminator, which must not count as gone.
        const isTakenOver = binding.ended.signal.aborted && this.#hosting.find(request.destination) !== undefined;
        if (!isTakenOver || request.signal.aborted) throw error;
      }
    }
  }

  #found(request: EgressRequest): SdkBinding {
    const binding = this.#hosting.find(request.destination);
    if (binding === undefined) {
      // An address of the old form holds a session token, and this text reaches the dialling side and logs.
      const which = isTerminatorId(request.destination) ? ` with terminator ${request.destination}` : "";
      throw new EgressError(RouteErrorCode.InvalidTerminator, `no application listens here${which}`);
    }
    return binding;
  }

  async #dial(binding: SdkBinding, request: EgressRequest): Promise<Map<number, Buffer>> {
    const connId = binding.routerProvidedConnIds ? binding.sdk.newConnId() : undefined;
    const early = connId === undefined ? undefined : this.#open(binding, connId, request);
    try {
      const answer = await this.#ask(binding, connId, request);
      if (early === undefined) this.#finishLegacy(binding, answer, request);
      const peerData = new Map<number, Buffer>();
      const key = answer.headers.get(EdgeHeader.PublicKey) ?? binding.publicKey;
      if (key !== undefined) peerData.set(PeerData.PublicKey, key);
      return peerData;
    } catch (error) {
      early?.abandon();
      throw error;
    }
  }

  #open(binding: SdkBinding, connId: number, request: EgressRequest): DataCircuit | SdkCircuit {
    const { sdk, grant } = binding;
    const { circuitId, address } = request;
    const forwarder = this.#forwarder;
    const carriesDatagrams = saysDatagrams(request.peerData.get(PeerData.AppData));
    const connection = edgeCircuit(
      { forwarder, sdk, connId, grant, circuitId, address, side: "terminator", carriesDatagrams },
      binding.flowControlBySdk,
    );
    sdk.addConnection(connection);
    return connection;
  }

  async #ask(binding: SdkBinding, connId: number | undefined, request: EgressRequest): Promise<Message> {
    const headers = new Headers().setU32(EdgeHeader.ConnId, binding.connId);
    headers.set(EdgeHeader.CallerId, request.peerData.get(PeerData.CallerId) ?? Buffer.alloc(0));
    headers.setString(EdgeHeader.CircuitId, request.circuitId);
    for (const [key, header] of FORWARDED) {
      const value = request.peerData.get(key);
      if (value !== undefined) headers.set(header, value);
    }
    if (connId !== undefined) {
      headers.setU32(EdgeHeader.RouterProvidedConnId, connId);
      if (binding.flowControlBySdk) withFlowControl(headers, request);
    }
    let answer: Message;
    try {
      answer = await binding.sdk.channel.request(
        { contentType: EdgeType.Dial, headers, body: Buffer.from(binding.grant.sessionToken, "utf8") },
        {
          timeoutMs: Math.min(MAX_DIAL_MS, request.timeoutMs),
          signal: AbortSignal.any([request.signal, binding.ended.signal]),
        },
      );
    } catch (error) {
      throw dialError(error, binding, request);
    }
    if (answer.contentType !== EdgeType.DialSuccess) {
      const text = answer.body.toString("utf8") || "no reason given";
      throw new EgressError(RouteErrorCode.Generic, `the hosting application refused the dial: ${text}`);
    }
    return answer;
  }

  /** A client that chooses the ids itself: only now the connection's id is known, and the client waits for a go-ahead. */
  #finishLegacy(binding: SdkBinding, answer: Message, request: EgressRequest): void {
    if (answer.body.length !== 4) {
      const text = "the hosting application accepted the dial without a connection id";
      throw new EgressError(RouteErrorCode.Generic, text);
    }
    const connId = answer.body.readUInt32LE(0);
    if (binding.sdk.isTaken(connId)) {
      const text = `the hosting application chose connection id ${connId}, which is in use`;
      throw new EgressError(RouteErrorCode.Generic, text);
    }
    this.#open(binding, connId, request);
    const headers = new Headers().setU32(EdgeHeader.ConnId, connId);
    binding.sdk.reply(answer, { contentType: EdgeType.StateConnected, headers });
  }
}

function dialError(error: unknown, binding: SdkBinding, request: EgressRequest): Error {
  if (request.signal.aborted) return request.signal.reason as Error;
  if (binding.ended.signal.aborted || error instanceof ChannelClosedError) {
    const text = "the hosting application went away during the dial";
    return new EgressError(RouteErrorCode.InvalidTerminator, text, { cause: error });
  }
  if (error instanceof RequestTimeoutError) {
    const text = "the hosting application did not answer the dial in time";
    return new EgressError(RouteErrorCode.DialTimedOut, text, { cause: error });
  }
  return error instanceof Error ? error : new Error(String(error));
}
