/** The changes of the model as the leader of several controllers makes them, and as the others read them. Source: docs/protocol/replicas.md, "Data model". */

import { pause } from "@sallyport/async";
import { sql } from "kysely";
import { loggedWrite } from "../../store/changes/logged-write.ts";
import type { Db, ModelStore } from "../context.ts";
import type { EncodedEvent } from "./events.ts";
import { isWithin, type Position, readPosition, type StoredPosition, storePosition } from "./position.ts";

/** Kind of the row of the change log that tells of one; its key is the index. */
export const MODEL_CHANGE = "model_change";
/** So many are kept for controllers that fall behind. */
const KEPT = 10_000;

export interface SharedChange {
  /** Where it leads to. */
  readonly position: Position;
  /** The index before it. */
  readonly previous: bigint;
  /** Body of the ChangeSet; undefined when what changed is not known, so that routers need the whole model. */
  readonly body: Buffer | undefined;
}

/**
 * Stores where routers may be, and what leads there. Undefined: the whole model does, but nothing else.
 * @throws PositionTakenError; NotHeldError when another process leads
 */
export async function storeChange(
  { db, replica }: Pick<ModelStore, "db" | "replica">,
  position: Position,
  stored: StoredPosition,
  body: Buffer | undefined,
): Promise<void> {
  if (!replica.isShared) return storePosition(db, position, stored);
  const isSame = stored?.index === position.index && body === undefined;
  await replica.leaderDb
    .transaction()
    .execute((trx) => (isSame ? storePosition(trx, position, stored) : shareChange(trx, position, stored, body)));
}

async function shareChange(
  db: Db,
  position: Position,
  stored: StoredPosition,
  body: Buffer | undefined,
): Promise<void> {
  await storePosition(db, position, stored);
  const { timeline, index, snapshot, unlogged } = position;
  await loggedWrite(
    db,
    sql`WITH made AS (
      INSERT INTO model_change (index, timeline, previous, snapshot, unlogged, body)
      VALUES (${index.toString()}::bigint, ${timeline}, ${(stored?.index ?? -1n).toString()}::bigint, ${snapshot}, ${unlogged}, ${body ?? null})
      ON CONFLICT (index) DO UPDATE SET timeline = excluded.timeline, previous = excluded.previous, snapshot = excluded.snapshot,
        unlogged = excluded.unlogged, body = excluded.body, at = now()
      RETURNING index)`,
    { changes: [{ kind: MODEL_CHANGE, op: "create", of: "made", key: "index::text" }] },
  );
}

/** The changes after an index, oldest first; those up to `until`, if it is given. */
export async function sharedChanges(db: Db, after: bigint, until?: bigint): Promise<SharedChange[]> {
  const { rows } = await sql<{
    index: string;
    timeline: string;
    previous: string;
    snapshot: string;
    unlogged: string;
    body: Buffer | null;
  }>`
    SELECT index::text, timeline, previous::text, snapshot, unlogged, body FROM model_change
    WHERE index > ${after.toString()}::bigint AND index <= ${(until ?? 2n ** 63n - 1n).toString()}::bigint ORDER BY model_change.index`.execute(
    db,
  );
  return rows.map(({ index, timeline, previous, snapshot, unlogged, body }) => ({
    position: { timeline, index: BigInt(index), snapshot, unlogged },
    previous: BigInt(previous),
    body: body ?? undefined,
  }));
}

const LOOK_EVERY_MS = 100;
const MAX_LOOKS = 50;

/**
 * Where the leader has come to. Before the first position of all it waits for a few seconds: the leader loads the model. Not for use in a transaction with one
 * snapshot, which would show no other position: what it shows is read by {@link readPosition}.
 */
export async function leadersPosition(db: Db): Promise<Position> {
  for (let look = 0; look < MAX_LOOKS; look++) {
    const position = await readPosition(db);
    if (position !== undefined) return position;
    await pause(LOOK_EVERY_MS);
  }
  throw new Error("the leader of the controllers has not loaded the router data model yet");
}

/** Batches that the leader has made nothing of: with more, something is wrong. */
const MAX_UNSHARED = 10_000;

/** Events of a process that takes the changes of the leader: what it has found itself, and what may be in no change of the leader's. */
export class UnsharedEvents {
  #batches: { readonly snapshot: string; readonly events: readonly EncodedEvent[] }[] = [];

  /** @param snapshot of the log up to which they were found */
  add(events: readonly EncodedEvent[], snapshot: string): void {
    if (events.length === 0) return;
    if (this.#batches.push({ snapshot, events }) > MAX_UNSHARED) {
      throw new Error("the leader of the controllers makes no changes of the router data model");
    }
  }

  /** The leader has shared everything up to this snapshot. */
  shared(until: string): void {
    this.#batches = this.#batches.filter(({ snapshot }) => !isWithin(snapshot, until));
  }

  clear(): void {
    this.#batches = [];
  }

  /** What is left, and how many changes it is of. */
  takeAll(): { readonly events: readonly EncodedEvent[]; readonly count: bigint } {
    const batches = this.#batches.splice(0);
    return { events: batches.flatMap(({ events }) => events), count: BigInt(batches.length) };
  }
}

/** Removes changes that are old, and those of a former life, which had higher indexes. */
export async function pruneSharedChanges(db: Db, index: bigint): Promise<void> {
  await sql`DELETE FROM model_change WHERE index > ${index.toString()}::bigint
    OR index <= ${(index - BigInt(KEPT)).toString()}::bigint OR at < now() - interval '1 hour'`.execute(db);
}
