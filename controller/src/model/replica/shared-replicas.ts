import { notFound } from "@sallyport/api";
import { Listeners, SerialQueue } from "@sallyport/async";
import type { Logger } from "@sallyport/wire";
import { type RawBuilder, sql } from "kysely";
import { loggedWrite } from "../../store/changes/logged-write.ts";
import { DatabaseUnavailableError } from "../../store/outage.ts";
import { QUIET_MS } from "../../store/replicas/lease.ts";
import type { Db, ModelStore } from "../context.ts";
import { type Replica, type ReplicaRecord, type ReplicaSet, stillRuns } from "./replica-set.ts";

/** How often a process looks whether the others run, and whether its own record is still right. */
const LOOK_MS = 1_000;
/** How often the leader notes which processes run. */
const SEEN_MS = 60_000;
/** A process that did not run for so long is no member of the set any more. */
const FORGET = sql`interval '10 minutes'`;
/** Name of the setting that numbers the set. */
const SETTING = "replica-set";

interface SharedReplicasParts {
  readonly store: Pick<ModelStore, "db" | "changes" | "replica">;
  /** This process's record now: its certificate may be renewed. */
  readonly own: () => ReplicaRecord;
  /** Removes what else is kept of a process that is a member no more. */
  readonly forget?: (trx: Db, id: string) => Promise<unknown>;
  /** How often the leader notes which processes run; default once a minute. */
  readonly seenEveryMs?: number;
  readonly log: Logger;
}

/**
 * The processes that share a database: each writes down where it is reached, and follows what the others write. Source: docs/protocol/replicas.md, "The set".
 */
export class SharedReplicas implements ReplicaSet {
  readonly #store: SharedReplicasParts["store"];
  readonly #own: () => ReplicaRecord;
  readonly #forget: SharedReplicasParts["forget"];
  readonly #log: Logger;
  readonly #seenEveryMs: number;
  readonly #listeners = new Listeners();
  readonly #work = new SerialQueue();
  readonly #stops: (() => void)[] = [];
  #records: readonly ReplicaRecord[] = [];
  #index = 0n;
  #registered = "";
  #live = "";
  #seenAt = Number.NEGATIVE_INFINITY;

  private constructor({ store, own, forget, log, seenEveryMs = SEEN_MS }: SharedReplicasParts) {
    this.#store = store;
    this.#own = own;
    this.#forget = forget;
    this.#log = log;
    this.#seenEveryMs = seenEveryMs;
  }

  /** Adds this process to the set. */
  static async start(parts: SharedReplicasParts): Promise<SharedReplicas> {
    const replicas = new SharedReplicas(parts);
    await replicas.#register();
    await replicas.#read();
    replicas.#follow();
    return replicas;
  }

  replicas(): readonly Replica[] {
    const live = this.#liveIds();
    const leader = this.#leaderId();
    return this.#records.map((record) => ({ ...record, isLive: live.has(record.id), leads: record.id === leader }));
  }

  get index(): bigint {
    return this.#index;
  }

  get isLeader(): boolean {
    return this.#store.replica.isLeader;
  }

  get isShared(): boolean {
    return this.#store.replica.isShared;
  }

  async remove(id: string): Promise<void> {
    await this.#work.run(async () => {
      await this.#store.db.transaction().execute(async (trx) => {
        const { rows: leases } = await sql`
          SELECT FROM replica_lease WHERE replica_id = ${id} AND until > clock_timestamp()`.execute(trx);
        if (leases.length > 0 || id === this.#own().id) {
          throw stillRuns(id);
        }
        if ((await this.#removeRows(trx, sql`id = ${id}`)).length === 0) throw notFound("controller", id);
      });
      await this.#read();
    });
    this.#log.info({ replica: id }, "a controller was removed from the set by an administrator");
  }

  onChange(listener: () => void): () => void {
    return this.#listeners.add(listener);
  }

  async close(): Promise<void> {
    for (const stop of this.#stops.splice(0)) stop();
    await this.#work.idle();
  }

  #liveIds(): Set<string> {
    return new Set([this.#own().id, ...this.#store.replica.others.map(({ replicaId }) => replicaId)]);
  }

  #leaderId(): string | undefined {
    const { isLeader, others } = this.#store.replica;
    return isLeader ? this.#own().id : others.find(({ leads }) => leads)?.replicaId;
  }

  #follow(): void {
    const { changes, replica } = this.#store;
    const read = () => this.#try(() => this.#read());
    const look = setInterval(() => this.#try(() => this.#look()), LOOK_MS).unref();
    this.#stops.push(
      () => clearInterval(look),
      changes.subscribe({
        name: "replicas",
        onChanges: (rows) => {
          if (rows.some(({ kind }) => kind === "replica")) read();
        },
        onReset: read,
      }),
      replica.onLeadership(() => {
        if (replica.isLeader) this.#try(() => this.#lead());
        else this.#listeners.emit();
      }),
    );
    if (replica.isLeader) this.#try(() => this.#lead());
  }

  #try(work: () => Promise<void>): void {
    this.#work.run(work).catch((error: unknown) => {
      if (error instanceof DatabaseUnavailableError) return;
      this.#log.warn({ error: String(error) }, "the set of controllers could not be read or written; trying again");
    });
  }

  async #look(): Promise<void> {
    if (JSON.stringify(this.#own()) !== this.#registered) await this.#register();
    const live = [...this.#liveIds()].sort().join(" ");
    if (live !== this.#live) {
      this.#live = live;
      this.#listeners.emit();
    }
    if (this.isLeader && performance.now() - this.#seenAt > this.#seenEveryMs) await this.#noteSeen();
  }

  /** Writes this process's record, if it is another one. A new place, or a new process, makes a new set. */
  async #register(): Promise<void> {
    const own = this.#own();
    const { id, apiAddress, ctrlAddress, fingerprint, version, startedAt } = own;
    await this.#store.db.transaction().execute(async (trx) => {
      const { rows: known } = await sql<{ ctrl_address: string; api_address: string }>`
        SELECT ctrl_address, api_address FROM replica WHERE id = ${id} FOR UPDATE`.execute(trx);
      const isSamePlace = known[0]?.ctrl_address === ctrlAddress && known[0].api_address === apiAddress;
      if (!isSamePlace) await nextSet(trx);
      await loggedWrite(
        trx,
        sql`WITH written AS (
          INSERT INTO replica (id, api_address, ctrl_address, fingerprint, version, started_at)
          VALUES (${id}, ${apiAddress}, ${ctrlAddress}, ${fingerprint}, ${version}, ${startedAt})
          ON CONFLICT (id) DO UPDATE SET api_address = excluded.api_address, ctrl_address = excluded.ctrl_address,
            fingerprint = excluded.fingerprint, version = excluded.version, started_at = excluded.started_at, seen_at = now()
          RETURNING id)`,
        { changes: [{ kind: "replica", op: "update", of: "written" }] },
      );
    });
    this.#registered = JSON.stringify(own);
  }

  /** Tells everyone of the new leader: routers take a set with a higher number. */
  async #lead(): Promise<void> {
    await this.#store.replica.leaderDb.transaction().execute(async (trx) => {
      await nextSet(trx);
      await loggedWrite(trx, sql`WITH led AS (SELECT ${this.#own().id}::text AS id)`, {
        changes: [{ kind: "replica", op: "update", of: "led" }],
      });
    });
    await this.#read();
  }

  /** Notes which processes run, and forgets those that have not run for long. */
  async #noteSeen(): Promise<void> {
    const { leaderDb } = this.#store.replica;
    await sql`UPDATE replica SET seen_at = now() WHERE id = ANY (${[...this.#liveIds()]}::text[])`.execute(leaderDb);
    await leaderDb.transaction().execute(async (trx) => {
      const ids = await this.#removeRows(trx, sql`seen_at < now() - ${FORGET}`);
      if (ids.length === 0) return;
      this.#log.info({ replicas: ids }, "controllers that have not run for long were removed from the set");
    });
    this.#seenAt = performance.now();
  }

  /** Removes processes from the set, with all that is kept of them. @returns their ids */
  async #removeRows(trx: Db, which: RawBuilder<unknown>): Promise<string[]> {
    // A process counts for the schema for a while after its lease has run out: such a lease stays.
    const rows = await loggedWrite(
      trx,
      sql`WITH gone AS (DELETE FROM replica WHERE ${which} RETURNING id),
        leases AS (DELETE FROM replica_lease WHERE replica_id IN (SELECT id FROM gone)
          AND until < clock_timestamp() - make_interval(secs => ${QUIET_MS / 1_000}))`,
      { changes: [{ kind: "replica", op: "delete", of: "gone" }], answer: sql<{ id: string }>`SELECT id FROM gone` },
    );
    const ids = rows.map(({ id }) => id);
    for (const id of ids) await this.#forget?.(trx, id);
    if (ids.length > 0) await nextSet(trx);
    return ids;
  }

  async #read(): Promise<void> {
    const { rows } = await sql<{
      id: string;
      api_address: string;
      ctrl_address: string;
      fingerprint: string;
      version: string;
      started_at: Date;
    }>`SELECT * FROM replica ORDER BY id`.execute(this.#store.db);
    const numbered = await sql<{ index: string }>`
      SELECT value #>> '{}' AS index FROM setting WHERE name = ${SETTING}`.execute(this.#store.db);
    this.#records = rows.map((row) => ({
      ...{ id: row.id, apiAddress: row.api_address, ctrlAddress: row.ctrl_address, fingerprint: row.fingerprint },
      ...{ version: row.version, startedAt: row.started_at },
    }));
    this.#index = BigInt(numbered.rows[0]?.index ?? 0);
    // It was removed while it stood still, or was cut off from the database: it comes back with the next look.
    if (!this.#records.some(({ id }) => id === this.#own().id)) this.#registered = "";
    this.#listeners.emit();
  }
}

/** Those that run, or have run within the last ten minutes, and the certificates that are seen at their addresses. */
export async function presentReplicas(db: Db): Promise<{ readonly id: string; readonly fingerprint: string }[]> {
  const { rows } = await sql<{ id: string; fingerprint: string }>`
    SELECT id, fingerprint FROM replica WHERE seen_at >= now() - ${FORGET} ORDER BY id`.execute(db);
  return rows;
}

async function nextSet(trx: Db): Promise<void> {
  await sql`INSERT INTO setting (name, value) VALUES (${SETTING}, '1') ON CONFLICT (name) DO UPDATE
    SET value = to_jsonb((setting.value #>> '{}')::bigint + 1)`.execute(trx);
}
