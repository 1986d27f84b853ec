import type { Channel, Underlay } from "../channel/channel.ts";
import { localAddress, remoteAddress } from "../channel/peer.ts";
import { ChannelClosedError, ProtocolError } from "../errors.ts";
import { type FrameLimits, FrameParser, type FrameView } from "../frame/frame.ts";
import { type Output, type OutputLimits, SlabOutput } from "./slab-output.ts";
import type { SocketReader } from "./socket-reader.ts";
import type { StreamSocket } from "./stream-socket.ts";

/** What was queued at the end is looked at so often. */
const LINGER_LOOK_MS = 500;
/** It is dropped with the socket when none of it left between so many looks: between two, this process may have stood still. */
const STOOD_LOOKS = 2;
/** And after so many, however slowly it leaves. */
const MAX_LOOKS = 20;

/** What a connection needs of the channel it belongs to. */
export interface UnderlayOwner {
  readonly channel: Channel;
  readonly limits: FrameLimits;
  readonly outputLimits: OutputLimits;
  nextSequence(): number;
  /** @throws ProtocolError to end the connection */
  frameArrived(frame: FrameView, underlay: SocketUnderlay): void;
  underlayClosed(underlay: SocketUnderlay, reason: Error | undefined): void;
}

/** One TLS connection under a channel: its reading, its output, its end. */
export class SocketUnderlay implements Underlay {
  readonly type: string;
  readonly joinedAt = performance.now();
  readonly localAddress: string;
  readonly remoteAddress: string;
  readonly output: SlabOutput;
  reads = 0;
  readonly #socket: StreamSocket;
  readonly #reader: SocketReader;
  readonly #owner: UnderlayOwner;
  readonly #parser: FrameParser;
  readonly #heldFor = new Set<Output>();
  #closed = false;
  #paused = false;

  constructor(socket: StreamSocket, reader: SocketReader, type: string, owner: UnderlayOwner) {
    this.type = type;
    // Read once: a closed socket no longer knows them.
    this.localAddress = localAddress(socket);
    this.remoteAddress = remoteAddress(socket);
    this.#socket = socket;
    this.#reader = reader;
    this.#owner = owner;
    this.output = new SlabOutput(socket, {
      nextSequence: () => owner.nextSequence(),
      limits: owner.outputLimits,
      onOverflow: (error) => this.close(error),
    });
    this.#parser = new FrameParser(owner.limits, (frame) => {
      owner.frameArrived(frame, this);
      if (this.#closed) this.#parser.stop();
    });
  }

  get channel(): Channel {
    return this.#owner.channel;
  }

  get isClosed(): boolean {
    return this.#closed;
  }

  /** Starts reading, with the bytes first that arrived behind the hello. */
  start(): void {
    this.#reader.deliver((buffer, length) => this.#bytes(buffer, length));
    if (this.#paused) this.#socket.pause();
    this.#reader.onClosed((error) => this.close(ended(error)));
  }

  pause(): void {
    this.#paused = true;
    this.#socket.pause();
  }

  resume(): void {
    this.#paused = false;
    if (!this.#closed) this.#socket.resume();
  }

  holdFor(output: Output): void {
    if (this.#heldFor.has(output)) return;
    this.#heldFor.add(output);
    this.pause();
    output.onDrain(() => {
      this.#heldFor.delete(output);
      if (this.#heldFor.size === 0) this.resume();
    });
  }

  close(reason?: Error): void {
    this.#end(reason, reason === undefined);
  }

  #end(reason: Error | undefined, sendQueued: boolean): void {
    if (this.#closed) return;
    this.#closed = true;
    if (sendQueued && !this.#socket.destroyed) {
      this.output.finish();
      this.#socket.end();
      this.#linger();
      this.#reader.onClosed(() => this.#socket.destroy());
      this.#reader.deliver(() => {});
    } else {
      this.#socket.destroy();
    }
    this.#owner.underlayClosed(this, reason);
    this.output.close();
  }

  /** Lets what was queued leave, as long as it moves. */
  #linger(): void {
    let left = this.#socket.writableLength;
    let looks = 0;
    let stood = 0;
    const timer = setInterval(() => {
      stood = this.#socket.writableLength < left ? 0 : stood + 1;
      left = this.#socket.writableLength;
      if (stood >= STOOD_LOOKS || ++looks >= MAX_LOOKS) this.#socket.destroy();
    }, LINGER_LOOK_MS);
    timer.unref();
    this.#socket.once("close", () => clearInterval(timer));
  }

  #bytes(buffer: Buffer, length: number): void {
    if (this.#closed) return;
    this.reads++;
    try {
      this.#parser.push(buffer, 0, length);
    } catch (error) {
      this.close(
        error instanceof ProtocolError
          ? error
          : new ProtocolError("READ_FAILED", `reading a frame failed: ${String(error)}`, { cause: error }),
      );
    }
  }
}

function ended(error: Error | undefined): ChannelClosedError {
  return error === undefined
    ? new ChannelClosedError("the peer closed the connection", "CLOSED_BY_PEER")
    : new ChannelClosedError(`the connection was lost: ${error.message}`, "CONNECTION_LOST", { cause: error });
}
