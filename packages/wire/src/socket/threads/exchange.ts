import type { Transferable } from "node:worker_threads";
import { Op } from "./messages.ts";

/** Bytes of one slab. */
const SLAB_SIZE = 256 * 1024;
/** Slabs kept for reuse: 2 MiB. */
const KEEP = 8;
/** Slabs that may be at the other thread before this one should give it no more. */
const MAX_LENT = 16;
/** So many empty slabs go home on their own; fewer wait for something to go with. */
const HOME_AT = 4;
/**
 * Slabs of the other thread that may be held on to: a run of a few KiB holds on to all of one, so that connections whose
 * peers do not read would take many times the memory of what waits for them.
 */
const MAX_KEPT = 32;
/** Bytes gathered in one turn that do not wait for its end. */
const POST_AT = 512 * 1024;
const OP_LENGTH = 4;

/** What one thread hands over to the other at a time. */
export interface Batch<Note> {
  /** Four numbers each: what, which connection, how many bytes, where they start in the slab; 0 opens the next slab. */
  readonly ops: readonly number[];
  readonly slabs: readonly ArrayBuffer[];
  /** Slabs of the other thread that it may fill again. */
  readonly empty: readonly ArrayBuffer[];
  /** Everything else, each with how many of the numbers come before it. */
  readonly notes: readonly (readonly [after: number, note: Note])[];
}

/** Bytes of the other thread's memory. A holder that keeps them beyond the call retains it, and releases it when done. */
export class Loan {
  #references = 1;
  readonly #slab: ArrayBuffer;
  readonly #mayRetain: () => boolean;
  readonly #done: (slab: ArrayBuffer) => void;

  constructor(slab: ArrayBuffer, mayRetain: () => boolean, done: (slab: ArrayBuffer) => void) {
    this.#slab = slab;
    this.#mayRetain = mayRetain;
    this.#done = done;
  }

  bytes(start: number, length: number): Buffer {
    return Buffer.from(this.#slab, start, length);
  }

  /** False: too many are kept already. Then the bytes are to be copied, and there is nothing to release. */
  retain(): boolean {
    if (!this.#mayRetain()) return false;
    this.#references++;
    return true;
  }

  release(): void {
    if (--this.#references === 0) this.#done(this.#slab);
  }
}

/** What becomes of what the other thread says. */
export interface Receiver<Note> {
  data(connection: number, bytes: Buffer, loan: Loan): void;
  op(op: Op, connection: number, count: number): void;
  note(note: Note): void;
}

/**
 * One end of what two threads say to each other. All of one turn of the event loop goes in one message: bytes in slabs
 * that change hands and come back empty, and a few numbers for each run of bytes of a connection. A message costs
 * as much as encrypting several payloads, and fresh memory as much as copying.
 */
export class Exchange<In, Out> {
  readonly #post: (batch: Batch<Out>, transfer: Transferable[]) => void;
  readonly #receiver: Receiver<In>;
  readonly #free: ArrayBuffer[] = [];
  #lent = 0;
  /** Slabs of the other thread that are here. */
  #borrowed = 0;
  #ops: number[] = [];
  #slabs: ArrayBuffer[] = [];
  #empty: ArrayBuffer[] = [];
  #notes: [number, Out][] = [];
  #current: Buffer = Buffer.alloc(0);
  #at = SLAB_SIZE;
  #scheduled = false;

  constructor(post: (batch: Batch<Out>, transfer: Transferable[]) => void, receiver: Receiver<In>) {
    this.#post = post;
    this.#receiver = receiver;
  }

  /** The other thread has more than it should be given to work off. `data` still works. */
  get isFull(): boolean {
    return this.#lent >= MAX_LENT;
  }

  /** Gives bytes of a connection, which are copied. */
  data(connection: number, bytes: Buffer): void {
    for (let from = 0; from < bytes.length; ) {
      const length = Math.min(bytes.length - from, SLAB_SIZE);
      const isNew = this.#at + length > SLAB_SIZE;
      if (isNew) this.#nextSlab();
      bytes.copy(this.#current, this.#at, from, from + length);
      const last = this.#ops.length - OP_LENGTH;
      if (!isNew && this.#ops[last] === Op.data && this.#ops[last + 1] === connection) {
        this.#ops[last + 2] = (this.#ops[last + 2] ?? 0) + length;
      } else {
        this.#ops.push(Op.data, connection, length, this.#at);
      }
      this.#at += length;
      from += length;
    }
    this.#schedule();
  }

  say(op: Op, connection: number, count = 0): void {
    this.#ops.push(op, connection, count, 0);
    this.#schedule();
  }

  note(note: Out): void {
    this.#notes.push([this.#ops.length, note]);
    this.#schedule();
  }

  /** Hands over what was gathered until now. */
  flush(): void {
    this.#scheduled = false;
    const batch = { ops: this.#ops, slabs: this.#slabs, empty: this.#empty, notes: this.#notes };
    if (batch.ops.length + batch.notes.length + batch.empty.length === 0) return;
    this.#ops = [];
    this.#slabs = [];
    this.#empty = [];
    this.#notes = [];
    this.#at = SLAB_SIZE;
    this.#lent += batch.slabs.length;
    this.#post(batch, [...batch.slabs, ...batch.empty]);
  }

  /** Takes a batch of the other thread. */
  receive({ ops, slabs, empty, notes }: Batch<In>): void {
    this.#lent -= empty.length;
    this.#free.push(...empty.slice(0, Math.max(0, KEEP - this.#free.length)));
    this.#borrowed += slabs.length;
    const mayRetain = (): boolean => this.#borrowed <= MAX_KEPT;
    const home = (slab: ArrayBuffer): void => this.#home(slab);
    const loans = slabs.map((slab) => new Loan(slab, mayRetain, home));
    let loan = -1;
    let noted = 0;
    for (let at = 0; ; at += OP_LENGTH) {
      for (let next = notes[noted]; next !== undefined && next[0] <= at; next = notes[++noted]) {
        this.#receiver.note(next[1]);
      }
      if (at >= ops.length) break;
      const [op, connection = 0, count = 0, start = 0] = [ops[at], ops[at + 1], ops[at + 2], ops[at + 3]];
      if (op !== Op.data) {
        this.#receiver.op(op as Op, connection, count);
        continue;
      }
      if (start === 0) loan++;
      const lent = loans[loan] as Loan;
      this.#receiver.data(connection, lent.bytes(start, count), lent);
    }
    for (const lent of loans) lent.release();
  }

  #nextSlab(): void {
    if (this.#slabs.length * SLAB_SIZE >= POST_AT) this.flush();
    const slab = this.#free.pop() ?? new ArrayBuffer(SLAB_SIZE);
    this.#slabs.push(slab);
    this.#current = Buffer.from(slab);
    this.#at = 0;
  }

  #home(slab: ArrayBuffer): void {
    this.#borrowed--;
    this.#empty.push(slab);
    if (this.#empty.length >= HOME_AT) this.#schedule();
  }

  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    setImmediate(() => this.flush());
  }
}
