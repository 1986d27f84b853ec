import type { Pool } from "@sallyport/async";
import {
  BaseHeader,
  BaseType,
  ControlHeader,
  EdgeCtrlHeader,
  EdgeCtrlType,
  edgeCtrlPb,
  encodeControl,
  Headers,
  type Message,
  type Outgoing,
  RetryHint,
  type Underlay,
} from "@sallyport/wire";
import { type Denial, DenialCode, isPassing } from "./ports.ts";
import type { RouterConnection } from "./routers/router-connection.ts";

/**
 * How requests of routers are answered. There are three conventions, never mixed: fabric requests by a Result with text; edge requests by their own
 * response type, or by an edge error (plain text and a code header); the verification of a renewed certificate by an edge error with a protobuf body.
 * Source: docs/protocol/fabric.md, "Errors".
 */

/** Texts that routers and SDKs show for a refusal; a router of the 1.6 generation hands only the text on. */
const TEXT: Readonly<Record<DenialCode, string>> = {
  [DenialCode.Internal]: "internal error",
  [DenialCode.InvalidApiSession]: "invalid api session",
  [DenialCode.InvalidSession]: "invalid session",
  [DenialCode.WrongSessionType]: "incorrect session type",
  [DenialCode.InvalidEdgeRouterForSession]: "invalid edge router for session",
  [DenialCode.InvalidService]: "invalid service",
  [DenialCode.TunnelingNotEnabled]: "tunneling not enabled",
  [DenialCode.InvalidTerminator]: "invalid terminator",
  [DenialCode.InvalidPrecedence]: "invalid precedence",
  [DenialCode.InvalidCost]: "invalid cost",
  [DenialCode.EncryptionDataMissing]: "encryption data missing",
  [DenialCode.AccessDenied]: "access denied",
  [DenialCode.PostureCheckFailed]: "posture check failed",
};

/** What a client may do about a refusal. What passes by itself is never {@link RetryHint.NotRetriable}: a host would give up for good. */
export function retryHintOf(code: DenialCode): RetryHint {
  switch (code) {
    case DenialCode.InvalidApiSession:
    case DenialCode.InvalidSession:
    case DenialCode.WrongSessionType:
    case DenialCode.InvalidEdgeRouterForSession:
      return RetryHint.StartOver;
    case DenialCode.Internal:
    case DenialCode.PostureCheckFailed:
      return RetryHint.Default;
    default:
      return RetryHint.NotRetriable;
  }
}

/** A request of a router is refused; the answer carries the code and the text. */
export class EdgeRefusal extends Error {
  override name = "EdgeRefusal";
  readonly code: DenialCode;
  /** The circuit a failed circuit request had been given. */
  readonly circuitId: string | undefined;
  readonly retryHint: RetryHint;

  constructor(code: DenialCode, message?: string, circuitId?: string, retryHint = retryHintOf(code)) {
    super(message ?? TEXT[code]);
    this.code = code;
    this.circuitId = circuitId;
    this.retryHint = retryHint;
  }

  static busy(): EdgeRefusal {
    return new EdgeRefusal(DenialCode.Internal, BUSY, undefined, RetryHint.TooBusy);
  }

  /** What a router is told of a failure that is no refusal. One that passes by itself says so, and to wait before the next try. */
  static ofFailure(error: unknown): EdgeRefusal {
    if (!isPassing(error)) return new EdgeRefusal(DenialCode.Internal);
    return new EdgeRefusal(DenialCode.Internal, UNAVAILABLE, undefined, RetryHint.TooBusy);
  }

  static of(denial: Denial): EdgeRefusal {
    return new EdgeRefusal(denial.denied, denial.message);
  }
}

const BUSY = "server too busy";
const UNAVAILABLE = "the controller's database cannot be used at the moment, try again later";

/** A fabric request is refused; the text goes into the Result. */
export class FabricRefusal extends Error {
  override name = "FabricRefusal";
}

/** Answers unless the channel has closed meanwhile. `via`: see {@link RouterConnection.wayOf}. */
export function reply(router: RouterConnection, to: Message, out: Outgoing, via?: Underlay): void {
  if (!router.channel.isClosed) router.channel.reply(to, out, via);
}

function replyResult(router: RouterConnection, to: Message, ok: boolean, text: string): void {
  if (!router.channel.isClosed) router.channel.replyResult(to, ok, text);
}

export function edgeError(refusal: EdgeRefusal): Outgoing {
  const headers = new Headers()
    .setU32(EdgeCtrlHeader.ErrorCode, refusal.code)
    .setU32(EdgeCtrlHeader.RetryHint, refusal.retryHint);
  if (refusal.circuitId !== undefined) headers.setString(EdgeCtrlHeader.CircuitId, refusal.circuitId);
  return { contentType: EdgeCtrlType.Error, headers, body: Buffer.from(refusal.message, "utf8") };
}

/** The answer to the verification of a renewed certificate, or to a renewal that failed; without a code it means success. */
export function certificateAnswer(failure?: { code: string; message: string; cause?: string }): Outgoing {
  return { contentType: EdgeCtrlType.Error, body: encodeControl(edgeCtrlPb.ErrorSchema, failure ?? {}) };
}

/**
 * Works on an edge request in `lane` and answers it: with what `work` returns, with the refusal it throws, or, for any other failure, with {@link EdgeRefusal.ofFailure}.
 * It is logged. A full lane is answered as busy.
 */
export function serveEdgeRequest(
  router: RouterConnection,
  lane: Pool,
  message: Message,
  work: () => Promise<Outgoing>,
): void {
  serve(router, lane, message, work, () => undefined);
}

/** As {@link serveEdgeRequest} for a request of a circuit: what is said of it takes one way. `work` gets when the request arrived. */
export function serveCircuitRequest(
  router: RouterConnection,
  message: Message,
  work: (requestedAt: number) => Promise<Outgoing>,
): void {
  const requestedAt = performance.now();
  serve(
    router,
    router.parallelLane,
    message,
    () => work(requestedAt),
    () => router.wayOf(requestedAt),
  );
}

function serve(
  router: RouterConnection,
  lane: Pool,
  message: Message,
  work: () => Promise<Outgoing>,
  way: () => Underlay | undefined,
): void {
  const isTaken = lane.offer(async () => {
    try {
      const answer = await work();
      reply(router, message, answer, way());
    } catch (error) {
      reply(router, message, edgeError(asEdgeRefusal(router, message, error)), way());
    }
  }, message.body.length);
  if (!isTaken) reply(router, message, edgeError(EdgeRefusal.busy()), way());
}

function asEdgeRefusal(router: RouterConnection, { contentType }: Message, err: unknown): EdgeRefusal {
  if (err instanceof EdgeRefusal) {
    const fields = { routerId: router.id, contentType };
    router.log.info({ ...fields, code: err.code, reason: err.message }, "a router's request was refused");
    return err;
  }
  logFailure(router, contentType, err);
  return EdgeRefusal.ofFailure(err);
}

/** The store says once that the database is away. */
export function failureLevel(error: unknown): "debug" | "error" {
  return isPassing(error) ? "debug" : "error";
}

function logFailure(router: RouterConnection, contentType: number, err: unknown): void {
  router.log[failureLevel(err)]({ routerId: router.id, contentType, err }, "a router's request failed");
}

/** As {@link serveEdgeRequest} for fabric requests: `work` returns the text of the successful Result. */
export function serveFabricRequest(
  router: RouterConnection,
  lane: Pool,
  message: Message,
  work: () => Promise<string>,
): void {
  const isTaken = lane.offer(async () => {
    try {
      replyResult(router, message, true, await work());
    } catch (err) {
      const isRefusal = err instanceof FabricRefusal;
      if (!isRefusal) logFailure(router, message.contentType, err);
      replyResult(router, message, false, isRefusal ? err.message : EdgeRefusal.ofFailure(err).message);
    }
  }, message.body.length);
  if (!isTaken) reply(router, message, busyResult());
}

/** A Result that tells the router to try again later. */
function busyResult(): Outgoing {
  const headers = new Headers().setBool(BaseHeader.ResultSuccess, false).setU32(ControlHeader.RateLimited, 1);
  return { contentType: BaseType.Result, headers, body: Buffer.from(BUSY, "utf8") };
}

/** Works on a message that has no answer; failures are logged, and a full lane drops it with a log line. */
export function serveNotice(router: RouterConnection, lane: Pool, message: Message, work: () => Promise<void>): void {
  const fields = { routerId: router.id, contentType: message.contentType };
  const isTaken = lane.offer(async () => {
    try {
      await work();
    } catch (err) {
      router.log.error({ ...fields, err }, "a router's message could not be worked on");
    }
  }, message.body.length);
  if (!isTaken) router.log.warn(fields, "too many messages wait; one was dropped");
}
