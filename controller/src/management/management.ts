import {
  decodeControl,
  encodeControl,
  type Logger,
  ManagementType,
  type Message,
  mgmtPb,
  ValidationReply,
} from "@sallyport/wire";
import { WebSocketServer } from "ws";
import type { Upgrade, UpgradedBy } from "../http/upgrade.ts";
import { clusterRequests } from "./cluster-requests.ts";
import type { ManagementParts } from "./dependencies.ts";
import { EventStreams } from "./event-streams.ts";
import { routerRequests } from "./router-requests.ts";
import { SessionWatch } from "./session-watch.ts";
import { Traces } from "./traces.ts";
import { routerDataModel } from "./validations/data-model.ts";
import {
  circuits,
  ertTerminators,
  identityConnections,
  routerLinks,
  sdkTerminators,
} from "./validations/router-validations.ts";
import { terminators } from "./validations/terminators.ts";
import { type ManagementHandler, WebSocketChannel } from "./websocket-channel.ts";

/** Requests are small; the largest is a route with its peer data. */
const MAX_MESSAGE_BYTES = 1024 * 1024;
const MAX_CHANNELS = 64;
/** Time alone ends sessions, too; all else is noticed at once. */
const SESSION_CHECK_MS = 30_000;

/** The management channel for operators' tools: event streams, traces, inspection, validations, control of routers. Source: docs/protocol/management.md. */
export class Management implements Upgrade {
  readonly path = "/fabric/v1/ws-api";
  readonly #network: ManagementParts["network"];
  readonly #log: Logger;
  readonly #server = new WebSocketServer({
    noServer: true,
    clientTracking: false,
    perMessageDeflate: false,
    maxPayload: MAX_MESSAGE_BYTES + 128 * 1024,
  });
  readonly #channels = new Set<WebSocketChannel>();
  readonly #watch: SessionWatch;
  readonly #traces: Traces;
  readonly #handlers: ReadonlyMap<number, ManagementHandler>;

  constructor(parts: ManagementParts) {
    this.#network = parts.network;
    this.#log = parts.log;
    this.#watch = new SessionWatch(parts.changes);
    const streams = new EventStreams(parts.dispatcher, parts.events, parts.log);
    this.#traces = new Traces(parts);
    this.#handlers = new Map<number, ManagementHandler>([
      [ManagementType.StreamEventsRequest, (message, channel) => streams.start(message, channel)],
      ...this.#traces.requests(),
      [ManagementType.InspectRequest, (message, channel) => this.#inspect(message, channel)],
      ...routerRequests(parts),
      ...clusterRequests(parts),
      terminators(parts),
      routerLinks(parts),
      sdkTerminators(parts),
      routerDataModel(parts),
      identityConnections(parts),
      ertTerminators(parts),
      circuits(parts),
      controllerDialers(),
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
      const channel = new WebSocketChannel({
        ...{ socket: ws, label, maxMessage: MAX_MESSAGE_BYTES },
        within: (work) => by.within(work),
        log: this.#log,
      });
      this.#open(channel, by);
    });
  }

  /** Ends every channel. */
  async close(): Promise<void> {
    const ended = [...this.#channels].map((channel) => new Promise<void>((resolve) => channel.onClose(resolve)));
    for (const channel of this.#channels) channel.close("the controller is shutting down");
    await Promise.all(ended);
    this.#watch.close();
    this.#traces.close();
    this.#server.close();
  }

  async #inspect(message: Message, channel: WebSocketChannel): Promise<void> {
    const { appRegex, requestedValues } = decodeControl(mgmtPb.InspectRequestSchema, message.body);
    const { success, errors, values } = await this.#network.inspect({ appRegex, requestedValues });
    const body = encodeControl(mgmtPb.InspectResponseSchema, {
      success,
      errors: [...errors],
      values: values.map(({ appId, name, value }) => ({ appId, name, value })),
    });
    channel.reply(message, { contentType: ManagementType.InspectResponse, body });
  }

  #open(channel: WebSocketChannel, by: UpgradedBy): void {
    this.#channels.add(channel);
    this.#log.info({ channel: channel.label }, "management channel opened");
    for (const [type, handler] of this.#handlers) channel.handle(type, handler);
    const check = async () => {
      if (!(await by.isStillAllowed())) channel.close("the session has ended");
    };
    const regular = setInterval(check, SESSION_CHECK_MS).unref();
    const { apiSessionId, identityId, access } = by.session;
    const unwatch = this.#watch.watch({ apiSessionId, identityId, jti: access?.jti }, () => void check());
    channel.onClose(() => {
      clearInterval(regular);
      unwatch();
      this.#channels.delete(channel);
    });
  }
}

/** Routers dial this controller, never the other way round: there is nothing to validate. */
function controllerDialers(): [number, ManagementHandler] {
  const type = ManagementType.ValidateControllerDialers;
  const response = { success: false, message: "controllers of Sallyport do not dial routers", count: 0n };
  const body = encodeControl(mgmtPb.ValidateResponseSchema, response);
  return [type, (message, channel) => channel.reply(message, { contentType: type + ValidationReply.response, body })];
}
