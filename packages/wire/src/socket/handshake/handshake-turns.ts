import { BoundedMap } from "@sallyport/async";
import { countedAddress } from "../../address.ts";

/** Why a handshake ends: its address owes too much, too many of its handshakes wait, or nothing has come while others had to wait. */
export type HandshakeRefusal = "debt" | "waiting" | "silent";

export interface TurnTaker {
  readonly ip: string;
  /** Bytes that have come from the client. */
  readonly bytesRead: number;
  /** Hands the ClientHello to TLS, whose answer is on its way by the next tick. */
  begin(): void;
  /** Goes on reading from the client. */
  read(): void;
  stopReading(): void;
  /** Ends the connection. Must not throw. */
  refuse(why: HandshakeRefusal): void;
}

/** A handshake that takes part. */
export interface TurnTaken {
  /** It is over. @param isOrdinary of one that is done: whether such a chain is in use, and so costs nothing; asked when it took long */
  end(isOrdinary?: () => boolean): void;
}

/** How long one may read while others of the address wait. */
const TURN_MS = 25;
/** While others wait, a turn ends when nothing has come for so long. What has come before the turn is read in less. */
const SILENT_MS = 2;
/** One that was read so long after its ClientHello, and had sent nothing more, makes room when no other can begin. */
const SILENT_SINCE_MS = 1_000;
/** Of one address, handshakes that may be between the server's answer and their end. Others wait with their ClientHello. */
const MAX_BEGUN = 256;
/** Of one address. Far more than can begin within the time of a handshake. */
const MAX_WAITING = 4_096;
/** Bytes behind a ClientHello in which there are no two certificates: alerts. */
const FREE_BYTES = 512;
/** A handshake that takes less CPU time is an ordinary one, whatever its chain. */
const ORDINARY_MS = 5;
/** The costliest certificates that are known: named binary curves of 571 bits. */
const MAX_MS_PER_BYTE = 0.01;

/**
 * Handshakes of one thread, on all its ports. OpenSSL verifies all signatures of a client's chain as soon as it has read them, in one piece, and Node
 * does not tell. So of each address only one handshake at a time is read from, and what this took is charged unless the handshake ends well with an
 * ordinary chain. An address that owes too much is refused until time has paid (docs/security.md, "What TLS leaves open").
 */
export class HandshakeTurns {
  readonly #debts: HandshakeDebts;
  readonly #addresses = new Map<string, AddressTurns>();

  constructor(debts = new HandshakeDebts()) {
    this.#debts = debts;
  }

  /** Milliseconds for which connections from the address are refused, 0 when they are not. */
  shutFor(ip: string): number {
    return this.#debts.shutFor(ip, this.#addresses.get(countedAddress(ip))?.pending);
  }

  /** Has a handshake begin and read when it is its turn. */
  take(taker: TurnTaker): TurnTaken {
    const address = countedAddress(taker.ip);
    const turns = this.#addresses.getOrInsertComputed(address, () => new AddressTurns(this.#debts));
    const handshake = new Handshake(taker);
    turns.add(handshake);
    return {
      end: (isOrdinary) => {
        turns.end(handshake, isOrdinary);
        if (turns.isEmpty && this.#addresses.get(address) === turns) this.#addresses.delete(address);
      },
    };
  }
}

class Handshake {
  readonly taker: TurnTaker;
  isEnded = false;
  /** Its last turn came late, and nothing has come behind its ClientHello. */
  isSilent = false;
  #begunAt = 0;
  #bytesBefore = 0;
  /** When its turn began; undefined while it has none. */
  #cpuBefore: number | undefined;
  charged = 0;

  constructor(taker: TurnTaker) {
    this.taker = taker;
  }

  begun(): void {
    this.taker.stopReading();
    this.#begunAt = performance.now();
    this.#bytesBefore = this.taker.bytesRead;
  }

  read(): void {
    this.#cpuBefore = cpuMs();
    this.taker.read();
  }

  turnOver(): void {
    this.taker.stopReading();
    this.isSilent = this.taker.bytesRead === this.#bytesBefore && performance.now() - this.#begunAt >= SILENT_SINCE_MS;
  }

  /** CPU time of its turn. */
  get took(): number {
    return this.#cpuBefore === undefined ? 0 : cpuMs() - this.#cpuBefore;
  }

  /** Its turn is over, without success: it costs what the turn took, and at most what its bytes can have taken, since the thread does other work, too. */
  charge(): number {
    const bytes = this.taker.bytesRead - this.#bytesBefore;
    const cost = bytes > FREE_BYTES ? Math.max(0, Math.min(this.took, bytes * MAX_MS_PER_BYTE - this.charged)) : 0;
    this.#cpuBefore = undefined;
    this.charged += cost;
    return cost;
  }
}

interface Turn {
  readonly handshake: Handshake;
  readonly limit: NodeJS.Timeout;
  /** Looks whether anything comes; undefined while no other waits. */
  watch?: NodeJS.Timeout | undefined;
}

/** Handshakes of one address. */
class AddressTurns {
  readonly #debts: HandshakeDebts;
  /** Charged to handshakes that are under way. Time pays for it once they fail; it is gone when they end well. */
  pending = 0;
  /** Not begun. */
  readonly #waiting = new Set<Handshake>();
  /** Begun, without a turn so far. */
  readonly #fresh = new Set<Handshake>();
  /** Had a turn in which they did not end. */
  readonly #slow = new Set<Handshake>();
  /** Longest begun first. */
  readonly #begun = new Set<Handshake>();
  #turn: Turn | undefined;
  #isSlowNext = false;

  constructor(debts: HandshakeDebts) {
    this.#debts = debts;
  }

  get isEmpty(): boolean {
    return this.#begun.size === 0 && this.#waiting.size === 0;
  }

  add(handshake: Handshake): void {
    this.#waiting.add(handshake);
    this.#begin();
    const [longest] = this.#waiting;
    if (this.#waiting.size > MAX_WAITING && longest !== undefined) this.#refuse(longest, "waiting");
  }

  end(handshake: Handshake, isOrdinary: (() => boolean) | undefined): void {
    if (handshake.isEnded) return;
    const isFree = isOrdinary !== undefined && (handshake.took < ORDINARY_MS || isOrdinary());
    if (!isFree) this.pending += handshake.charge();
    this.#remove(handshake, isFree);
    this.#begin();
    this.#next();
  }

  #remove(handshake: Handshake, isFree = false): void {
    handshake.isEnded = true;
    this.pending -= handshake.charged;
    if (!isFree && handshake.charged > 0) this.#debts.charge(handshake.taker.ip, handshake.charged);
    this.#waiting.delete(handshake);
    this.#begun.delete(handshake);
    this.#fresh.delete(handshake);
    this.#slow.delete(handshake);
    if (this.#turn?.handshake === handshake) this.#endTurn(this.#turn);
  }

  #endTurn(turn: Turn): void {
    clearTimeout(turn.limit);
    clearTimeout(turn.watch);
    this.#turn = undefined;
  }

  #begin(): void {
    for (const handshake of this.#waiting) {
      if (this.#begun.size >= MAX_BEGUN && !this.#makeRoom()) return;
      this.#waiting.delete(handshake);
      this.#begun.add(handshake);
      handshake.taker.begin();
      // TLS reads the ClientHello in the next tick.
      process.nextTick(() => {
        if (handshake.isEnded) return;
        handshake.begun();
        this.#fresh.add(handshake);
        this.#next();
      });
    }
  }

  #makeRoom(): boolean {
    for (const handshake of this.#begun) {
      if (!this.#slow.has(handshake) || !handshake.isSilent) continue;
      this.#refuse(handshake, "silent");
      return true;
    }
    return false;
  }

  #next(): void {
    if (this.#turn !== undefined) {
      this.#watch(this.#turn);
      return;
    }
    const next = this.#pick();
    if (next === undefined) return;
    if (this.#debts.shutFor(next.taker.ip, this.pending) > 0) {
      this.#refuseAll();
      return;
    }
    this.#fresh.delete(next);
    this.#slow.delete(next);
    const turn: Turn = { handshake: next, limit: afterReads(TURN_MS, () => this.#turnOver(turn)) };
    this.#turn = turn;
    next.read();
    this.#watch(turn);
  }

  /** Has the turn end when nothing comes while others wait. */
  #watch(turn: Turn): void {
    if (turn.watch !== undefined || this.#fresh.size + this.#slow.size === 0) return;
    const { taker } = turn.handshake;
    const before = taker.bytesRead;
    turn.watch = afterReads(SILENT_MS, () => {
      if (this.#turn !== turn) return;
      turn.watch = undefined;
      if (taker.bytesRead === before) this.#turnOver(turn);
      else this.#watch(turn);
    });
  }

  /** The two kinds take turns: slow clients must not keep out others, and the other way round. */
  #pick(): Handshake | undefined {
    this.#isSlowNext = !this.#isSlowNext;
    const [first, second] = this.#isSlowNext ? [this.#slow, this.#fresh] : [this.#fresh, this.#slow];
    return first.values().next().value ?? second.values().next().value;
  }

  #turnOver(turn: Turn): void {
    if (this.#turn !== turn) return;
    const { handshake } = turn;
    this.#endTurn(turn);
    handshake.turnOver();
    this.pending += handshake.charge();
    this.#slow.add(handshake);
    this.#begin();
    this.#next();
  }

  #refuseAll(): void {
    for (const handshake of [...this.#waiting, ...this.#fresh, ...this.#slow]) this.#refuse(handshake, "debt");
  }

  #refuse(handshake: Handshake, why: HandshakeRefusal): void {
    this.#remove(handshake);
    handshake.taker.refuse(why);
  }
}

/** When a timer fires, sockets have not been read yet. */
function afterReads(ms: number, then: () => void): NodeJS.Timeout {
  return setTimeout(() => setImmediate(then), ms);
}

/** Of this thread. */
function cpuMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}

/** Of each second, milliseconds that an address may cost: 5 % of a core. With less, one costly handshake would shut out its neighbours for longer. */
const PAID_PER_SECOND = 50;
/** Milliseconds of debt up to which an address is served: some failed handshakes of ordinary clients cost less. */
const TOLERATED_MS = 100;
/** Less is nothing. */
const LEAST_MS = 0.001;
const MAX_ADDRESSES = 4_096;

interface Debt {
  readonly ms: number;
  /** When it was that much. */
  readonly at: number;
}

/** What addresses owe for costly handshakes, in milliseconds of CPU time; time pays for it. An IPv6 network of 64 bits counts as one address. */
export class HandshakeDebts {
  readonly #now: () => number;
  /** Those that were charged last come last. */
  readonly #debts = new BoundedMap<string, Debt>(MAX_ADDRESSES);

  /** @param now milliseconds */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  charge(ip: string, ms: number): void {
    const address = countedAddress(ip);
    const debt = this.#owed(address) + ms;
    this.#debts.set(address, { ms: debt, at: this.#now() });
  }

  /**
   * Whole milliseconds until the address is served again, 0 when it is.
   *
   * @param pending what it may come to owe for handshakes under way
   */
  shutFor(ip: string, pending = 0): number {
    const tooMuch = this.#owed(countedAddress(ip)) + pending - TOLERATED_MS;
    // Sums of fractions are not exact: who has waited as long as this says is served.
    return tooMuch < LEAST_MS ? 0 : Math.ceil((tooMuch * 1000) / PAID_PER_SECOND);
  }

  #owed(address: string): number {
    const debt = this.#debts.get(address);
    if (debt === undefined) return 0;
    const left = debt.ms - ((this.#now() - debt.at) * PAID_PER_SECOND) / 1000;
    if (left > 0) return left;
    this.#debts.delete(address);
    return 0;
  }
}
