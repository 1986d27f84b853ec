import {
  ChannelClosedError,
  ControlHeader,
  ControlType,
  ctrlPb,
  decodeControl,
  encodeControl,
  InspectionKey,
  ManagementHeader,
  ManagementType,
  type Message,
  RequestTimeoutError,
} from "@sallyport/wire";
import { MAX_FIELDS_OF_REPORTS } from "../fabric/routers/inbound.ts";
import type { ManagementParts } from "./dependencies.ts";
import type { ManagementHandler } from "./websocket-channel.ts";

const ANSWER_MS = 10_000;

/** The answer to an operator's request; the text is for people. */
interface RequestOutcome {
  readonly ok: boolean;
  readonly text: string;
}

/** Control of single routers, and snapshots of the database. Header 13 of a request names its router. */
export function routerRequests(parts: ManagementParts): [number, ManagementHandler][] {
  const { fabric, network, model, log } = parts;
  const answering =
    (work: (message: Message) => Promise<RequestOutcome>): ManagementHandler =>
    async (message, channel) => {
      const { ok, text } = await channel.within(() => work(message));
      log.info(
        { channel: channel.label, contentType: message.contentType, ok, text: text.slice(0, 200) },
        "management request",
      );
      channel.replyResult(message, ok, text);
    };
  const forRouter = (work: (routerId: string, message: Message) => Promise<RequestOutcome>): ManagementHandler =>
    answering(async (message) => {
      const routerId = message.headers.getString(ManagementHeader.RouterId) ?? "";
      if (routerId === "") return refused(`header ${ManagementHeader.RouterId} has to name the router`);
      try {
        return await work(routerId, message);
      } catch (error) {
        if (!(error instanceof RequestTimeoutError || error instanceof ChannelClosedError)) throw error;
        return refused(`router ${routerId} did not answer: ${error.message}`);
      }
    });
  const dump = (name: string) =>
    forRouter(async (routerId) => {
      const value = await inspectRouter(parts, routerId, name);
      return value === undefined ? refused(`router ${routerId} is not connected or knows nothing of it`) : done(value);
    });
  return [
    [ManagementType.SnapshotDatabase, answering(async () => done(await parts.snapshot()))],
    [
      ManagementType.ForgetLink,
      answering(async ({ body }) => {
        const linkId = body.toString("utf8");
        return (await network.removeLink(linkId))
          ? done(`link ${linkId} was removed from both of its routers`)
          : done(`link ${linkId} is unknown here; every router was told to close it`);
      }),
    ],
    [
      ManagementType.ToggleControlChannel,
      forRouter(async (routerId, { headers }) => {
        if (headers.getBool(ManagementHeader.ControlChannelToggle) === true) {
          return fabric.onlineRouterIds().includes(routerId)
            ? done(`router ${routerId} is connected`)
            : refused(`router ${routerId} is not connected; it connects by itself`);
        }
        return (await network.disconnectRouter(routerId, "disconnected by an administrator"))
          ? done(`router ${routerId} was disconnected; it comes back by itself`)
          : refused(`router ${routerId} is not connected`);
      }),
    ],
    [
      ManagementType.UpdateRoute,
      forRouter(async (routerId, { body }) => {
        const { circuitId } = decodeControl(ctrlPb.RouteSchema, body);
        const answer = await fabric.operations.request(routerId, { contentType: ControlType.Route, body }, ANSWER_MS);
        if (answer === undefined) return refused(`router ${routerId} is not connected`);
        if (answer.headers.has(ControlHeader.RouteResultSuccess)) return done(`circuit ${circuitId} was routed`);
        const why = answer.headers.getString(ControlHeader.RouteResultError) ?? "no reason given";
        return refused(`circuit ${circuitId} was not routed: ${why}`);
      }),
    ],
    [
      ManagementType.Unroute,
      forRouter(async (routerId, { body }) => {
        const { circuitId } = decodeControl(ctrlPb.UnrouteSchema, body);
        return fabric.operations.send(routerId, { contentType: ControlType.Unroute, body })
          ? done(`router ${routerId} was told to drop circuit ${circuitId}`)
          : refused(`router ${routerId} is not connected`);
      }),
    ],
    [ManagementType.DumpForwarderTables, dump("router-circuits")],
    [ManagementType.DumpLinks, dump(InspectionKey.Links)],
    [
      ManagementType.QuiesceRouter,
      forRouter(async (routerId) => {
        await model.quiesceRouter(routerId);
        return done("router quiesced");
      }),
    ],
    [
      ManagementType.DequiesceRouter,
      forRouter(async (routerId) => {
        await model.dequiesceRouter(routerId);
        return done("router dequiesced");
      }),
    ],
    [
      ManagementType.DecommissionRouter,
      forRouter(async (routerId) => {
        await model.deleteRouter(routerId);
        await network.disconnectRouter(routerId, "the router was decommissioned");
        return done(`router ${routerId} was decommissioned`);
      }),
    ],
  ];
}

/**
 * What a router says about `name`; undefined when it is not connected or knows nothing of it.
 * @throws RequestTimeoutError, ChannelClosedError, ProtocolError
 */
export async function inspectRouter(
  { fabric }: Pick<ManagementParts, "fabric">,
  routerId: string,
  name: string,
  timeoutMs = ANSWER_MS,
): Promise<string | undefined> {
  const body = encodeControl(ctrlPb.InspectRequestSchema, { requestedValues: [name] });
  const out = { contentType: ControlType.InspectRequest, body };
  const answer = await fabric.operations.request(routerId, out, timeoutMs);
  if (answer === undefined) return undefined;
  const { values } = decodeControl(ctrlPb.InspectResponseSchema, answer.body, MAX_FIELDS_OF_REPORTS);
  return values.find((value) => value.name === name)?.value;
}

function done(text: string): RequestOutcome {
  return { ok: true, text };
}

function refused(text: string): RequestOutcome {
  return { ok: false, text };
}
