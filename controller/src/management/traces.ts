import {
  BaseHeader,
  ChannelClosedError,
  ControlType,
  ctrlPb,
  decodeControl,
  EdgeCtrlType,
  encodeControl,
  type Logger,
  ManagementType,
  type Message,
  mgmtPb,
  type ObservedMessage,
  ProtocolError,
  RequestTimeoutError,
} from "@sallyport/wire";
import { RE2JS, RE2JSException } from "re2js";
import type { FabricEvent } from "../fabric/fabric-events.ts";
import type { ManagementParts } from "./dependencies.ts";
import type { ManagementHandler, WebSocketChannel } from "./websocket-channel.ts";

/** Less than the five seconds that operators' tools wait for the answer. */
const ROUTER_ANSWER_MS = 3_500;
const MAX_STREAMS = 4;
/** Bytes that may wait for a client; trace events beyond are dropped. */
const MAX_BUFFERED = 4 * 1024 * 1024;
const MAX_EXPRESSION_LENGTH = 1_000;
const NS_PER_MS = 1_000_000n;
const CIRCUITS_NOT_TRACED = "single circuits are not traced; trace channels, or follow circuit events";

interface Stream {
  readonly channel: WebSocketChannel;
  accepts(contentType: number): boolean;
}

/** Streams what passes the channels: of routers whose tracing an operator has switched on, and of this controller's own control channels. */
export class Traces {
  readonly #controllerId: string;
  readonly #fabric: ManagementParts["fabric"];
  readonly #log: Logger;
  readonly #streams = new Set<Stream>();
  readonly #stop: () => void;

  constructor({ controllerId, fabric, log }: Pick<ManagementParts, "controllerId" | "fabric" | "log">) {
    this.#controllerId = controllerId;
    this.#fabric = fabric;
    this.#log = log;
    this.#stop = fabric.onEvent((event) => this.#happened(event));
  }

  requests(): [number, ManagementHandler][] {
    return [
      [ManagementType.StreamTracesRequest, (message, channel) => this.#open(message, channel)],
      [ManagementType.TogglePipeTracesRequest, (message, channel) => this.#toggle(message, channel)],
      [
        ManagementType.ToggleCircuitTracesRequest,
        (message, channel) => channel.replyResult(message, false, CIRCUITS_NOT_TRACED),
      ],
    ];
  }

  close(): void {
    this.#stop();
    this.#fabric.operations.trace(undefined);
    this.#streams.clear();
  }

  /** On success there is no answer, only the events. */
  #open(message: Message, channel: WebSocketChannel): void {
    const { isFiltered, filterType, contentTypes } = decodeControl(mgmtPb.StreamTracesRequestSchema, message.body);
    if ([...this.#streams].filter((stream) => stream.channel === channel).length >= MAX_STREAMS) {
      channel.replyResult(message, false, `a channel can have at most ${MAX_STREAMS} trace streams`);
      return;
    }
    const named = new Set(contentTypes);
    const isInclude = filterType === mgmtPb.TraceFilterType.INCLUDE;
    const stream: Stream = { channel, accepts: (type) => !isFiltered || named.has(type) === isInclude };
    this.#streams.add(stream);
    channel.onClose(() => this.#streams.delete(stream));
  }

  async #toggle(message: Message, channel: WebSocketChannel): Promise<void> {
    const request = decodeControl(ctrlPb.TogglePipeTracesRequestSchema, message.body);
    let app: (text: string) => boolean;
    let pipe: (text: string) => boolean;
    try {
      app = matcherOf(request.appRegex);
      pipe = matcherOf(request.pipeRegex);
    } catch (error) {
      if (!(error instanceof RE2JSException || error instanceof ProtocolError)) throw error;
      channel.replyResult(message, false, `the expression cannot be used: ${error.message}`);
      return;
    }
    const lines: string[] = [];
    if (app(this.#controllerId)) {
      this.#fabric.operations.trace(request.enable ? (routerId) => pipe(routerId) : undefined);
      lines.push(`${this.#controllerId}: tracing of control channels is ${request.enable ? "on" : "off"}`);
    }
    const routers = this.#fabric.onlineRouterIds().filter(app);
    const answers = await Promise.all(routers.map((routerId) => this.#toggleRouter(routerId, message.body)));
    lines.push(...answers.map(({ text }) => text));
    if (lines.length === 0)
      lines.push(`no controller and no connected router has an id that ${request.appRegex} matches`);
    channel.replyResult(
      message,
      answers.every(({ ok }) => ok),
      lines.join("\n"),
    );
  }

  async #toggleRouter(routerId: string, body: Buffer): Promise<{ ok: boolean; text: string }> {
    try {
      const out = { contentType: ControlType.TogglePipeTracesRequest, body };
      const answer = await this.#fabric.operations.request(routerId, out, ROUTER_ANSWER_MS);
      if (answer === undefined) return { ok: false, text: `${routerId}: not connected any more` };
      return {
        ok: answer.headers.getBool(BaseHeader.ResultSuccess) === true,
        text: `${routerId}: ${answer.body.toString("utf8").trim()}`,
      };
    } catch (error) {
      if (!(error instanceof RequestTimeoutError || error instanceof ChannelClosedError)) throw error;
      return { ok: false, text: `${routerId}: no answer; this router may not be able to trace` };
    }
  }

  #happened(event: FabricEvent): void {
    if (this.#streams.size === 0) return;
    if (event.kind === "router-trace") this.#forward(event.routerId, event.body);
    if (event.kind === "control-message") this.#own(event.routerId, event.message);
  }

  #forward(routerId: string, body: Buffer): void {
    try {
      const { contentType } = decodeControl(mgmtPb.TraceEventSchema, body);
      this.#send(contentType, body);
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error;
      this.#log.debug({ routerId, reason: error.message }, "a trace event cannot be read");
    }
  }

  #own(routerId: string, message: ObservedMessage): void {
    const { contentType, isReceived, sequence, replyFor, length } = message;
    const name = MESSAGE_NAMES.get(contentType);
    const decode = name === undefined ? "" : JSON.stringify({ __decoder__: "ctrl", __message__: name });
    const body = encodeControl(mgmtPb.TraceEventSchema, {
      timestamp: BigInt(Date.now()) * NS_PER_MS,
      identity: this.#controllerId,
      channel: routerId,
      isRx: isReceived,
      contentType,
      sequence,
      replyFor,
      length,
      decode: Buffer.from(decode, "utf8"),
    });
    this.#send(contentType, body);
  }

  #send(contentType: number, body: Buffer): void {
    for (const { channel, accepts } of this.#streams) {
      if (!accepts(contentType) || channel.bufferedBytes > MAX_BUFFERED) continue;
      channel.send({ contentType: ManagementType.StreamTracesEvent, body });
    }
  }
}

const MESSAGE_NAMES: ReadonlyMap<number, string> = new Map(
  Object.entries({ ...ControlType, ...EdgeCtrlType }).map(([name, type]) => [type, name]),
);

/** An empty expression is found in everything. */
function matcherOf(expression: string): (text: string) => boolean {
  if (expression.length > MAX_EXPRESSION_LENGTH) {
    throw new ProtocolError("TOO_LONG", `expected at most ${MAX_EXPRESSION_LENGTH} characters`);
  }
  const compiled = RE2JS.compile(expression);
  return (text) => compiled.matcher(text).find();
}
