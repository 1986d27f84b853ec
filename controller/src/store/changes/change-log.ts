import type { Logger } from "@sallyport/wire";
import type { Kysely } from "kysely";
import { Statement } from "../driver/statement.ts";
import { DatabaseUnavailableError, NotHeldError } from "../outage.ts";
import type { EngineTables } from "../schema.ts";
import {
  type ChangeOp,
  type ChangeRow,
  type ChangesRead,
  PRUNE_BATCH,
  pruneChanges,
  type Queryable,
  readChanges,
  readNothing,
} from "./change-log-reads.ts";

/** What a writer records: one row per changed entity, in the transaction (better: the statement) that changes it. */
export interface Change {
  /** Name of the entity's table, for example `service`. */
  kind: string;
  /** Its public id. */
  key: string;
  op: ChangeOp;
  /** What readers need of the state before, for example old role attributes or selectors. */
  before?: Record<string, unknown> | null;
}

/** One reader of the log. Its methods are awaited before it gets the next changes; an error is logged and leads to `onReset`. */
export interface ChangeSubscriber {
  /** For the log. */
  name: string;
  /**
   * It gets changes before the others, and {@link ChangeLog.noticed} waits for no others. `onChanges` takes effect at once; nothing counts as noticed until
   * `onReset` has succeeded.
   */
  isPrompt?: boolean;
  onChanges(rows: readonly ChangeRow[], snapshot: string): Promise<void> | void;
  /** Changes were lost to this subscriber: it must reload everything. */
  onReset(snapshot: string): Promise<void> | void;
}

const APPEND = new Statement<never>(
  `INSERT INTO change_log (kind, key, op, before)
  SELECT kind, key, op, before FROM jsonb_to_recordset($1::jsonb) AS c (kind text, key text, op text, before jsonb)`,
  { appendsChanges: true, isPipelined: true },
);

/** Appends changes in the transaction `db`, in one statement. */
export async function appendChange(db: Queryable, ...changes: readonly Change[]): Promise<void> {
  if (changes.length === 0) return;
  const rows = JSON.stringify(changes.map(({ kind, key, op, before }) => ({ kind, key, op, before: before ?? null })));
  await APPEND.rows(db as Kysely<EngineTables>, [rows]);
}

/** How long a local write waits for others before the log is read, unless a caller asks for it sooner. */
const SOON_MS = 5;
/** Reads that wait for a slow reader. */
const MAX_WAITING = 16;
const RESET_AGAIN_MS = 250;

export interface ChangeLogOptions {
  db: Kysely<EngineTables>;
  /** Called after every local write: passes a hint on to other processes. `isAwaited`: answers wait until the others know it. */
  onLocalWrite?: (isAwaited: boolean) => void;
  /**
   * Is this process told in time of what others write? Then a question for the newest changes is answered without asking the database, unless something is
   * known to be unread. Default: never. What a command beside the controllers writes is seen with its hint, at the latest with the next regular look.
   */
  isTold?: () => boolean;
  /** How long after it was read the log counts as read, all the same; default: without end. */
  memoryMs?: number;
  /** While the database is on another server, or another timeline, than its life began on, nothing is read. */
  requiresLife?: boolean;
  /** Whether the database is held now: while it is not, nothing that is in memory counts. */
  isHeld?: () => boolean;
  /**
   * How often to look without any hint; default 500 ms. A hint of another process may be lost, with the connection that listens for it. Half of the second
   * within which a revocation counts everywhere is left to read and to hand out.
   */
  pollMs?: number;
  /** Age at which changes are pruned; default one hour. */
  maxAgeSeconds?: number;
  pruneEveryMs?: number;
  log: Logger;
}

/** The one reader of the change log in a process: it hands every committed change to all subscribers, in order, exactly once. */
export class ChangeLog {
  readonly #options: Required<Omit<ChangeLogOptions, "onLocalWrite">> & Pick<ChangeLogOptions, "onLocalWrite">;
  readonly #subscribers = new Set<ChangeSubscriber>();
  /** Subscribers that could not reload yet. */
  readonly #behind = new Map<ChangeSubscriber, NodeJS.Timeout>();
  #since = "";
  #position = "";
  /** The end of what is being handed out, and how many reads it still has to hand out. */
  #handedOut: Promise<void> = Promise.resolve();
  #waiting = 0;
  #started: Promise<void> | undefined;
  #running: Promise<void> | undefined;
  #queued: Promise<void> | undefined;
  #timers: NodeJS.Timeout[] = [];
  #closed = false;
  /** Something may have been written that no read has begun after. */
  #isBehind = true;
  #soon: NodeJS.Timeout | undefined;
  #isLost = false;
  #life = "";
  /** When the newest successful read began, of the steady clock. */
  #readAt = Number.NEGATIVE_INFINITY;

  constructor(options: ChangeLogOptions) {
    this.#options = {
      isTold: () => false,
      memoryMs: Number.POSITIVE_INFINITY,
      requiresLife: false,
      isHeld: () => true,
      pollMs: 500,
      maxAgeSeconds: 3_600,
      pruneEveryMs: 60_000,
      ...options,
    };
  }

  /** Starts following from now. Idempotent; called by the store. */
  async start(): Promise<void> {
    this.#started ??= (async () => {
      const { snapshot, life } = await readNothing(this.#options.db);
      this.#life = life;
      this.#since = snapshot;
      this.#position = snapshot;
      const poll = setInterval(() => void this.wake(), this.#options.pollMs).unref();
      const prune = setInterval(() => void this.#prune(), this.#options.pruneEveryMs).unref();
      this.#timers = [poll, prune];
    })();
    await this.#started;
  }

  /**
   * From the next read on, `subscriber` gets every change. To mirror tables without a gap: subscribe, then load, and treat rows as
   * "look at this entity again". @returns the way to unsubscribe.
   */
  subscribe(subscriber: ChangeSubscriber): () => void {
    this.#subscribers.add(subscriber);
    return () => this.#subscribers.delete(subscriber);
  }

  /** The snapshot up to which the log was handed out (text of `pg_current_snapshot()`); empty before the first read. */
  get position(): string {
    return this.#position;
  }

  /** Says that this process has written: the log is read within milliseconds, at once if a caller waits for it; other processes get a hint. */
  poke(isAwaited = true): void {
    this.#isBehind = true;
    this.#options.onLocalWrite?.(isAwaited);
    this.#soon ??= setTimeout(() => {
      this.#soon = undefined;
      if (this.#isBehind) void this.wake();
    }, SOON_MS);
  }

  /** Reads now, because of a hint or a timer. Failures are logged; the next hint or timer tries again. */
  async wake(): Promise<void> {
    this.#isBehind = true;
    try {
      await this.caughtUp();
    } catch (error) {
      if (!this.#closed) this.#report("warn", { error }, "the change log could not be read; trying again");
    }
  }

  /** Resolves when every change that was committed before this call has been handled by every subscriber; a subscriber must not await it. */
  async caughtUp(): Promise<void> {
    await this.noticed();
    await this.#handedOut;
  }

  /** Another process has written: resolves when the prompt subscribers have what it has written. */
  hinted(): Promise<void> {
    this.#isBehind = true;
    return this.noticed();
  }

  /** Like {@link caughtUp} for the subscribers that are prompt. */
  noticed(): Promise<void> {
    if (this.#closed) return Promise.resolve();
    const { isHeld, isTold, memoryMs } = this.#options;
    if (!isHeld()) return Promise.reject(new NotHeldError());
    if (!this.#isBehind && isTold() && performance.now() - this.#readAt < memoryMs) {
      return this.#running ?? Promise.resolve();
    }
    // A read that has begun may have missed the latest commit: wait for one that begins after this call, shared by all who wait.
    this.#queued ??= (this.#running ?? Promise.resolve())
      .catch(() => undefined)
      .then(() => {
        this.#queued = undefined;
        this.#running = this.#read().finally(() => {
          this.#running = undefined;
        });
        return this.#running;
      });
    return this.#queued;
  }

  /** The known numbers of transactions are no longer valid: reads now, and makes every reader reload. */
  async restart(): Promise<void> {
    this.#isLost = true;
    await this.wake();
  }

  /** Ends the reading and waits for the read in progress. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const timer of this.#timers) clearInterval(timer);
    for (const timer of this.#behind.values()) clearTimeout(timer);
    clearTimeout(this.#soon);
    await this.#queued?.catch(() => undefined);
    await this.#running?.catch(() => undefined);
    await this.#handedOut;
  }

  async #read(): Promise<void> {
    await this.start();
    this.#isBehind = false;
    const { db, requiresLife } = this.#options;
    const isLost = this.#isLost;
    const startedAt = performance.now();
    const present = await (isLost ? readNothing(db) : readChanges(db, this.#since)).catch((error: unknown) => {
      this.#isBehind = true;
      throw error;
    });
    if (requiresLife && !present.isSameServer) {
      this.#isBehind = true;
      throw new DatabaseUnavailableError("another database server took over: the leader has not begun with it yet");
    }
    if (isLost) this.#isLost = false;
    this.#readAt = startedAt;
    const read = present.life === this.#life ? present : { ...present, rows: [], reset: true };
    this.#life = present.life;
    this.#since = read.snapshot;
    const readers = [...this.#subscribers];
    const hasNews = read.rows.length > 0 || read.reset;
    const prompt = readers.filter((reader) => reader.isPrompt && (hasNews || this.#behind.has(reader)));
    const isReloading = read.reset || prompt.some((reader) => this.#behind.has(reader));
    const handed = prompt.map((reader) => this.#hand(reader, read));
    this.#waiting++;
    this.#handedOut = this.#handedOut.then(async () => {
      if (hasNews) for (const reader of readers) if (!reader.isPrompt) await this.#hand(reader, read);
      this.#position = read.snapshot;
      this.#waiting--;
    });
    if (isReloading) {
      await Promise.all(handed);
      const failed = prompt.find((reader) => this.#behind.has(reader));
      if (failed !== undefined) {
        this.#isBehind = true;
        throw new DatabaseUnavailableError(`what was lost could not be loaded again: ${failed.name}`);
      }
    }
    // Who reads slowly must not let what is read pile up in memory.
    if (this.#waiting >= MAX_WAITING) await this.#handedOut;
  }

  /** Hands a reader the rows; never rejects. A reader that is behind gets none and reloads, because it missed earlier changes. */
  async #hand(reader: ChangeSubscriber, read: ChangesRead): Promise<void> {
    if (!read.reset && !this.#behind.has(reader)) {
      try {
        return await reader.onChanges(read.rows, read.snapshot);
      } catch (error) {
        this.#report("error", { subscriber: reader.name, error }, "a reader of the change log failed; it reloads");
      }
    }
    await this.#reset(reader, read.snapshot);
  }

  /** Makes a reader reload. If that fails, it is repeated with the next changes, or after a short time: until then the reader lacks committed changes. */
  async #reset(reader: ChangeSubscriber, snapshot: string): Promise<void> {
    clearTimeout(this.#behind.get(reader));
    try {
      await reader.onReset(snapshot);
      this.#behind.delete(reader);
    } catch (error) {
      const message = "a reader of the change log could not reload; trying again";
      this.#report("error", { subscriber: reader.name, error }, message);
      if (reader.isPrompt) this.#isBehind = true;
      this.#behind.delete(reader);
      if (this.#closed || !this.#subscribers.has(reader)) return;
      // In turn with what is handed out: changes that come while the reader loads are given to it afterwards.
      const timer = setTimeout(() => {
        this.#handedOut = this.#handedOut.then(async () => {
          if (this.#behind.get(reader) === timer && !this.#closed) await this.#reset(reader, snapshot);
        });
      }, RESET_AGAIN_MS).unref();
      this.#behind.set(reader, timer);
    }
  }

  async #prune(): Promise<void> {
    try {
      const removed = await pruneChanges(this.#options.db, this.#options.maxAgeSeconds, PRUNE_BATCH, this.#position);
      if (removed > 0) this.#options.log.debug({ removed }, "change log pruned");
    } catch (error) {
      if (!this.#closed) this.#report("warn", { error }, "the change log could not be pruned; trying again");
    }
  }

  /** Logs a failure, except an outage: `Outage` reports that once. */
  #report(
    level: "warn" | "error",
    fields: { readonly error: unknown; readonly subscriber?: string },
    text: string,
  ): void {
    if (fields.error instanceof DatabaseUnavailableError) return;
    this.#options.log[level]({ ...fields, error: String(fields.error) }, text);
  }
}
