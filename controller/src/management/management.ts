import { decodeControl, encodeControl, type Logger, ManagementType, mgmtPb } from "@sallyport/wire";
import { WebSocketServer } from "ws";
import type { Upgrade, UpgradedBy } from "../http/upgrade.ts";
import type { ManagementParts } from "./dependencies.ts";
import { EventStreams } from "./event-streams.ts";
import { routerRequests } from "./router-requests.ts";
import { Traces } from "./traces.ts";
import { circuits } from "./validations/circuits.ts";
import { routerDataModel } from "./validations/data-model.ts";
import { identityConnections } from "./validations/identity-connections.ts";
import { routerLinks } from "./validations/router-links.ts";
import { ertTerminators, sdkTerminators } from "./validations/router-terminators.ts";
import { terminators } from "./validations/terminators.ts";
import { type ManagementHandler, WebSocketChannel } from "./websocket-channel.ts";

const MANAGEMENT_PATH = "/fabric/v1/ws-api";

/** Requests are small; the largest is a route with its peer data. */
const MAX_MESSAGE = 1024 * 1024;
const MAX_CHANNELS = 64;
const SESSION_CHECK_MS = 30_000;

/** The management channel for operators' tools: event streams, traces, inspection, validations, control of routers. Source: docs/protocol/management.md. */
export class Management implements Upgrade {
  readonly path = MANAGEMENT_PATH;
  readonly #log: Logger;
  readonly #server = new WebSocketServer({
    noServer: true,
    clientTracking: false,
    perMessageDeflate: false,
    maxPayload: MAX_MESSAGE + 128 * 1024,
  });
  readonly #channels = new Set<WebSocketChannel>();
  readonly #streams: EventStreams;
  readonly #traces: Traces;
  readonly #handlers: ReadonlyMap<number, ManagementHandler>;

  constructor(parts: ManagementParts) {
    this.#log = parts.log;
    this.#streams = new EventStreams(parts.dispatcher, parts.log);
    this.#traces = new Traces(parts);
    this.#handlers = new Map<number, ManagementHandler>([
      [ManagementType.StreamEventsRequest, (message, channel) => this.#streams.start(message, channel)],
      ...this.#traces.requests(),
      ...inspectRequests(parts),
      ...routerRequests(parts),
      ...clusterRequests(),
      ...validationRequests(parts),
    ]);
  }

  accept(...[message, socket, head, by]: Parameters<Upgrade["accept"]>): void {
    if (this.#channels.size >= MAX_CHANNELS) {
      this.#log.warn({ channels: this.#channels.size }, "too many management channels; another one is refused");
      socket.end(
        "HTTP/1.1 503 Service Unavailable\r\nretry-after: 5\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
      );
      return;
    }
    this.#server.handleUpgrade(message, socket, head, (ws) => {
      const label = `management of ${by.session.identityId} from ${by.remoteAddress}`;
      const channel = new WebSocketChannel({ socket: ws, label, maxMessage: MAX_MESSAGE, log: this.#log });
      this.#open(channel, by);
    });
  }

  /** Ends every channel. */
  async close(): Promise<void> {
    const ended = [...this.#channels].map((channel) => new Promise<void>((resolve) => channel.onClose(resolve)));
    for (const channel of this.#channels) channel.close("the controller is shutting down");
    await Promise.all(ended);
    this.#traces.close();
    this.#server.close();
  }

  #open(channel: WebSocketChannel, by: UpgradedBy): void {
    this.#channels.add(channel);
    this.#log.info({ channel: channel.label }, "management channel opened");
    for (const [type, handler] of this.#handlers) channel.handle(type, handler);
    const check = setInterval(async () => {
      if (!(await by.isStillAllowed())) channel.close("the session has ended");
    }, SESSION_CHECK_MS).unref();
    channel.onClose(() => {
      clearInterval(check);
      this.#channels.delete(channel);
    });
  }
}

const NOT_CLUSTERED = "SERVER_NOT_RUNNING_IN_HA_MODE: this controller runs on its own, it is not part of a cluster";

/** There is one controller: everything about others is refused with that. */
function clusterRequests(): [number, ManagementHandler][] {
  const types = [
    ManagementType.ClusterListMembers,
    ManagementType.ClusterAddMember,
    ManagementType.ClusterRemoveMember,
    ManagementType.ClusterTransferLeadership,
    ManagementType.ClusterInitFromDatabase,
    ManagementType.ClusterInit,
    ManagementType.ClusterRestoreFromDatabase,
  ];
  return types.map((type) => [type, (message, channel) => channel.replyResult(message, false, NOT_CLUSTERED)]);
}

/** Questions to the controller and routers about their inner state. */
function inspectRequests({ fabric }: Pick<ManagementParts, "fabric">): [number, ManagementHandler][] {
  return [
    [
      ManagementType.InspectRequest,
      async (message, channel) => {
        const { appRegex, requestedValues } = decodeControl(mgmtPb.InspectRequestSchema, message.body);
        const { success, errors, values } = await fabric.inspect({ appRegex, requestedValues });
        const body = encodeControl(mgmtPb.InspectResponseSchema, {
          success,
          errors: [...errors],
          values: values.map(({ appId, name, value }) => ({ appId, name, value })),
        });
        channel.reply(message, { contentType: ManagementType.InspectResponse, body });
      },
    ],
  ];
}

/** Everything that can be compared between the controller and its routers. */
function validationRequests(parts: ManagementParts): (readonly [number, ManagementHandler])[] {
  return [
    terminators(parts),
    routerLinks(parts),
    sdkTerminators(parts),
    routerDataModel(parts),
    identityConnections(parts),
    ertTerminators(parts),
    circuits(parts),
  ];
}
