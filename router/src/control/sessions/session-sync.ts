import type { ApiSessionRecord } from "@sallyport/wire";
import type { KnownApiSessions } from "./api-sessions.ts";

/** State that rides on each chunk of a full synchronisation. */
export interface SyncState {
  readonly id: string;
  readonly sequence: number;
  readonly isLast: boolean;
}

/** The time one synchronisation may take from its first chunk on. */
export const SYNC_DEADLINE_MS = 20_000;

interface RunningSync {
  readonly id: string;
  readonly startedAt: number;
  readonly sequences: Set<number>;
  readonly listed: Set<string>;
  readonly joined: Set<string>;
  greatestId: string;
  last: number | undefined;
}

/**
 * Full synchronisation of API sessions in chunks (docs/protocol/control.md, "API sessions"). Sessions are usable as soon
 * as their chunk arrives; only the end of a synchronisation removes: every session that was not listed and whose id is not
 * above the greatest listed one, because a session with a greater id was made after the list. Ids of synchronisations
 * compare as text: a greater one replaces the running one, chunks of a smaller one count as additions only.
 */
export class SessionSync {
  readonly #table: KnownApiSessions;
  #running: RunningSync | undefined;

  constructor(table: KnownApiSessions) {
    this.#table = table;
  }

  get isRunning(): boolean {
    return this.#running !== undefined;
  }

  /** A chunk of the full state. Returns true when it completed its synchronisation. */
  chunk(state: SyncState, sessions: readonly ApiSessionRecord[], now: number): boolean {
    this.#table.add(sessions);
    if (this.#running === undefined || state.id > this.#running.id) {
      this.#running = {
        id: state.id,
        startedAt: now,
        sequences: new Set(),
        listed: new Set(),
        joined: new Set(),
        greatestId: "",
        last: undefined,
      };
    }
    const running = this.#running;
    if (state.id !== running.id) return false;
    running.sequences.add(state.sequence);
    if (state.isLast) running.last = state.sequence;
    for (const session of sessions) {
      running.listed.add(session.id);
      if (session.id > running.greatestId) running.greatestId = session.id;
    }
    if (running.last === undefined || running.sequences.size <= running.last) return false;
    this.#finish(running);
    return true;
  }

  /** A session announced by itself: it outlives a synchronisation that is under way. */
  added(sessions: readonly ApiSessionRecord[]): void {
    this.#table.add(sessions);
    this.join(sessions);
  }

  /** Another controller has announced or listed these: they outlive a synchronisation that is under way with this one. */
  join(sessions: readonly ApiSessionRecord[]): void {
    for (const session of sessions) this.#running?.joined.add(session.id);
  }

  /** Full state in a single message without a synchronisation id: it replaces everything. */
  replaceAll(sessions: readonly ApiSessionRecord[]): void {
    this.#running = undefined;
    this.#table.add(sessions);
    const listed = new Set(sessions.map((session) => session.id));
    this.#table.removeWhere((session) => !listed.has(session.id));
  }

  /** Gives the running synchronisation up when its deadline has passed; then a new one has to be asked for. */
  expire(now: number): boolean {
    if (this.#running === undefined || now - this.#running.startedAt < SYNC_DEADLINE_MS) return false;
    this.#running = undefined;
    return true;
  }

  /** The channel it came over is gone: what arrived stays, nothing is removed. */
  abandon(): void {
    this.#running = undefined;
  }

  #finish(running: RunningSync): void {
    this.#running = undefined;
    const everything = running.listed.size === 0;
    this.#table.removeWhere(
      (session) =>
        !running.listed.has(session.id) &&
        !running.joined.has(session.id) &&
        (everything || session.id <= running.greatestId),
    );
  }
}
