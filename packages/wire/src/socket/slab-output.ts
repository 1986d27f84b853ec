import type { Writable } from "node:stream";
import { ChannelClosedError } from "../errors.ts";
import { Slab } from "./slab.ts";

/**
 * Where frames for one connection are written: straight into memory that is handed to the socket once per event-loop
 * turn (docs/protocol/channel.md, "Sending").
 *
 * `reserve(n)` commits: write the whole frame at the returned offset of `slab` before anything else runs (no `await`, no
 * other `reserve` in between), and read `slab` after `reserve`, which may have changed it.
 */
export interface Output {
  /** Offset in `slab` where `n` bytes may be written now. @throws ChannelClosedError when the connection is closed */
  reserve(n: number): number;
  readonly slab: Buffer;
  /** The next sequence number of the channel, for the frame about to be written. */
  nextSequence(): number;
  /** Bytes reserved and not yet taken by the kernel. */
  readonly pending: number;
  /** More is pending than a sender should add to. `reserve` still works: the caller pauses its source and waits for `onDrain`. */
  readonly isFull: boolean;
  /** Calls `cb` once, as soon as the output is no longer full, or is closed. */
  onDrain(cb: () => void): void;
  /** Calls `cb` once, as soon as the kernel has taken everything reserved until now, or the connection is closed. */
  whenTaken(cb: () => void): void;
}

/** A run of this many bytes is written without waiting for the end of the turn. */
const FLUSH_AT = 64 * 1024;
const FULL_AT = 512 * 1024;
const DRAINED_AT = 128 * 1024;
/** Senders that ignore `isFull` end here. */
export const DEFAULT_MAX_PENDING: number = 64 * 1024 * 1024;

const EMPTY = Buffer.alloc(0);

let dirty: SlabOutput[] = [];

function flushDirty(): void {
  const outputs = dirty;
  dirty = [];
  for (const output of outputs) output.flush();
}

/** How long and how much may wait for a peer that does not read. */
export interface OutputLimits {
  /** Bytes. */
  readonly maxPending: number;
  /** Milliseconds without any progress; absent: any time. */
  readonly writeTimeoutMs?: number | undefined;
}

export interface SlabOutputOptions {
  readonly nextSequence: () => number;
  readonly limits: OutputLimits;
  /** A limit was reached: the other end does not read. */
  readonly onOverflow: (error: ChannelClosedError) => void;
}

/** A full slab, from its first byte that the socket has not been given. */
interface WaitingRun {
  readonly slab: Slab;
  readonly bytes: Buffer;
}

/**
 * The output of one connection: frames are gathered in a recycled slab, and everything of one turn of the event loop
 * leaves in one write. No cork, no list of small writes, and one write at a time: what comes meanwhile joins the next
 * run, because Node would copy several into new memory. A slab is touched again only after the write callback of every
 * run in it; an idle connection holds none.
 */
export class SlabOutput implements Output {
  slab: Buffer = EMPTY;
  pending = 0;
  isFull = false;
  readonly #socket: Writable;
  readonly #options: SlabOutputOptions;
  #current: Slab | undefined;
  #runStart = 0;
  #at = 0;
  #waiting: WaitingRun[] = [];
  #writing = 0;
  #scheduled = false;
  #closed = false;
  #patience: NodeJS.Timeout | undefined;
  #waiters: (() => void)[] = [];
  /** Who waits for the kernel, with how many bytes it must have taken by then. */
  #marks: { readonly at: number; readonly cb: () => void }[] = [];
  #taken = 0;

  constructor(socket: Writable, options: SlabOutputOptions) {
    this.#socket = socket;
    this.#options = options;
  }

  nextSequence(): number {
    return this.#options.nextSequence();
  }

  reserve(n: number): number {
    if (this.#closed) throw new ChannelClosedError("the connection is closed; nothing can be sent on it");
    const { maxPending } = this.#options.limits;
    if (this.pending + n > maxPending) {
      const error = new ChannelClosedError(
        `${this.pending} bytes wait for a peer that does not read, ${maxPending} is the limit`,
        "QUEUE_FULL",
      );
      this.#options.onOverflow(error);
      throw error;
    }
    if (this.#at - this.#runStart >= FLUSH_AT) this.#writeRun();
    if (this.#at + n > this.slab.length) this.#roll(n);
    const offset = this.#at;
    this.#at += n;
    this.pending += n;
    if (this.pending >= FULL_AT) this.isFull = true;
    if (!this.#scheduled) {
      this.#scheduled = true;
      if (dirty.push(this) === 1) setImmediate(flushDirty);
    }
    return offset;
  }

  onDrain(cb: () => void): void {
    if (this.isFull) {
      this.#waiters.push(cb);
    } else {
      queueMicrotask(cb);
    }
  }

  whenTaken(cb: () => void): void {
    if (this.pending === 0 || this.#closed) queueMicrotask(cb);
    else this.#marks.push({ at: this.#taken + this.pending, cb });
  }

  /** Hands everything reserved so far to the socket, or has it follow what the socket is writing. */
  flush(): void {
    this.#scheduled = false;
    this.#writeRun();
  }

  /** Hands everything to the socket, which is about to be ended. */
  finish(): void {
    this.#scheduled = false;
    this.#setAside();
    for (const { slab, bytes } of this.#waiting.splice(0)) this.#write(slab, bytes);
  }

  /** Hands out a copy of what was reserved but never given to the socket, for another connection of the group. */
  takeUnsent(): Buffer {
    this.#setAside();
    const unsent = Buffer.concat(this.#waiting.map(({ bytes }) => bytes));
    for (const { slab } of this.#waiting.splice(0)) slab.release();
    this.pending -= unsent.length;
    return unsent;
  }

  /** Takes nothing more; who waits for space is told. Runs already given to the socket keep their slabs until it is done with them. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    clearTimeout(this.#patience);
    this.#setAside();
    for (const { slab, bytes } of this.#waiting.splice(0)) {
      this.pending -= bytes.length;
      slab.release();
    }
    this.#letGo();
    this.#drained();
    for (const { cb } of this.#marks.splice(0)) cb();
  }

  /** Gives the socket the next run, unless it has one: then it follows when that was taken. */
  #writeRun(): void {
    if (this.#writing > 0) return;
    const next = this.#waiting.shift();
    if (next !== undefined) {
      this.#write(next.slab, next.bytes);
      return;
    }
    const slab = this.#current;
    if (slab === undefined || this.#at === this.#runStart) return;
    const run = this.slab.subarray(this.#runStart, this.#at);
    this.#runStart = this.#at;
    slab.retain();
    this.#write(slab, run);
  }

  #write(slab: Slab, run: Buffer): void {
    this.#writing++;
    this.#watch();
    this.#socket.write(run, (error) => this.#written(slab, run.length, error === null || error === undefined));
  }

  /** @param isAlive false: the socket has failed, and is given nothing more */
  #written(slab: Slab, length: number, isAlive: boolean): void {
    this.#writing--;
    slab.release();
    this.pending -= length;
    this.#taken += length;
    // What this turn still adds leaves with it.
    if (isAlive && !this.#closed && (!this.#scheduled || this.#waiting.length > 0)) this.#writeRun();
    if (this.#marks.length > 0) this.#passMarks();
    if (this.pending === 0) {
      this.#letGo();
      clearTimeout(this.#patience);
      this.#patience = undefined;
    } else {
      this.#patience?.refresh();
    }
    if (this.isFull && this.pending <= DRAINED_AT) this.#drained();
  }

  /** What the socket was not given of the current slab waits behind the others. */
  #setAside(): void {
    const slab = this.#current;
    if (slab === undefined || this.#at === this.#runStart) return;
    slab.retain();
    this.#waiting.push({ slab, bytes: this.slab.subarray(this.#runStart, this.#at) });
    this.#runStart = this.#at;
  }

  #passMarks(): void {
    for (let next = this.#marks[0]; next !== undefined && next.at <= this.#taken; next = this.#marks[0]) {
      this.#marks.shift();
      next.cb();
    }
  }

  /** Runs from the first write until nothing is pending, again from each write that the kernel took. */
  #watch(): void {
    const { writeTimeoutMs } = this.#options.limits;
    if (writeTimeoutMs === undefined || this.#patience !== undefined || this.#closed) return;
    this.#patience = setTimeout(() => {
      const taken = this.#taken;
      // While this process stood still the kernel may have taken something, of which it is told two turns later at most.
      setImmediate(() => setImmediate(() => this.#giveUp(taken, writeTimeoutMs)));
    }, writeTimeoutMs);
    this.#patience.unref();
  }

  #giveUp(taken: number, writeTimeoutMs: number): void {
    if (this.#closed || this.#taken !== taken) return;
    const text = `the peer took none of ${this.pending} waiting bytes for ${writeTimeoutMs} ms`;
    this.#options.onOverflow(new ChannelClosedError(text, "WRITE_TIMEOUT"));
  }

  #roll(n: number): void {
    this.#setAside();
    this.#writeRun();
    const isFirst = this.#current === undefined;
    this.#letGo();
    this.#current = isFirst ? Slab.takeSmall(n) : Slab.take(n);
    this.slab = this.#current.buffer;
  }

  #letGo(): void {
    this.#current?.release();
    this.#current = undefined;
    this.slab = EMPTY;
    this.#runStart = 0;
    this.#at = 0;
  }

  #drained(): void {
    this.isFull = false;
    const waiters = this.#waiters;
    this.#waiters = [];
    for (const waiter of waiters) waiter();
  }
}
