import { type FlowOptions, flowDefaults } from "../options.ts";

/** What to do with a payload that arrived. */
export const Arrival = {
  /** It is the next in order: deliver it, then whatever `takeNext` gives. Acknowledge it. */
  Next: 0,
  /** It came early: copy it and hand it to `keep`. Acknowledge it. */
  Early: 1,
  /** It was here before: only acknowledge it again. */
  Duplicate: 2,
  /** There is no room: drop it and do not acknowledge it, so that it is sent again. */
  NoRoom: 3,
} as const;
export type Arrival = (typeof Arrival)[keyof typeof Arrival];

/** Counters of a receive buffer, for inspection. */
export type ReceiveBufferDetail = ReturnType<ReceiveBuffer<unknown>["detail"]>;

/** A fill above which a fall to less than half is worth an acknowledgement of its own. */
const WORTH_REPORTING = 10_000;

/**
 * The receiving side of one direction of a circuit: puts payloads in order and counts what is held until the local side
 * has taken it (docs/protocol/xgress.md "Receiver"). A pure state machine; a payload in order is never copied by it.
 *
 * @typeParam T a copy of an early payload
 */
export class ReceiveBuffer<T> {
  readonly #limit: number;
  readonly #maxEarly: number;
  readonly #early = new Map<number, { readonly payload: T; readonly size: number }>();
  /** The sequence that is delivered next; everything below was delivered. */
  #expected = 0;
  #highest = 0;
  #held = 0;
  #reported = 0;

  constructor(options: Partial<Pick<FlowOptions, "rxBufferSize" | "maxPayloads">> = {}) {
    this.#limit = options.rxBufferSize ?? flowDefaults.rxBufferSize;
    this.#maxEarly = options.maxPayloads ?? flowDefaults.maxPayloads;
  }

  /** Bytes held: early payloads, and delivered ones the local side has not taken yet (see `release`). */
  get held(): number {
    return this.#held;
  }

  /** Payloads waiting for an earlier one. */
  get earlyCount(): number {
    return this.#early.size;
  }

  /**
   * Judges a payload of `size` data bytes. After `Next` its bytes count as held until `release`; after `Early` call `keep`.
   *
   * @param most no more is held than so many bytes, when that is less than the limit
   */
  arrive(sequence: number, size: number, most = Number.POSITIVE_INFINITY): Arrival {
    const ahead = (sequence - this.#expected) | 0;
    if (ahead < 0 || this.#early.has(sequence)) return Arrival.Duplicate;
    const isNew = ((sequence - this.#highest) | 0) > 0;
    if (isNew && (this.#held > this.#limit || this.#held > most)) return Arrival.NoRoom;
    if (ahead > 0) {
      // Gaps are filled even when it is full, or it would never empty; but a sender that leaves them on purpose is not fed.
      if (this.#early.size >= this.#maxEarly || this.#held > 2 * this.#limit) return Arrival.NoRoom;
      return Arrival.Early;
    }
    if (isNew) this.#highest = sequence;
    this.#expected = (this.#expected + 1) | 0;
    this.#held += size;
    return Arrival.Next;
  }

  /** Stores the copy of a payload that was judged `Early`. */
  keep(sequence: number, payload: T, size: number): void {
    if (((sequence - this.#highest) | 0) > 0) this.#highest = sequence;
    this.#early.set(sequence, { payload, size });
    this.#held += size;
  }

  /** The next payload in order that had come early; its bytes stay held until `release`. */
  takeNext(): T | undefined {
    if (this.#early.size === 0) return undefined;
    const entry = this.#early.get(this.#expected);
    if (entry === undefined) return undefined;
    this.#early.delete(this.#expected);
    this.#expected = (this.#expected + 1) | 0;
    return entry.payload;
  }

  /**
   * The local side has taken `size` bytes.
   *
   * @param scale see `report`
   * @returns true when the fill fell so far that the sender, which may be waiting, should be told by an acknowledgement
   *   without sequences
   */
  release(size: number, scale = 1): boolean {
    this.#held -= size;
    return this.#reported > WORTH_REPORTING && this.#reported > 2 * this.#held * scale;
  }

  /**
   * The fill to put into an acknowledgement that is written now.
   *
   * @param scale by how much there is less memory for this circuit now than its full buffer: the fill is reported so many
   *   times larger, so that the sender sees a full buffer when that memory is used up
   */
  report(scale = 1): number {
    this.#reported = Math.floor(this.#held * scale);
    return this.#reported;
  }

  /** Drops what came early, handing each payload to `release`. */
  clearEarly(release: (payload: T) => void): void {
    for (const { payload, size } of this.#early.values()) {
      this.#held -= size;
      release(payload);
    }
    this.#early.clear();
  }

  detail() {
    return {
      size: this.#held,
      payloadCount: this.#early.size,
      sequence: (this.#expected - 1) | 0,
      maxSequence: this.#highest,
    };
  }
}
