import { Backoff, errorText, pause } from "@sallyport/async";
import { BaseHeader } from "../catalogue/base.ts";
import { Headers } from "../frame/headers.ts";
import { silentLogger } from "../log.ts";
import type { Channel } from "./channel.ts";
import { type ChannelDialOptions, dialChannel } from "./dialer.ts";

const INITIAL_DELAY_MS = 50;
const MAX_DELAY_MS = 5 * 60_000;
const RETRY_MS = 5_000;

export interface ReconnectOptions extends ChannelDialOptions {
  /** Gets every channel that was made; set handlers before returning. */
  onChannel(channel: Channel): void;
  /** A channel was lost; the next attempt follows. */
  onDisconnect?(reason: Error | undefined): void;
  /** Wait after the first failure, in milliseconds, give or take a quarter; it doubles from then on. 50 when not given. */
  readonly initialDelayMs?: number;
  /** Longest of these waits before there was any connection; 300,000 when not given. */
  readonly maxDelayMs?: number;
  /** Longest of these waits once there was a connection, in milliseconds; 5,000 when not given. */
  readonly retryMs?: number;
}

/**
 * Keeps a channel to one address until it is stopped (docs/protocol/channel.md, "Reconnecting"): a new channel for every connection,
 * the first attempt after a loss at once. A connection that is lost within `retryMs` counts as a failed attempt, so a
 * listener that accepts and closes is not hammered.
 */
export class ReconnectingDialer {
  readonly #options: ReconnectOptions;
  #current: Channel | undefined;
  #stop: AbortController | undefined;
  #done: Promise<void> = Promise.resolve();

  constructor(options: ReconnectOptions) {
    this.#options = options;
  }

  /** The channel, while there is one. */
  get current(): Channel | undefined {
    return this.#current;
  }

  start(): void {
    if (this.#stop !== undefined) return;
    const stop = new AbortController();
    this.#stop = stop;
    const { signal } = this.#options;
    this.#done = this.#run(signal ? AbortSignal.any([stop.signal, signal]) : stop.signal);
  }

  /** Closes the channel and makes no other; resolves when nothing runs any more. */
  async stop(): Promise<void> {
    this.#stop?.abort();
    this.#stop = undefined;
    this.#current?.close();
    await this.#done;
  }

  async #run(signal: AbortSignal): Promise<void> {
    const { initialDelayMs = INITIAL_DELAY_MS, maxDelayMs = MAX_DELAY_MS, retryMs = RETRY_MS } = this.#options;
    const log = this.#options.log ?? silentLogger;
    const backoff = new Backoff({ firstMs: initialDelayMs, maxMs: maxDelayMs, jitter: [0.75, 1.25] });
    let lastConnectionId: string | undefined;
    while (!signal.aborted) {
      let wait = backoff.next(lastConnectionId === undefined ? maxDelayMs : retryMs);
      try {
        const channel = await dialChannel({ ...this.#options, hello: this.#hello(lastConnectionId), signal });
        const connectedAt = performance.now();
        lastConnectionId = channel.connectionId;
        const reason = await this.#use(channel, signal);
        const held = performance.now() - connectedAt >= retryMs;
        wait = held ? 0 : Math.min(wait, retryMs);
        if (held) backoff.reset();
        if (!signal.aborted) {
          log.info({ address: this.#options.address, reason: reason?.message, retryInMs: wait }, "connection lost");
          this.#notify(reason);
        }
      } catch (error) {
        if (signal.aborted) return;
        const reason = errorText(error);
        log.warn({ address: this.#options.address, reason, retryInMs: wait }, "cannot connect");
      }
      await pause(wait, signal);
    }
  }

  async #use(channel: Channel, signal: AbortSignal): Promise<Error | undefined> {
    this.#current = channel;
    const onAbort = (): void => channel.close();
    signal.addEventListener("abort", onAbort, { once: true });
    try {
      if (signal.aborted) {
        channel.close();
      } else {
        this.#options.onChannel(channel);
      }
    } catch (error) {
      (this.#options.log ?? silentLogger).error({ channel: channel.label, err: error }, "taking over a channel failed");
      channel.close(error instanceof Error ? error : undefined);
    }
    const reason = await channel.closed;
    signal.removeEventListener("abort", onAbort);
    this.#current = undefined;
    return reason;
  }

  #notify(reason: Error | undefined): void {
    try {
      this.#options.onDisconnect?.(reason);
    } catch (error) {
      (this.#options.log ?? silentLogger).error({ address: this.#options.address, err: error }, "onDisconnect failed");
    }
  }

  /** Every hello but the first names the connection before it; listeners that know nothing of it ignore that. */
  #hello(lastConnectionId: string | undefined): ChannelDialOptions["hello"] {
    const { hello } = this.#options;
    if (lastConnectionId === undefined || lastConnectionId === "") return hello;
    const headers = (hello.headers?.clone() ?? new Headers()).setString(BaseHeader.ConnectionId, lastConnectionId);
    return { idToken: hello.idToken, headers };
  }
}
