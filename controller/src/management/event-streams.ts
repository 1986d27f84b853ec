import { Headers, type Logger, ManagementHeader, ManagementType, type Message } from "@sallyport/wire";
import { z } from "zod";
import type { Dispatcher, EventOutput } from "../events/dispatcher.ts";
import { readSubscription, SubscriptionError } from "../events/subscription.ts";
import type { NetworkEvents } from "../replicas/network-events.ts";
import type { WebSocketChannel } from "./websocket-channel.ts";

/** Streams of one channel, and subscriptions of one stream. */
const MAX_STREAMS = 16;
const MAX_SUBSCRIPTIONS = 64;
/** Bytes that may wait for a client; events beyond are dropped. */
const MAX_BUFFERED = 8 * 1024 * 1024;
const LOG_EVERY_MS = 10_000;

const requestSchema = z.object({
  format: z.literal("json"),
  subscriptions: z
    .array(z.object({ type: z.string(), options: z.record(z.string(), z.unknown()).nullish() }))
    .min(1)
    .max(MAX_SUBSCRIPTIONS),
});

/** Sends events to management clients as they asked for them. */
export class EventStreams {
  readonly #dispatcher: Dispatcher;
  readonly #network: Pick<NetworkEvents, "want"> | undefined;
  readonly #log: Logger;
  readonly #counts = new WeakMap<WebSocketChannel, number>();

  /** @param network has the other controllers tell their events, too */
  constructor(dispatcher: Dispatcher, network: Pick<NetworkEvents, "want"> | undefined, log: Logger) {
    this.#dispatcher = dispatcher;
    this.#network = network;
    this.#log = log;
  }

  async start(message: Message, channel: WebSocketChannel): Promise<void> {
    const count = this.#counts.get(channel) ?? 0;
    if (count >= MAX_STREAMS) {
      channel.replyResult(message, false, `a channel can have at most ${MAX_STREAMS} event streams`);
      return;
    }
    try {
      const { subscriptions } = readRequest(message.body);
      const wanted = subscriptions.map(({ type, options }) => readSubscription(type, options ?? undefined));
      this.#counts.set(channel, count + 1);
      if (this.#network !== undefined) {
        channel.onClose(await this.#network.want(wanted.map(({ namespace }) => namespace)));
        if (channel.isClosed) return;
      }
      // The answer goes out before the first event.
      channel.replyResult(message, true, "success");
      channel.onClose(this.#dispatcher.subscribe(new ChannelOutput(channel, this.#log), wanted, "network"));
    } catch (error) {
      if (!(error instanceof SubscriptionError)) throw error;
      channel.replyResult(message, false, error.message);
    }
  }
}

function readRequest(body: Buffer): z.infer<typeof requestSchema> {
  let given: unknown;
  try {
    given = JSON.parse(body.toString("utf8"));
  } catch {
    throw new SubscriptionError("the request is not JSON");
  }
  const parsed = requestSchema.safeParse(given);
  if (parsed.success) return parsed.data;
  throw new SubscriptionError(`the request cannot be understood: ${z.prettifyError(parsed.error)}`);
}

/** A client that reads too slowly loses events without notice: it never holds up other clients. */
class ChannelOutput implements EventOutput {
  readonly name: string;
  readonly #channel: WebSocketChannel;
  readonly #log: Logger;
  #dropped = 0;
  #loggedAt = Number.NEGATIVE_INFINITY;

  constructor(channel: WebSocketChannel, log: Logger) {
    this.name = channel.label;
    this.#channel = channel;
    this.#log = log;
  }

  write(namespace: string, json: string): void {
    if (this.#channel.bufferedBytes > MAX_BUFFERED) {
      this.#drop();
      return;
    }
    const headers = new Headers().setString(ManagementHeader.EventType, namespace);
    this.#channel.send({ contentType: ManagementType.StreamEventsEvent, headers, body: Buffer.from(json, "utf8") });
  }

  #drop(): void {
    this.#dropped += 1;
    const now = performance.now();
    if (now - this.#loggedAt < LOG_EVERY_MS) return;
    this.#loggedAt = now;
    this.#log.warn(
      { channel: this.name, dropped: this.#dropped },
      "a management client reads too slowly: events are dropped",
    );
  }
}
