import { SerialQueue } from "@sallyport/async";
import type { Logger } from "@sallyport/wire";
import { type Kysely, sql } from "kysely";
import type { ChangeLog, ChangeSubscriber } from "../../store/changes/change-log.ts";
import { readChanges } from "../../store/changes/change-log-reads.ts";
import { DatabaseUnavailableError } from "../../store/outage.ts";
import type { Database, EngineTables } from "../../store/schema.ts";

/** Name of the setting that says how far the changes were told. */
const SETTING = "events-position";
/** A new leader tells no older changes: what happened while no controller ran is not told. */
const TAKE_OVER_MS = 120_000;
const AGAIN_MS = 500;

export interface LeaderChangesParts {
  readonly db: Kysely<Database>;
  readonly changes: Pick<ChangeLog, "subscribe" | "position">;
  readonly replica: {
    readonly isLeader: boolean;
    /** Refuses writes as soon as another process leads. */
    readonly leaderDb: Kysely<Database>;
    onLeadership(listener: () => void): () => void;
  };
  /** The time by which the log names when something changed, in milliseconds. */
  readonly now: () => number;
  readonly log: Logger;
}

interface Position {
  readonly snapshot: string;
  /** Of the database; undefined: the present one. */
  readonly life: string | undefined;
}

/**
 * The change log as the leader alone tells it. How far it was told is stored before it is told, by the right of the leader, and the next leader goes on from
 * there: no change is told twice, and none is left out unless a leader ends between the two. Source: docs/events.md, "Several controllers".
 */
export class LeaderChanges implements Pick<ChangeLog, "subscribe"> {
  readonly #parts: LeaderChangesParts;
  readonly #stop: () => void;
  readonly #work = new SerialQueue();
  #subscriber: ChangeSubscriber | undefined;
  /** How far this process has told as the leader; undefined until that is known. */
  #position: Position | undefined;
  #isLeading: boolean;
  #isQueued = false;
  #again: NodeJS.Timeout | undefined;

  constructor(parts: LeaderChangesParts) {
    this.#parts = parts;
    this.#isLeading = parts.replica.isLeader;
    this.#stop = parts.replica.onLeadership(() => this.#leadershipChanged());
  }

  /** There is one subscriber at a time. */
  subscribe(subscriber: ChangeSubscriber): () => void {
    const { changes } = this.#parts;
    this.#subscriber = subscriber;
    // A new subscriber gets what happens from now on.
    if (this.#isLeading) this.#position = { snapshot: changes.position, life: undefined };
    const advance = () => this.#advance();
    const unsubscribe = changes.subscribe({ name: subscriber.name, onChanges: advance, onReset: advance });
    this.#advance();
    return () => {
      unsubscribe();
      this.#subscriber = undefined;
      this.#forget();
    };
  }

  /** Ends when what was begun is told. */
  async close(): Promise<void> {
    this.#stop();
    this.#isLeading = false;
    clearTimeout(this.#again);
    await this.#work.idle();
  }

  #leadershipChanged(): void {
    const { isLeader } = this.#parts.replica;
    if (isLeader === this.#isLeading) return;
    this.#isLeading = isLeader;
    this.#position = undefined;
    if (!isLeader) return;
    if (this.#subscriber === undefined) this.#forget();
    else this.#advance();
  }

  #advance(): void {
    if (!this.#isLeading || this.#isQueued) return;
    this.#isQueued = true;
    this.#run(async () => {
      this.#isQueued = false;
      await this.#tell();
    });
  }

  async #tell(): Promise<void> {
    const subscriber = this.#subscriber;
    if (subscriber === undefined || !this.#isLeading) return;
    const isTakingOver = this.#position === undefined;
    const from = this.#position ?? (await this.#stored());
    const read = await readChanges(this.#parts.db as unknown as Kysely<EngineTables>, from.snapshot);
    const next = { snapshot: read.snapshot, life: read.life };
    const isLost = read.reset || (from.life !== undefined && from.life !== read.life);
    if (isTakingOver || isLost || read.rows.length > 0) await this.#store(next);
    this.#position = next;
    if (isLost) {
      await subscriber.onReset(read.snapshot);
      return;
    }
    const since = this.#parts.now() - TAKE_OVER_MS;
    const rows = isTakingOver ? read.rows.filter(({ at }) => at.getTime() >= since) : read.rows;
    if (rows.length > 0) await subscriber.onChanges(rows, read.snapshot);
  }

  /** How far the leader before this one has told; from now on if that is not known. */
  async #stored(): Promise<Position> {
    const { db, changes } = this.#parts;
    const row = await db.selectFrom("setting").select("value").where("name", "=", SETTING).executeTakeFirst();
    const { snapshot, life } = (row?.value ?? {}) as Partial<Position>;
    return typeof snapshot === "string" ? { snapshot, life } : { snapshot: changes.position, life: undefined };
  }

  async #store(position: Position): Promise<void> {
    await sql`INSERT INTO setting (name, value) VALUES (${SETTING}, ${JSON.stringify(position)}::jsonb)
      ON CONFLICT (name) DO UPDATE SET value = excluded.value`.execute(this.#parts.replica.leaderDb);
  }

  /** Without a subscriber nothing is told: a later leader does not begin here. */
  #forget(): void {
    if (!this.#isLeading) return;
    this.#run(async () => {
      if (this.#subscriber !== undefined || !this.#isLeading) return;
      await sql`DELETE FROM setting WHERE name = ${SETTING}`.execute(this.#parts.replica.leaderDb);
    });
  }

  #run(work: () => Promise<void>): void {
    this.#work.run(work).catch((error: unknown) => {
      clearTimeout(this.#again);
      this.#again = setTimeout(() => this.#advance(), AGAIN_MS).unref();
      // Also when another process leads now: that one tells the changes.
      if (error instanceof DatabaseUnavailableError || !this.#parts.replica.isLeader) return;
      this.#parts.log.warn({ error: String(error) }, "changes could not be read for events; trying again");
    });
  }
}
