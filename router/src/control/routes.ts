import {
  boundedLog,
  ControlHeader,
  ControlType,
  ctrlPb,
  decodeControl,
  Headers,
  type Logger,
  type Message,
  RouteErrorCode,
} from "@sallyport/wire";
import type { Forwarder } from "../forwarder/forwarder.ts";
import type { RouteResult } from "../forwarder/route-processor.ts";
import type { ControllerConnection } from "./controllers/controller-connection.ts";
import type { Controllers } from "./controllers/controllers.ts";

const MAX_REASON = 1_024;

/** Gives Route and Unroute of the controllers to the forwarder and answers with RouteResult (docs/protocol/control.md, "Routes"). */
export function handleRoutes(controllers: Controllers, forwarder: Forwarder, log: Logger): void {
  const failures = boundedLog(log);
  controllers.handle(ControlType.Route, async (message, controller) => {
    const route = decodeControl(ctrlPb.RouteSchema, message.body);
    if (route.context !== undefined) {
      const { fields, channelMask } = route.context;
      log.debug({ circuitId: route.circuitId, attempt: route.attempt, context: fields, channelMask }, "route");
    }
    const outcome = clipped(await forwarder.route(route, controller.id));
    if (!outcome.ok) {
      const { error, errorCode } = outcome;
      const fields = { circuitId: route.circuitId, attempt: route.attempt, error, errorCode };
      failures.info(fields, "a route could not be set up");
    }
    answer(message, controller, routeResult(route.circuitId, route.attempt, outcome));
  });
  controllers.handle(ControlType.Unroute, (message) => {
    const { circuitId, now } = decodeControl(ctrlPb.UnrouteSchema, message.body);
    forwarder.unroute(circuitId, now);
  });
}

/** The reason may be the words of a hosting application, as many as it likes: they go into a header, and into the log. */
function clipped(outcome: RouteResult): RouteResult {
  const { error } = outcome;
  return error === undefined ? outcome : { ...outcome, error: error.slice(0, MAX_REASON) };
}

/**
 * RouteResult: the circuit id as body; the success header is present or absent, never false; peer data of the terminating
 * side rides as further headers.
 */
function routeResult(circuitId: string, attempt: number, outcome: RouteResult) {
  const headers = new Headers();
  if (outcome.ok) {
    for (const [key, value] of outcome.peerData) if (key > 0) headers.set(key, value);
  }
  headers.setU32(ControlHeader.RouteResultAttempt, attempt);
  if (outcome.ok) headers.setBool(ControlHeader.RouteResultSuccess, true);
  else {
    headers.setString(ControlHeader.RouteResultError, outcome.error ?? "the route could not be set up");
    headers.setByte(ControlHeader.RouteResultErrorCode, outcome.errorCode ?? RouteErrorCode.Generic);
  }
  return { contentType: ControlType.RouteResult, headers, body: Buffer.from(circuitId) };
}

function answer(message: Message, controller: ControllerConnection, out: ReturnType<typeof routeResult>): void {
  if (!controller.channel.isClosed) controller.channel.reply(message, out);
}
