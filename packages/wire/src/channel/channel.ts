import { DEFAULT_LIMITS, type FrameLimits, type FrameView } from "../frame/frame.ts";
import type { Headers } from "../frame/headers.ts";
import type { Message, Outgoing } from "../frame/message.ts";
import type { Logger } from "../log.ts";
import { DEFAULT_MAX_PENDING, type Output, type OutputLimits } from "../socket/slab-output.ts";
import type { Hello } from "./hello.ts";
import type { Peer } from "./peer.ts";

/** What a handler may do: work at once, or return a promise. What it throws is logged and ends nothing else. */
export type MessageHandler = (message: Message, channel: Channel) => void | Promise<void>;

/** A message that passed a channel, as an observer sees it. */
export interface ObservedMessage {
  readonly isReceived: boolean;
  readonly contentType: number;
  readonly sequence: number;
  /** The request it answers; -1: none. */
  readonly replyFor: number;
  /** Bytes of its body. */
  readonly length: number;
  readonly headers?: Headers | undefined;
  /** A view that holds only while the observer runs. */
  readonly body: Uint8Array;
}

export interface RequestOptions {
  signal?: AbortSignal;
  /** The connection to send on; the default one when not given. */
  via?: Underlay | undefined;
  /** Milliseconds until the request fails with `RequestTimeoutError`; 30,000 when not given. */
  timeoutMs?: number;
}

export interface HeartbeatOptions {
  /** A heartbeat goes out when none did for this long. */
  sendIntervalMs: number;
  /** How often the clock is looked at. */
  checkIntervalMs: number;
  /** The channel is closed when no heartbeat was answered for this long; the first answer may take three times as long. Absent: never. */
  closeUnresponsiveMs?: number;
  /** Called with the round-trip time of every answered heartbeat, in nanoseconds. */
  onLatency?: (ns: bigint) => void;
}

/** What a channel holds for its peer at most; both sides choose for themselves. */
export interface ChannelLimits {
  /** Largest body of a message received, in bytes; 16 MiB when not given. */
  readonly maxBody?: number;
  /** Bytes that may wait for a peer that does not read; 64 MiB when not given. Above, the connection is ended. */
  readonly maxPending?: number;
  /** Milliseconds that a peer may take none of what waits for it before the connection is ended; any time when not given. */
  readonly writeTimeoutMs?: number;
}

/** One connection of a channel. */
export interface Underlay {
  /** Type that the dialer gave the connection (`edge.default`, `link.ack`, …); empty for a channel that is not grouped. */
  readonly type: string;
  /** When it became a part of the channel, a time of `performance.now()`. */
  readonly joinedAt: number;
  /** `ip:port` of both ends, IPv6 in brackets. */
  readonly localAddress: string;
  readonly remoteAddress: string;
  readonly output: Output;
  readonly channel: Channel;
  readonly isClosed: boolean;
  /** How often bytes were read from it. */
  readonly reads: number;
  /** Stops reading. Frames that are already in memory (at most one read buffer) are still delivered. Repeated calls count once. */
  pause(): void;
  resume(): void;
  /** Stops reading until `output`, and every other output it was held for, has drained. */
  holdFor(output: Output): void;
  /** Ends this connection, at once when something is wrong with it, else behind what is queued; the channel ends with its last one of the default type. */
  close(reason?: Error): void;
}

/** A two-way stream of messages with one peer, over one connection or a group of them (docs/protocol/channel.md). */
export interface Channel {
  /** For logs: what the channel is and who is at its other end. */
  readonly label: string;
  readonly peer: Peer;
  /** At the dialer the id the listener announced (else the common name of its certificate); at the listener the hello's id token. */
  readonly remoteId: string;
  /** The hello of the first connection, sent or received. */
  readonly hello: Hello;
  /** The headers of the result that answered the hello, received or sent. */
  readonly result: Headers;
  readonly connectionId: string;
  readonly isGrouped: boolean;
  readonly isClosed: boolean;
  /** Resolves when the channel is closed: with the reason, or with nothing after `close()` without one. */
  readonly closed: Promise<Error | undefined>;
  /** Calls `cb` when the channel closes, at once if it is closed already. */
  onClose(cb: (reason?: Error) => void): void;

  /** Queues a message; what is sent in one turn of the event loop leaves in one write. @throws ChannelClosedError */
  send(out: Outgoing, via?: Underlay): void;
  /** Sends and waits for the reply. Rejects with `RequestTimeoutError`, `ChannelClosedError` or the signal's reason. */
  request(out: Outgoing, options?: RequestOptions): Promise<Message>;
  /** Answers `to`: names its sequence in header 1 and returns its headers 128 to 255 unchanged. @throws ChannelClosedError */
  reply(to: Message, out: Outgoing, via?: Underlay): void;
  /** Answers `to` with a Result (content type 2). @throws ChannelClosedError */
  replyResult(to: Message, ok: boolean, text?: string): void;
  /** Takes messages of one content type. One handler per type; a later call replaces it, also for ping (1) and latency (3). */
  handle(contentType: number, handler: MessageHandler): void;
  /** Takes messages that no other handler takes; without it they are logged once per type and dropped. */
  handleOther(handler: MessageHandler): void;

  /**
   * THE HOT PATH: sees every frame before anything is allocated for it; true means it was consumed. The header block was
   * checked: entries lie within it. With heartbeats enabled, entries 5 and 6 may stand in any frame.
   */
  onFrame?: ((frame: FrameView, underlay: Underlay) => boolean) | undefined;

  /** Told of every message sent or handed to a handler, frames taken by `onFrame` excepted. Must not throw. */
  observer?: ((message: ObservedMessage) => void) | undefined;

  readonly underlays: readonly Underlay[];
  /** A connection of `type` (default: the channel's first type), always the same for the same key while the connections stay. */
  underlayFor(key: number, type?: string): Underlay;
  readonly queuedBytes: number;
  /** Every connection of the default type is full. */
  readonly isFull: boolean;
  onDrain(cb: () => void): void;

  /** Sends what is queued, then ends every connection. Waiting requests fail with `ChannelClosedError`. */
  close(reason?: Error): void;

  enableHeartbeats(options: HeartbeatOptions): void;
  /**
   * Asks at once, by a heartbeat, whether the other end answers; whether an answer came within `timeoutMs`. Calls at the same time share one
   * question. Time in which this process stood still does not count. Needs `enableHeartbeats`; false without.
   */
  probe(timeoutMs: number): Promise<boolean>;
  /** Round-trip time of the last answered heartbeat; absent before the first. */
  readonly latencyMs?: number | undefined;
}

/** Everything that a channel is made from once the hellos are exchanged. */
export interface ChannelParts {
  readonly label: string;
  readonly peer: Peer;
  readonly remoteId: string;
  readonly hello: Hello;
  readonly result: Headers;
  readonly connectionId: string;
  readonly isGrouped: boolean;
  readonly limits: FrameLimits;
  readonly outputLimits: OutputLimits;
  readonly log: Logger;
}

/** The limits of a channel with the defaults filled in. */
export function limitsOf(given: ChannelLimits): Pick<ChannelParts, "limits" | "outputLimits"> {
  const { maxBody = DEFAULT_LIMITS.maxBody, maxPending = DEFAULT_MAX_PENDING, writeTimeoutMs } = given;
  return {
    limits: { ...DEFAULT_LIMITS, maxBody },
    outputLimits: { maxPending, writeTimeoutMs },
  };
}
