import { type Channel, EdgeHeader, EdgeType, Headers } from "@sallyport/wire";

const DEFAULT_TIMEOUT_MS = 5_000;

export interface TraceOptions {
  /** For the answer; 5,000 ms when left out. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

/** What a hop of a circuit answered. */
export interface TraceHop {
  /**
   * `xgress/edge` is the first router, and the last one where an SDK hosts; `forwarder` a router behind the first; anything else is the end of the circuit, such as
   * `sdk/sallyport` or `xgress/transport`.
   */
  readonly type: string;
  /** Of a forwarder: the id of the router. */
  readonly id: string;
  /** Why the trace could not go on from there. */
  readonly error?: string;
  /** There and back. */
  readonly milliseconds: number;
}

/**
 * Asks the hop that a trace route of so many hops reaches. 1 is the router that the SDK is connected to; an end answers for all hops behind it.
 *
 * @throws RequestTimeoutError for a hop that does not answer; ChannelClosedError, or the signal's reason
 */
export async function traceRoute(
  channel: Pick<Channel, "request">,
  connId: number,
  hops: number,
  { timeoutMs = DEFAULT_TIMEOUT_MS, signal }: TraceOptions = {},
): Promise<TraceHop> {
  const headers = new Headers()
    .setU32(EdgeHeader.ConnId, connId)
    .setU32(EdgeHeader.TraceHopCount, hops)
    .setU64(EdgeHeader.Timestamp, BigInt(Date.now()));
  const started = performance.now();
  const request = { contentType: EdgeType.TraceRoute, headers };
  const answer = await channel.request(request, { timeoutMs, ...(signal !== undefined && { signal }) });
  const milliseconds = performance.now() - started;
  const error = answer.headers.getString(EdgeHeader.TraceError);
  return {
    type: answer.headers.getString(EdgeHeader.TraceHopType) ?? "",
    id: answer.headers.getString(EdgeHeader.TraceHopId) ?? "",
    ...(error !== undefined && error !== "" && { error }),
    milliseconds,
  };
}
