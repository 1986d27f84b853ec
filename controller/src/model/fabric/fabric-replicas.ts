import { Listeners } from "@sallyport/async";
import type { Logger } from "@sallyport/wire";
import { type RawBuilder, sql } from "kysely";
import { ALONE, type CircuitReport, type ClaimedCircuit, type FabricReplicas } from "../../fabric/replicas.ts";
import type { Store } from "../../store/database.ts";
import { TAKEOVER_MS } from "../../store/replicas/lease.ts";
import { StoredLinkSettings } from "./link-settings.ts";

/** Ended circuits are deleted together. */
const DELETE_AFTER_MS = 200;
const RETRY_MS = 2_000;
/** Rows of processes that are gone, of circuits that no controller has found since. */
const LEFT_SECONDS = 3_600;

/** Passes reports of routers on between controllers. */
export type ReportCalls = Pick<FabricReplicas, "pass" | "onReports">;

interface FabricReplicasParts {
  readonly store: Pick<Store, "db" | "replica" | "changes" | "transaction">;
  /** Of this process: its lease is under the same id. */
  readonly controllerId: string;
  readonly calls: ReportCalls;
  readonly log: Logger;
}

/** The other controllers on the database as the fabric sees them. A process that works alone has none. */
export function fabricReplicas(parts: FabricReplicasParts): FabricReplicas & { close(): Promise<void> } {
  return parts.store.replica.isShared ? new StoreReplicas(parts) : { ...ALONE, close: async () => undefined };
}

/** Source: docs/protocol/replicas.md, "Circuits". */
class StoreReplicas implements FabricReplicas {
  readonly isShared = true;
  readonly links: StoredLinkSettings;
  readonly #parts: FabricReplicasParts;
  readonly #succession = new Listeners();
  readonly #stop: () => void;
  #term: number | undefined;
  /** When this process began to look without a break. */
  #since = performance.now();
  /** When other controllers were first found to be without a lease. */
  readonly #goneSince = new Map<string, number>();
  #live: ReadonlySet<string> = new Set();
  /** A process was heard of whose id is not known yet: it may be any. */
  #isAnyUnknown = false;
  /** Controllers, and (undefined) those that were gone before this process looked, whose circuits were taken over. */
  readonly #succeeded = new Set<string | undefined>();
  #ended: string[] = [];
  #timer: NodeJS.Timeout | undefined;

  constructor(parts: FabricReplicasParts) {
    this.#parts = parts;
    const { replica } = parts.store;
    this.links = new StoredLinkSettings(parts.store, parts.log);
    this.#term = replica.leaseTerm;
    this.#stop = replica.onLook(() => this.#look());
    this.#look();
  }

  get isLeader(): boolean {
    return this.#parts.store.replica.isLeader;
  }

  get leaseTerm(): number | undefined {
    return this.#parts.store.replica.leaseTerm;
  }

  goneForMs(controllerId: string): number {
    if (this.#live.has(controllerId) || this.#isAnyUnknown || this.leaseTerm !== this.#term) return 0;
    const goneMs = performance.now() - (this.#goneSince.get(controllerId) ?? this.#since);
    return goneMs < TAKEOVER_MS ? 0 : goneMs;
  }

  onLook(listener: () => void): () => void {
    return this.#parts.store.replica.onLook(listener);
  }

  onSuccession(listener: () => void): () => void {
    return this.#succession.add(listener);
  }

  /** What another process has is left to it while that has, or had a moment ago, a lease: one statement decides. Of an id one process has a lease. */
  async claim(circuits: readonly ClaimedCircuit[]): Promise<ReadonlySet<string>> {
    const { store, controllerId } = this.#parts;
    const { db, replica } = store;
    const ids = circuits.map(({ id }) => id);
    const filedUnder = circuits.map((circuit) => circuit.filedUnder);
    // In one order: two that claim the same circuits do not wait for each other.
    const { rows } = await sql<{ id: string }>`
      INSERT INTO circuit_owner AS o (circuit_id, instance, replica_id)
      SELECT c.id, ${replica.instance}, ${controllerId} FROM unnest(${ids}::text[], ${filedUnder}::text[]) AS c (id, filed_under)
      WHERE c.filed_under = ${controllerId} OR NOT EXISTS (SELECT FROM replica_lease l WHERE l.replica_id = c.filed_under AND ${MAY_LIVE})
      ORDER BY c.id
      ON CONFLICT (circuit_id) DO UPDATE SET instance = excluded.instance, replica_id = excluded.replica_id, at = now()
        WHERE o.replica_id = excluded.replica_id OR NOT EXISTS (SELECT FROM replica_lease l WHERE l.instance = o.instance AND ${MAY_LIVE})
      RETURNING circuit_id AS id`.execute(db);
    return new Set(rows.map(({ id }) => id));
  }

  async ownersOf(circuitIds: readonly string[]): Promise<ReadonlyMap<string, string>> {
    const { store, controllerId } = this.#parts;
    const { db } = store;
    const { rows } = await sql<{ id: string; owner: string }>`
      SELECT circuit_id AS id, replica_id AS owner FROM circuit_owner o
      WHERE circuit_id = ANY (${circuitIds}::text[]) AND replica_id <> ${controllerId}
        AND EXISTS (SELECT FROM replica_lease l WHERE l.instance = o.instance AND ${MAY_LIVE})`.execute(db);
    return new Map(rows.map(({ id, owner }) => [id, owner]));
  }

  ended(circuitIds: readonly string[]): void {
    this.#ended.push(...circuitIds);
    this.#timer ??= setTimeout(() => void this.#delete(), DELETE_AFTER_MS).unref();
  }

  pass(controllerId: string, reports: readonly CircuitReport[]): Promise<void> {
    return this.#parts.calls.pass(controllerId, reports);
  }

  onReports(hear: (reports: readonly CircuitReport[]) => Promise<void>): () => void {
    return this.#parts.calls.onReports(hear);
  }

  async close(): Promise<void> {
    this.#stop();
    this.links.close();
    clearTimeout(this.#timer);
    if (this.#ended.length > 0) await this.#delete();
    clearTimeout(this.#timer);
  }

  #look(): void {
    const { controllerId, store } = this.#parts;
    const { others, isLeader, leaseTerm } = store.replica;
    const now = performance.now();
    if (leaseTerm !== this.#term) {
      // Who was gone while this process did not look is not known.
      this.#term = leaseTerm;
      this.#since = now;
      this.#goneSince.clear();
      this.#succeeded.clear();
    }
    const live = new Set(others.map(({ replicaId }) => replicaId));
    this.#isAnyUnknown = live.delete("");
    for (const id of this.#live) if (!live.has(id)) this.#goneSince.set(id, now);
    for (const id of live) {
      this.#goneSince.delete(id);
      this.#succeeded.delete(id);
    }
    live.delete(controllerId);
    this.#live = live;
    if (!isLeader) {
      this.#succeeded.clear();
      return;
    }
    const due = [undefined, ...this.#goneSince.keys()].filter(
      (id) => !this.#succeeded.has(id) && this.goneForMs(id ?? "") > 0,
    );
    if (due.length === 0) return;
    for (const id of due) this.#succeeded.add(id);
    this.#parts.log.info(
      { controllers: due.filter((id) => id !== undefined) },
      "circuits of controllers that are gone are looked for",
    );
    this.#succession.emit();
  }

  async #delete(): Promise<void> {
    this.#timer = undefined;
    const { store, log } = this.#parts;
    const ids = this.#ended.splice(0);
    try {
      await sql`DELETE FROM circuit_owner o WHERE (circuit_id = ANY (${ids}::text[]) AND instance = ${store.replica.instance})
        OR (at < now() - make_interval(secs => ${LEFT_SECONDS})
          AND NOT EXISTS (SELECT FROM replica_lease l WHERE l.instance = o.instance AND ${MAY_LIVE}))`.execute(
        store.db,
      );
    } catch (err) {
      log.debug({ err }, "circuits that ended are still named as taken over; trying again");
      this.#ended.push(...ids);
      this.#timer ??= setTimeout(() => void this.#delete(), RETRY_MS).unref();
    }
  }
}

/** A lease (`l`) that runs, or ran out so recently that its process may come back. */
const MAY_LIVE: RawBuilder<boolean> = sql<boolean>`l.until > clock_timestamp() - make_interval(secs => ${sql.lit(TAKEOVER_MS / 1_000)})`;
