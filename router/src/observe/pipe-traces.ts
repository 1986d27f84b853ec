import { errorText } from "@sallyport/async";
import {
  type Channel,
  ControlType,
  ctrlPb,
  decodeControl,
  type Logger,
  type Message,
  ProtocolError,
} from "@sallyport/wire";
import type { ControllerConnection } from "../control/controllers/controller-connection.ts";
import type { Controllers } from "../control/controllers/controllers.ts";
import { observe, tracedMessage } from "./message-trace.ts";

/** A channel that can be traced, by the name that an operator's expression is matched with. */
export interface Pipe {
  readonly name: string;
  readonly channel: Channel;
}

export interface PipeTracesOptions {
  readonly routerId: string;
  readonly controllers: Controllers;
  /** The channels there are besides those to controllers: links, SDKs. */
  readonly pipes: () => Iterable<Pipe>;
  readonly log: Logger;
}

/** How often channels that are new are looked for while something is traced. */
const LOOK_MS = 1_000;
/** What may wait for a controller; events beyond are left out. */
const MAX_QUEUED = 1024 * 1024;
const MAX_EXPRESSION = 1_000;

type Matcher = (text: string) => boolean;

/**
 * Tells controllers which messages pass the channels of this router, as long as an operator wants it (docs/router/observability.md,
 * "Traces"). Payloads of circuits are not messages in this sense; the events themselves are not told of.
 */
export class PipeTraces {
  readonly #o: PipeTracesOptions;
  /** By controller that asked. */
  readonly #wanted = new Map<string, Matcher>();
  readonly #traced = new Map<Channel, () => void>();
  #timer: NodeJS.Timeout | undefined;

  constructor(options: PipeTracesOptions) {
    this.#o = options;
    const { controllers } = options;
    controllers.handle(ControlType.TogglePipeTracesRequest, (message, controller) => this.#toggle(message, controller));
    controllers.onConnected(() => this.#look());
    controllers.onDisconnected((controller) => {
      if (controllers.byId(controller.id) === undefined) this.#want(controller.id, undefined);
    });
  }

  close(): void {
    for (const id of [...this.#wanted.keys()]) this.#want(id, undefined);
  }

  async #toggle(message: Message, controller: ControllerConnection): Promise<void> {
    const { routerId, log } = this.#o;
    const { channel } = controller;
    try {
      const request = decodeControl(ctrlPb.TogglePipeTracesRequestSchema, message.body);
      const [app, pipe] = await Promise.all([matcherOf(request.appRegex), matcherOf(request.pipeRegex)]);
      if (channel.isClosed) return;
      if (!app(routerId)) {
        channel.replyResult(message, true, `${routerId} is not meant; nothing was changed`);
        return;
      }
      this.#want(controller.id, request.enable ? pipe : undefined);
      const names = this.#all().map(({ name }) => name);
      const matching = names.filter(pipe);
      log.info({ enable: request.enable, pipes: matching }, "an operator switched tracing");
      channel.replyResult(message, true, answerText(request.enable, request.verbosity, names, matching));
    } catch (error) {
      const text = `the expression cannot be used: ${errorText(error)}`;
      if (!channel.isClosed) channel.replyResult(message, false, text);
    }
  }

  #want(controllerId: string, matcher: Matcher | undefined): void {
    if (matcher === undefined) this.#wanted.delete(controllerId);
    else this.#wanted.set(controllerId, matcher);
    if (this.#wanted.size > 0) {
      this.#timer ??= setInterval(() => this.#look(), LOOK_MS).unref();
      this.#look();
      return;
    }
    clearInterval(this.#timer);
    this.#timer = undefined;
    for (const stop of this.#traced.values()) stop();
    this.#traced.clear();
  }

  #all(): Pipe[] {
    const { controllers, pipes } = this.#o;
    return [...controllers.all().map(({ id, channel }) => ({ name: `ctrl/${id}`, channel })), ...pipes()];
  }

  #look(): void {
    if (this.#wanted.size === 0) return;
    for (const { name, channel } of this.#all()) {
      if (this.#traced.has(channel)) continue;
      const stop = observe(channel, (message) => {
        if (message.contentType !== ControlType.TraceEvent) this.#tell(name, message);
      });
      this.#traced.set(channel, stop);
      channel.onClose(() => this.#traced.delete(channel));
    }
  }

  #tell(name: string, message: Parameters<typeof tracedMessage>[2]): void {
    let body: Buffer | undefined;
    for (const [id, isWanted] of this.#wanted) {
      const controller = this.#o.controllers.byId(id);
      if (controller === undefined || !isWanted(name) || controller.channel.queuedBytes > MAX_QUEUED) continue;
      body ??= tracedMessage(this.#o.routerId, name, message);
      this.#o.controllers.sendTo(id, { contentType: ControlType.TraceEvent, body });
    }
  }
}

function answerText(enable: boolean, verbosity: number, names: readonly string[], matching: readonly string[]): string {
  const { TraceToggleVerbosity } = ctrlPb;
  const lines: string[] = [];
  if (verbosity === TraceToggleVerbosity.ReportMatches || verbosity === TraceToggleVerbosity.ReportAll)
    lines.push(...matching.map((name) => `${name}: ${enable ? "traced" : "not traced any more"}`));
  if (verbosity === TraceToggleVerbosity.ReportMisses || verbosity === TraceToggleVerbosity.ReportAll)
    lines.push(...names.filter((name) => !matching.includes(name)).map((name) => `${name}: not meant`));
  lines.push(`tracing of ${matching.length} of ${names.length} channels is ${enable ? "on" : "off"}`);
  return lines.join("\n");
}

/** The library is loaded when the first operator asks. An empty expression is found in everything. */
async function matcherOf(expression: string): Promise<Matcher> {
  if (expression.length > MAX_EXPRESSION) {
    throw new ProtocolError("TOO_LONG", `expected at most ${MAX_EXPRESSION} characters`);
  }
  const { RE2JS } = await import("re2js");
  const compiled = RE2JS.compile(expression);
  return (text) => compiled.matcher(text).find();
}
