import type { RouteErrorCode } from "@sallyport/wire";

/** Error code of a RouteResult (docs/protocol/data-path.md, "Routes"). */
export type RouteError = (typeof RouteErrorCode)[keyof typeof RouteErrorCode];

/** Why an egress could not be made; the code goes into the RouteResult, the text to the controller's log and event. */
export class EgressError extends Error {
  override readonly name = "EgressError";
  readonly code: RouteError;

  constructor(code: RouteError, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** What an egress binding is asked to connect to. */
export interface EgressRequest {
  readonly circuitId: string;
  readonly controllerId: string;
  /** Xgress address the new end registers at. */
  readonly address: string;
  /** Terminator address: its meaning is the binding's own. */
  readonly destination: string;
  /** From the initiating side: public key (1003), caller id (1008), app data (1011), ... */
  readonly peerData: ReadonlyMap<number, Buffer>;
  readonly tags: Readonly<Record<string, string>>;
  /** Milliseconds left until the controller gives up. */
  readonly timeoutMs: number;
  /** Aborted when the circuit is unrouted while the dial runs. */
  readonly signal: AbortSignal;
}

/** A way out of the fabric (`edge`, `transport`, ...): makes the terminating xgress of a circuit. */
export interface EgressBinding {
  /**
   * Connects and registers the terminating xgress with the forwarder at `request.address`. Answers with the peer data
   * for the initiating side. On failure nothing stays registered.
   * @throws EgressError
   */
  dial(request: EgressRequest): Promise<Map<number, Buffer>>;
}
