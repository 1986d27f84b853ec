import { randomBytes } from "node:crypto";
import type { ApiSessionRecord } from "@sallyport/wire";

/**
 * The full synchronisation of API sessions with one router: all sessions in id order, in chunks, the last of them marked as such. No I/O but the page
 * source. Source: docs/protocol/fabric.md, "Session synchronisation".
 */

const CHUNK_SIZE = 100;

export interface SyncChunk {
  /** From 0. */
  readonly sequence: number;
  /** True on exactly one chunk, the last, which may be empty. */
  readonly isLast: boolean;
  readonly sessions: readonly ApiSessionRecord[];
}

/** Header 1014 of a chunk. Routers take the bytes as JSON and stop their process when they are none, so it is never empty here. */
export function syncStateJson(syncId: string, chunk: Pick<SyncChunk, "sequence" | "isLast">): string {
  return JSON.stringify({ id: syncId, isLast: chunk.isLast, sequence: chunk.sequence });
}

/**
 * Cuts the sessions that `page` yields into chunks. One page is read ahead, so that the last chunk is known to be the last: with no session at all it is
 * one empty chunk (the router then drops what it still has), and a multiple of the chunk size has no chunk more than needed.
 */
export async function* syncChunks(
  page: (afterId: string, limit: number) => Promise<readonly ApiSessionRecord[]>,
  chunkSize = CHUNK_SIZE,
): AsyncGenerator<SyncChunk> {
  let sequence = 0;
  let current = await page("", chunkSize);
  for (;;) {
    const lastId = current.at(-1)?.id;
    const next = lastId === undefined || current.length < chunkSize ? [] : await page(lastId, chunkSize);
    const isLast = next.length === 0;
    yield { sequence, isLast, sessions: current };
    if (isLast) return;
    sequence += 1;
    current = next;
  }
}

/**
 * What changed while a synchronisation runs. A chunk read before a change but written after the message about it would bring the old state back on the
 * router; {@link SyncOverlay.apply} brings a chunk up to date right before it is written. Sessions that were added are kept for the end: the router may have
 * got the message about them before the first chunk, or from another controller, and then drops them with all that are not listed.
 */
export class SyncOverlay {
  readonly #removed = new Set<string>();
  readonly #updated = new Map<string, ApiSessionRecord>();
  readonly #added = new Map<string, ApiSessionRecord>();

  added(session: ApiSessionRecord): void {
    this.#added.set(session.id, session);
  }

  updated(session: ApiSessionRecord): void {
    this.#updated.set(session.id, session);
  }

  removed(id: string): void {
    this.#removed.add(id);
    this.#updated.delete(id);
  }

  apply(sessions: readonly ApiSessionRecord[]): ApiSessionRecord[] {
    return sessions.filter((s) => !this.#removed.has(s.id)).map((s) => this.#updated.get(s.id) ?? s);
  }

  /** What was added since it was taken last, in its present state. */
  takeAdded(): ApiSessionRecord[] {
    const added = this.apply([...this.#added.values()]);
    this.#added.clear();
    return added;
  }
}

const TIME_DIGITS = 9;
const COUNTER_DIGITS = 5;

/**
 * Makes ids of full synchronisations. Routers compare them as text: a greater id aborts the synchronisation that is running, a smaller one is ignored. So
 * every id is greater than all earlier ones of this process, also when the clock steps back, and than those of earlier processes. Lower-case base 36.
 */
export class SyncIds {
  readonly #now: () => number;
  #time = 0;
  #counter = 0;

  constructor(now: () => number) {
    this.#now = now;
  }

  next(): string {
    const now = this.#now();
    this.#counter = now > this.#time ? 0 : this.#counter + 1;
    this.#time = Math.max(now, this.#time);
    const time = this.#time.toString(36).padStart(TIME_DIGITS, "0");
    const counter = this.#counter.toString(36).padStart(COUNTER_DIGITS, "0");
    return `s${time}${counter}${randomBytes(4).toString("hex")}`;
  }
}
