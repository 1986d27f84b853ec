import { errorText } from "@sallyport/async";
import type { EndToEnd, Sodium } from "@sallyport/sdk";
import type { ConnectionKind, OverlayConnection, OverlayIncomingDial } from "@sallyport/tunnel";
import { type Logger, PeerData, RouteErrorCode } from "@sallyport/wire";
import { type EgressBinding, EgressError, type EgressRequest, type RouteError } from "../forwarder/egress.ts";
import { dialerKeyOf, encryptionWith } from "./dialer-encryption.ts";
import type { ServiceDialHandler } from "./hosted-terminators.ts";

/** Makes the connection of a circuit that ends here. */
export type TerminateCircuit = (
  request: EgressRequest,
  kind: ConnectionKind,
  endToEnd: EndToEnd | undefined,
) => OverlayConnection;

export interface TunnelEgressOptions {
  /** The terminator of an id; undefined: it is not here. */
  readonly find: (terminatorId: string) => ServiceDialHandler | undefined;
  readonly sodium: Sodium;
  readonly terminate: TerminateCircuit;
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
      const timedOut = new EgressError(
        RouteErrorCode.DialTimedOut,
        `service ${hosted.service.name} did not answer within ${request.timeoutMs} ms`,
      );
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
  if (error instanceof EgressError) return error;
  const text = errorText(error);
  return new EgressError(codeOf(error), text, { cause: error });
}

/** What the network said about the target; it may lie below what others said of it. */
function codeOf(error: unknown): RouteError {
  if (!(error instanceof Error)) return RouteErrorCode.Generic;
  if (!("code" in error)) return codeOf(error.cause);
  if (error.code === "ECONNREFUSED") return RouteErrorCode.ConnectionRefused;
  return error.code === "ETIMEDOUT" ? RouteErrorCode.DialTimedOut : codeOf(error.cause);
}
