import { ms16 } from "../frames/payload.ts";
import { type FlowOptions, flowDefaults } from "../options.ts";
import { ACK_ALLOWANCE_MS, type AckView, echoOf } from "../receive/acknowledgement.ts";
import { LossEvidence, RoundTrip } from "./retransmission.ts";

/** Least time between two looks for payloads to retransmit. */
const SCAN_GAP_MS = 64;
const FIRST_CAPACITY = 64;
/** A peer that says that it is full is asked again at least so often, by a payload: its word that it is not may be lost. */
export const MAX_PATIENCE_MS = 5_000;

/** Counters of a send buffer, for inspection and metrics. */
export type SendBufferDetail = ReturnType<SendBuffer<unknown>["detail"]>;

/**
 * The sending side of one direction of a circuit: which payloads are in flight, whether another may leave, what is sent
 * again and when (docs/protocol/xgress.md "Sender"). A pure state machine: it keeps what the owner sent until it is
 * acknowledged, and knows neither sockets nor clocks. All times are milliseconds of one clock of the owner's choice
 * (that clock's `ms16` must be the one in the payloads).
 *
 * @typeParam T what the owner needs to send a payload again
 */
export class SendBuffer<T> {
  readonly #options: FlowOptions;
  readonly #release: ((payload: T) => void) | undefined;
  // A ring of parallel arrays, indexed by sequence modulo its length.
  #payloads: (T | undefined)[] = new Array<T | undefined>(FIRST_CAPACITY).fill(undefined);
  #sizes = new Int32Array(FIRST_CAPACITY);
  #sentAt = new Float64Array(FIRST_CAPACITY);
  #firstSentAt = new Float64Array(FIRST_CAPACITY);
  /** Which of all sendings the last one was. */
  #sentAs = new Float64Array(FIRST_CAPACITY);
  #isEnd = new Uint8Array(FIRST_CAPACITY);
  #mask = FIRST_CAPACITY - 1;
  /** Oldest sequence that may still be in flight, and the next to give out. */
  #base = 0;
  #next = 0;
  #inFlight = 0;
  /** When something was acknowledged the last time. */
  lastProgress = Number.NEGATIVE_INFINITY;
  #endsInFlight = 0;

  #window: number;
  #sendBytes = 0;
  #peerBytes = 0;
  #accumulator = 0;
  #successfulAcks = 0;
  #dupAcks = 0;
  #retransmits = 0;
  readonly #way: RoundTrip;
  readonly #evidence = new LossEvidence();
  /** By how much the clock in acknowledgements is older than the one written here; undefined: it is not that one. */
  #echoAge: number | undefined;
  #lastScan = Number.NEGATIVE_INFINITY;
  /** Rounds of retransmission since a full peer acknowledged something, and when the last one began. */
  #fullRounds = 0;
  #fullRoundAt = Number.NEGATIVE_INFINITY;
  #closingSince: number | undefined;
  #closed = false;
  /** Sums over the buffer's life, for metrics. */
  readonly totals = { retransmits: 0, duplicateAcks: 0 };

  /** @param release called once for every payload that is no longer needed: acknowledged, or dropped by `close` */
  constructor(options: Partial<FlowOptions> = {}, release?: (payload: T) => void) {
    this.#options = { ...flowDefaults, ...options };
    this.#release = release;
    this.#window = this.#options.txPortalStartSize;
    this.#way = new RoundTrip(this.#options);
  }

  /** Whether another payload may be added. One always may when nothing is in flight, and the end marks of a closing side. */
  get canAdd(): boolean {
    if (this.#closed || this.#closingSince !== undefined || this.#sendBytes === 0) {
      return this.#inFlight < 2 * this.#options.maxPayloads;
    }
    return !this.blockedByPeer && !this.blockedByWindow;
  }

  /** The peer's receive buffer is too full. */
  get blockedByPeer(): boolean {
    return this.#options.txPortalMaxSize < this.#peerBytes;
  }

  /** Too much is in flight. */
  get blockedByWindow(): boolean {
    return this.#window < this.#sendBytes || this.#inFlight >= this.#options.maxPayloads;
  }

  /** Payloads not yet acknowledged. */
  get inFlight(): number {
    return this.#inFlight;
  }

  /** The sequence that `add` will give next, int32. */
  get nextSequence(): number {
    return this.#next;
  }

  get isClosed(): boolean {
    return this.#closed;
  }

  /** Milliseconds after which a payload is sent again. */
  get retransmitAfterMs(): number {
    return this.#way.thresholdMs;
  }

  /** Last measured round trip in milliseconds, smoothed; 0 when none was measured. */
  get rttMs(): number {
    return this.#way.ms;
  }

  /**
   * Keeps a payload that is being sent now; the caller has looked at `canAdd`.
   *
   * @param size bytes of data (headers do not count)
   * @param isEnd the payload is an end mark (EOF or circuit end) without data: a closing side does not wait for it
   * @returns the payload's sequence
   */
  add(payload: T, size: number, now: number, isEnd = false): number {
    const sequence = this.#next;
    if (((sequence - this.#base) | 0) > this.#mask) this.#grow();
    const slot = sequence & this.#mask;
    this.#payloads[slot] = payload;
    this.#sizes[slot] = size;
    this.#sentAt[slot] = now;
    this.#firstSentAt[slot] = now;
    this.#sentAs[slot] = this.#evidence.next();
    this.#isEnd[slot] = isEnd ? 1 : 0;
    this.#next = (sequence + 1) | 0;
    this.#inFlight++;
    if (isEnd) this.#endsInFlight++;
    this.#sendBytes += size;
    return sequence;
  }

  /** Takes a sequence for a payload that is sent once and never again (the marks of a full close). */
  skip(): number {
    const sequence = this.#next;
    if (((sequence - this.#base) | 0) > this.#mask) this.#grow();
    this.#payloads[sequence & this.#mask] = undefined;
    this.#next = (sequence + 1) | 0;
    this.#advance();
    return sequence;
  }

  /** Takes an acknowledgement. Look at `canAdd` and `shouldClose` afterwards. */
  acknowledge(ack: AckView, now: number): void {
    const roundTrip = this.#roundTrip(ack, now);
    const before = this.#inFlight;
    for (let index = 0; index < ack.count; index++) this.#acknowledgeOne(ack.sequence(index), now);
    if (this.#inFlight < before) this.lastProgress = now;
    this.#advance();
    this.#peerBytes = ack.receiveBufferSize;
    if (this.#inFlight < before || !this.blockedByPeer) this.#fullRounds = 0;
    if (roundTrip >= 0) this.#way.measure(roundTrip);
  }

  /**
   * Sends again what has waited too long, oldest first. Call it after acknowledgements and every 100 ms; it looks at
   * most once in 64 ms. The oldest payload asks alone, the others only when they were overtaken. A peer that is full has
   * most likely dropped what it got: it is asked less and less often, until it has room.
   *
   * @param send sends the payload marked as a retransmission, with the clock of now; false when there is no room: it
   *   stays due
   * @param isTurn goes on where there was no room, without regard to the last look
   * @returns how many were sent
   */
  retransmit(now: number, send: (payload: T, sequence: number) => boolean, isTurn = false): number {
    if (this.#closed || this.#inFlight === 0 || (!isTurn && now - this.#lastScan <= SCAN_GAP_MS)) return 0;
    this.#lastScan = now;
    const patience = this.#patience;
    this.#evidence.settle(now, SCAN_GAP_MS);
    const oldest = this.#base;
    let sent = 0;
    for (let sequence = this.#base; sequence !== this.#next; sequence = (sequence + 1) | 0) {
      const slot = sequence & this.#mask;
      const payload = this.#payloads[slot];
      const sentAt = this.#sentAt[slot] ?? now;
      if (payload === undefined) continue;
      const sentAs = this.#sentAs[slot] ?? 0;
      if (now - sentAt < patience || (sequence !== oldest && !this.#evidence.isOvertaken(sentAs))) continue;
      // Noted before: sending may come back with acknowledgements and new payloads, which move the slots.
      this.#sentAt[slot] = now;
      this.#sentAs[slot] = this.#evidence.next();
      if (!send(payload, sequence)) {
        this.#sentAt[slot] = sentAt;
        this.#sentAs[slot] = sentAs;
        break;
      }
      sent++;
      this.#countRetransmit();
    }
    if (sent > 0 && this.blockedByPeer && now - this.#fullRoundAt >= patience) {
      this.#fullRounds++;
      this.#fullRoundAt = now;
    }
    return sent;
  }

  /** Milliseconds after which a payload is sent again now. */
  get #patience(): number {
    const patience = this.#way.thresholdMs;
    if (!this.blockedByPeer) return patience;
    return Math.max(patience, Math.min(patience * 2 ** this.#fullRounds, MAX_PATIENCE_MS));
  }

  /** Begins to close: nothing new will come; `shouldClose` tells when it is done. */
  closeWhenEmpty(now: number): void {
    this.#closingSince ??= now;
  }

  /**
   * Whether a closing buffer has waited enough: everything acknowledged and lingered, or nothing for so long that its
   * patience is at an end.
   */
  shouldClose(now: number, patienceMs: number = this.#options.maxCloseWaitMs): boolean {
    if (this.#closed) return true;
    if (this.#closingSince === undefined) return false;
    const waited = now - this.#closingSince;
    if (now - Math.max(this.#closingSince, this.lastProgress) >= patienceMs) return true;
    if (waited < this.#options.closeLingerMs || this.#inFlight !== this.#endsInFlight) return false;
    // Its own end mark, when it is lost, is sent again like everything else, but not waited for without end.
    return this.#inFlight === 0 || waited >= this.#options.endWaitMs;
  }

  /** Drops what is in flight; nothing is retransmitted any more. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    for (let sequence = this.#base; sequence !== this.#next; sequence = (sequence + 1) | 0)
      this.#drop(sequence & this.#mask);
    this.#base = this.#next;
  }

  detail() {
    return {
      windowSize: this.#window,
      queuedPayloadCount: this.#inFlight,
      linkSendBufferSize: this.#sendBytes,
      linkRecvBufferSize: this.#peerBytes,
      accumulator: this.#accumulator,
      successfulAcks: this.#successfulAcks,
      duplicateAcks: this.#dupAcks,
      retransmits: this.#retransmits,
      blockedByLocalWindow: this.blockedByWindow,
      blockedByRemoteWindow: this.blockedByPeer,
      retxScale: this.#way.scale,
      retxThreshold: this.#way.thresholdMs,
      closeWhenEmpty: this.#closingSince !== undefined,
      closed: this.#closed,
    };
  }

  /**
   * The round trip an acknowledgement tells of, -1: none. Routers may write their own clock over ours, so the echo counts
   * only once it was seen to be ours; what was sent a single time needs none.
   */
  #roundTrip(ack: AckView, now: number): number {
    if (ack.rtt === 0 || ack.count === 0) return -1;
    const sequence = ack.sequence(0);
    if (this.#isInFlight(sequence)) {
      const sent = this.#sentAt[sequence & this.#mask] ?? now;
      const first = this.#firstSentAt[sequence & this.#mask] ?? now;
      for (const at of [sent, first]) {
        const written = ms16(at);
        if (ack.rtt !== written && ack.rtt !== echoOf(written)) continue;
        this.#echoAge = ack.rtt === written ? 0 : ACK_ALLOWANCE_MS;
        return Math.trunc(now - at);
      }
      if (sent === first) {
        this.#echoAge = undefined;
        return Math.trunc(now - sent);
      }
    }
    return this.#echoAge === undefined ? -1 : (ms16(now) - ack.rtt - this.#echoAge + 131_072) % 65_536;
  }

  #isInFlight(sequence: number): boolean {
    const offset = (sequence - this.#base) | 0;
    if (offset < 0 || offset >= ((this.#next - this.#base) | 0)) return false;
    return this.#payloads[sequence & this.#mask] !== undefined;
  }

  #acknowledgeOne(sequence: number, now: number): void {
    const slot = sequence & this.#mask;
    if (!this.#isInFlight(sequence)) {
      this.totals.duplicateAcks++;
      if (++this.#dupAcks >= this.#options.txPortalDupAckThresh) {
        this.#dupAcks = 0;
        this.#way.waitLonger();
      }
      return;
    }
    const sentAs = this.#sentAs[slot] ?? 0;
    if (this.#sentAt[slot] === this.#firstSentAt[slot]) this.#evidence.answered(sentAs);
    else this.#evidence.maybeAnswered(sentAs, now);
    this.#accumulator += this.#sizes[slot] ?? 0;
    this.#drop(slot);
    if (++this.#successfulAcks < this.#options.txPortalIncreaseThresh) return;
    this.#successfulAcks = 0;
    const grown = this.#window + Math.trunc(this.#accumulator * this.#options.txPortalIncreaseScale);
    this.#window = Math.min(grown, this.#options.txPortalMaxSize);
    this.#way.waitLess();
  }

  #drop(slot: number): void {
    const payload = this.#payloads[slot];
    if (payload === undefined) return;
    this.#payloads[slot] = undefined;
    this.#sendBytes -= this.#sizes[slot] ?? 0;
    this.#inFlight--;
    if (this.#isEnd[slot] === 1) this.#endsInFlight--;
    this.#release?.(payload);
  }

  /** Moves the base over everything acknowledged. */
  #advance(): void {
    while (this.#base !== this.#next && this.#payloads[this.#base & this.#mask] === undefined) {
      this.#base = (this.#base + 1) | 0;
    }
  }

  #countRetransmit(): void {
    this.totals.retransmits++;
    if (++this.#retransmits < this.#options.txPortalRetxThresh) return;
    this.#retransmits = 0;
    this.#accumulator = 0;
    this.#window = Math.max(Math.trunc(this.#window * this.#options.txPortalRetxScale), this.#options.txPortalMinSize);
  }

  #grow(): void {
    const oldMask = this.#mask;
    const capacity = 2 * (oldMask + 1);
    const mask = capacity - 1;
    const payloads = new Array<T | undefined>(capacity).fill(undefined);
    const sizes = new Int32Array(capacity);
    const sentAt = new Float64Array(capacity);
    const firstSentAt = new Float64Array(capacity);
    const sentAs = new Float64Array(capacity);
    const isEnd = new Uint8Array(capacity);
    for (let sequence = this.#base; sequence !== this.#next; sequence = (sequence + 1) | 0) {
      const from = sequence & oldMask;
      const to = sequence & mask;
      payloads[to] = this.#payloads[from];
      sizes[to] = this.#sizes[from] ?? 0;
      sentAt[to] = this.#sentAt[from] ?? 0;
      firstSentAt[to] = this.#firstSentAt[from] ?? 0;
      sentAs[to] = this.#sentAs[from] ?? 0;
      isEnd[to] = this.#isEnd[from] ?? 0;
    }
    this.#payloads = payloads;
    this.#sizes = sizes;
    this.#sentAt = sentAt;
    this.#firstSentAt = firstSentAt;
    this.#sentAs = sentAs;
    this.#isEnd = isEnd;
    this.#mask = mask;
  }
}
