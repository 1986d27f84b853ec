import { pauseAwake } from "@sallyport/async";
import { BaseHeader, BaseType } from "../catalogue/base.ts";
import { ChannelClosedError } from "../errors.ts";
import type { FrameView } from "../frame/frame.ts";
import { Headers } from "../frame/headers.ts";
import type { Outgoing } from "../frame/message.ts";
import type { HeartbeatOptions, Underlay } from "./channel.ts";

/** An answer may take this many times longer right after the channel was made. */
const FIRST_ANSWER_FACTOR = 3;
/** So many heartbeats on one connection stay unanswered before it is ended: peers may skip one that another follows closely. */
const MIN_UNANSWERED = 3;
const NANOSECONDS_PER_MILLISECOND = 1_000_000n;
/** The low bits of a heartbeat tell which connection it left by: its answer may come by any. */
const SLOT_MASK = 0xffn;

export interface HeartbeatHost {
  readonly underlays: readonly Underlay[];
  send(out: Outgoing, via: Underlay): void;
  close(reason: Error): void;
}

/** What was asked on one connection. */
interface Watch {
  readonly slot: number;
  lastAsked: number;
  /** When the first of those was sent that have no answer. */
  unansweredSince: number;
  unanswered: number;
}

/** Unix time in nanoseconds, steady within this process: heartbeats measure with it. */
export function unixNanoseconds(): bigint {
  const ms = performance.timeOrigin + performance.now();
  const whole = Math.floor(ms);
  return BigInt(whole) * NANOSECONDS_PER_MILLISECOND + BigInt(Math.floor((ms - whole) * 1e6));
}

/**
 * Liveness of one channel and of each of its connections (docs/protocol/channel.md, "Heartbeats"): sends heartbeats,
 * answers those of the peer in the same turn of the event loop and on the same connection, ends a connection whose
 * heartbeats stay unanswered for too long while others are answered, and the channel when all do.
 */
export class Heartbeats {
  readonly #options: HeartbeatOptions;
  readonly #host: HeartbeatHost;
  readonly #timer: NodeJS.Timeout;
  readonly #watches = new Map<Underlay, Watch>();
  #lookedAt = performance.now();
  #deadline: number;
  #answeredAt = 0;
  #latencyNs: bigint | undefined;
  /** The latest of the numbers that were answered. */
  #lastAnswer = 0n;
  #probe:
    | { readonly value: bigint; readonly answered: AbortController; readonly outcome: Promise<boolean> }
    | undefined;

  constructor(options: HeartbeatOptions, host: HeartbeatHost) {
    this.#options = options;
    this.#host = host;
    this.#deadline = performance.now() + FIRST_ANSWER_FACTOR * this.#patience;
    this.#timer = setInterval(() => this.#check(), options.checkIntervalMs);
    this.#timer.unref();
  }

  get latencyMs(): number | undefined {
    return this.#latencyNs === undefined ? undefined : Number(this.#latencyNs) / 1e6;
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#probe?.answered.abort();
  }

  /** See `Channel.probe`. Asks on the connection that requests go by. */
  probe(timeoutMs: number): Promise<boolean> {
    if (this.#probe !== undefined) return this.#probe.outcome;
    this.#watchAll();
    const [first] = this.#watches;
    if (first === undefined) return Promise.resolve(false);
    const answered = new AbortController();
    const value = this.#ask(first, performance.now());
    const outcome = pauseAwake(timeoutMs, answered.signal).then(() => {
      this.#probe = undefined;
      return this.#lastAnswer >= value;
    });
    this.#probe = { value, answered, outcome };
    return outcome;
  }

  /** Sends the next heartbeat with the next check: a connection has ended, perhaps with the last one or its answer in it. */
  askAgain(): void {
    for (const watch of this.#watches.values()) watch.lastAsked = Number.NEGATIVE_INFINITY;
  }

  /** Takes the heartbeat headers of any frame; its header block must have been checked. */
  received(frame: FrameView, underlay: Underlay): void {
    const { buffer } = frame;
    let at = frame.headersStart;
    while (at < frame.headersEnd) {
      const key = buffer.readInt32LE(at);
      const length = buffer.readUInt32LE(at + 4);
      at += 8;
      if (length === 8 && key === BaseHeader.Heartbeat) {
        const value = Buffer.from(buffer.subarray(at, at + 8));
        this.#send(new Headers().set(BaseHeader.HeartbeatResponse, value), underlay);
      } else if (length === 8 && key === BaseHeader.HeartbeatResponse) {
        this.#answered(buffer.readBigUInt64LE(at));
      }
      at += length;
    }
  }

  get #patience(): number {
    return this.#options.closeUnresponsiveMs ?? Number.POSITIVE_INFINITY;
  }

  #check(): void {
    const now = performance.now();
    // Time in which this process itself stood still says nothing about the peer: its answer may wait to be read.
    const stoodStill = Math.max(0, now - this.#lookedAt - this.#options.checkIntervalMs);
    this.#lookedAt = now;
    this.#deadline += stoodStill;
    if (now > this.#deadline) {
      this.#host.close(unanswered(`no heartbeat was answered for ${this.#options.closeUnresponsiveMs} ms`));
      return;
    }
    for (const [underlay, watch] of this.#watches) {
      watch.unansweredSince += stoodStill;
      const isLongDue = watch.unanswered >= MIN_UNANSWERED && now - watch.unansweredSince > this.#patience;
      // When none is answered it is the peer that is slow, which has the time of the whole channel.
      if (isLongDue && this.#answeredAt > watch.unansweredSince) {
        const text = `no heartbeat on this connection was answered for ${this.#options.closeUnresponsiveMs} ms, others were`;
        underlay.close(unanswered(text));
      }
    }
    this.#watchAll();
    this.#askOne(now);
  }

  /** Keeps a watch on every connection there is, and on no other. */
  #watchAll(): void {
    const { underlays } = this.#host;
    for (const underlay of this.#watches.keys()) if (!underlays.includes(underlay)) this.#watches.delete(underlay);
    if (this.#watches.size === underlays.length) return;
    for (const underlay of underlays) {
      if (this.#watches.has(underlay)) continue;
      const slot = this.#freeSlot();
      this.#watches.set(underlay, { slot, lastAsked: Number.NEGATIVE_INFINITY, unansweredSince: 0, unanswered: 0 });
    }
  }

  #freeSlot(): number {
    const taken = new Set([...this.#watches.values()].map(({ slot }) => slot));
    let slot = 0;
    while (taken.has(slot)) slot++;
    return slot;
  }

  /** Asks on the connection where it is longest due; one in a check, as peers remember one heartbeat at a time. */
  #askOne(now: number): void {
    let next: [Underlay, Watch] | undefined;
    for (const entry of this.#watches) if (next === undefined || entry[1].lastAsked < next[1].lastAsked) next = entry;
    if (next === undefined || now - next[1].lastAsked <= this.#options.sendIntervalMs) return;
    this.#ask(next, now);
  }

  /** What was sent: its answer is the same number. */
  #ask([underlay, watch]: readonly [Underlay, Watch], now: number): bigint {
    if (watch.unanswered === 0) watch.unansweredSince = now;
    watch.unanswered++;
    watch.lastAsked = now;
    const value = ((unixNanoseconds() + SLOT_MASK) & ~SLOT_MASK) | BigInt(watch.slot);
    this.#send(new Headers().setU64(BaseHeader.Heartbeat, value), underlay);
    return value;
  }

  #answered(value: bigint): void {
    const latency = unixNanoseconds() - value;
    if (latency < 0n) return;
    if (value > this.#lastAnswer) this.#lastAnswer = value;
    if (this.#probe !== undefined && value >= this.#probe.value) this.#probe.answered.abort();
    // Until the first answer it was the peer that was slow, not one connection.
    if (this.#answeredAt === 0) for (const watch of this.#watches.values()) watch.unansweredSince = performance.now();
    this.#answeredAt = performance.now();
    this.#deadline = this.#answeredAt + this.#patience;
    const slot = Number(value & SLOT_MASK);
    for (const watch of this.#watches.values()) if (watch.slot === slot) watch.unanswered = 0;
    this.#latencyNs = latency;
    this.#options.onLatency?.(latency);
  }

  #send(headers: Headers, underlay: Underlay): void {
    try {
      this.#host.send({ contentType: BaseType.Heartbeat, headers }, underlay);
    } catch (error) {
      // This may be one message too many for a peer that does not read. No caller would catch it: a timer sends.
      if (!(error instanceof ChannelClosedError)) throw error;
    }
  }
}

const unanswered = (text: string): ChannelClosedError => new ChannelClosedError(text, "HEARTBEAT_UNANSWERED");
