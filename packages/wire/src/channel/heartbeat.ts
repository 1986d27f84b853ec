import { BaseHeader, BaseType } from "../catalogue/base.ts";
import { ChannelClosedError } from "../errors.ts";
import type { FrameView } from "../frame/frame.ts";
import { Headers } from "../frame/headers.ts";
import type { Outgoing } from "../frame/message.ts";
import type { HeartbeatOptions } from "./channel.ts";

/** An answer may take this many times longer right after the channel was made. */
const FIRST_ANSWER_FACTOR = 3;
const NANOSECONDS_PER_MILLISECOND = 1_000_000n;

export interface HeartbeatHost {
  send(out: Outgoing): void;
  close(reason: Error): void;
}

/** Unix time in nanoseconds, steady within this process: heartbeats measure with it. */
export function unixNanoseconds(): bigint {
  const ms = performance.timeOrigin + performance.now();
  const whole = Math.floor(ms);
  return BigInt(whole) * NANOSECONDS_PER_MILLISECOND + BigInt(Math.floor((ms - whole) * 1e6));
}

/**
 * Liveness of one channel (docs/protocol/channel.md, "Heartbeats"): sends heartbeats, answers those of the peer in the
 * same turn of the event loop, and closes the channel when its own stay unanswered for too long.
 */
export class Heartbeats {
  readonly #options: HeartbeatOptions;
  readonly #host: HeartbeatHost;
  readonly #timer: NodeJS.Timeout;
  #lastSent = 0;
  #lookedAt = performance.now();
  #deadline: number;
  #latencyNs: bigint | undefined;

  constructor(options: HeartbeatOptions, host: HeartbeatHost) {
    this.#options = options;
    this.#host = host;
    const patience = options.closeUnresponsiveMs ?? Number.POSITIVE_INFINITY;
    this.#deadline = performance.now() + FIRST_ANSWER_FACTOR * patience;
    this.#timer = setInterval(() => this.#check(), options.checkIntervalMs);
    this.#timer.unref();
  }

  get latencyMs(): number | undefined {
    return this.#latencyNs === undefined ? undefined : Number(this.#latencyNs) / 1e6;
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  /** Sends the next heartbeat with the next check: a connection has ended, perhaps with the last one or its answer in it. */
  askAgain(): void {
    this.#lastSent = 0;
  }

  /** Takes the heartbeat headers of any frame; its header block must have been checked. */
  received(frame: FrameView): void {
    const { buffer } = frame;
    let at = frame.headersStart;
    while (at < frame.headersEnd) {
      const key = buffer.readInt32LE(at);
      const length = buffer.readUInt32LE(at + 4);
      at += 8;
      if (length === 8 && key === BaseHeader.Heartbeat) {
        this.#answer(Buffer.from(buffer.subarray(at, at + 8)));
      } else if (length === 8 && key === BaseHeader.HeartbeatResponse) {
        this.#answered(buffer.readBigUInt64LE(at));
      }
      at += length;
    }
  }

  #check(): void {
    const now = performance.now();
    // Time in which this process itself stood still says nothing about the peer: its answer may wait to be read.
    this.#deadline += Math.max(0, now - this.#lookedAt - this.#options.checkIntervalMs);
    this.#lookedAt = now;
    if (now > this.#deadline) {
      this.#host.close(
        new ChannelClosedError(
          `no heartbeat was answered for ${this.#options.closeUnresponsiveMs} ms`,
          "HEARTBEAT_UNANSWERED",
        ),
      );
      return;
    }
    if (this.#lastSent === 0 || now - this.#lastSent > this.#options.sendIntervalMs) {
      this.#lastSent = now;
      this.#send(new Headers().setU64(BaseHeader.Heartbeat, unixNanoseconds()));
    }
  }

  #answer(value: Buffer): void {
    this.#send(new Headers().set(BaseHeader.HeartbeatResponse, value));
  }

  #answered(value: bigint): void {
    const latency = unixNanoseconds() - value;
    if (latency < 0n) {
      return;
    }
    if (this.#options.closeUnresponsiveMs !== undefined) {
      this.#deadline = performance.now() + this.#options.closeUnresponsiveMs;
    }
    this.#latencyNs = latency;
    this.#options.onLatency?.(latency);
  }

  #send(headers: Headers): void {
    try {
      this.#host.send({ contentType: BaseType.Heartbeat, headers });
    } catch (error) {
      // This may be the message too many for a peer that does not read. Nobody would catch it: a timer sends.
      if (!(error instanceof ChannelClosedError)) throw error;
    }
  }
}
