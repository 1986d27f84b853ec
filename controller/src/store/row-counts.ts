import { type Kysely, sql } from "kysely";
import type { ChangeLog } from "./changes/change-log.ts";
import type { ChangeRow } from "./changes/change-log-reads.ts";
import type { Database } from "./schema.ts";

/** Tables whose every new and every removed row stands in the change log under the table's name. */
const TABLES = ["identity", "service", "service_policy", "config", "terminator"] as const;
type CountedTable = (typeof TABLES)[number];

interface Counted {
  count: number;
  /** What the count includes. */
  readonly snapshot: Snapshot;
  readonly until: number;
}

/** A table is counted again after this time, whatever the log says. */
const LIFE_MS = 60_000;

/**
 * How many rows tables have, exactly: counted once, then kept by the change log, because counting reads the whole table. An answer includes all that was
 * committed before the question.
 */
export class RowCounts {
  readonly #db: Kysely<Database>;
  readonly #changes: Pick<ChangeLog, "subscribe" | "noticed">;
  readonly #counts = new Map<string, Counted>();
  /** Changes that came while a table was being counted. */
  readonly #missed = new Map<string, ChangeRow[]>();
  readonly #counting = new Map<string, Promise<Counted>>();
  #isFollowing = false;

  constructor(store: { readonly db: Kysely<Database>; readonly changes: Pick<ChangeLog, "subscribe" | "noticed"> }) {
    this.#db = store.db;
    this.#changes = store.changes;
  }

  async of(table: CountedTable): Promise<number> {
    this.#follow();
    await this.#changes.noticed();
    const known = this.#counts.get(table);
    if (known !== undefined && performance.now() < known.until) return known.count;
    // A count that began before this question may have missed what was committed since: only the rows that came meanwhile make it exact.
    return (await this.#count(table)).count;
  }

  #count(table: CountedTable): Promise<Counted> {
    const running = this.#counting.get(table);
    if (running !== undefined) return running;
    const missed: ChangeRow[] = [];
    this.#missed.set(table, missed);
    const counting = (async () => {
      try {
        const { rows } = await sql<{ snapshot: string; count: string }>`
          SELECT pg_current_snapshot()::text AS snapshot, count(*) AS count FROM ${sql.table(table)}`.execute(this.#db);
        const [row] = rows;
        if (row === undefined)
          throw new Error(`the rows of ${table} could not be counted: expected one row, found none`);
        const counted: Counted = {
          count: Number(row.count),
          snapshot: parseSnapshot(row.snapshot),
          until: performance.now() + LIFE_MS,
        };
        for (const change of missed) apply(counted, change);
        if (this.#missed.get(table) === missed) this.#counts.set(table, counted);
        return counted;
      } finally {
        if (this.#missed.get(table) === missed) this.#missed.delete(table);
      }
    })();
    this.#counting.set(table, counting);
    const ended = () => this.#counting.get(table) === counting && this.#counting.delete(table);
    counting.then(ended, ended);
    return counting;
  }

  #follow(): void {
    if (this.#isFollowing) return;
    this.#isFollowing = true;
    this.#changes.subscribe({
      name: "row counts",
      isPrompt: true,
      onChanges: (rows) => {
        for (const row of rows) {
          if (row.op === "update" || !TABLES.some((table) => table === row.kind)) continue;
          this.#missed.get(row.kind)?.push(row);
          const counted = this.#counts.get(row.kind);
          if (counted !== undefined) apply(counted, row);
        }
      },
      onReset: () => {
        this.#counts.clear();
        // A count that is being taken lacks what was lost: it answers who asked before, and is not kept.
        this.#missed.clear();
        this.#counting.clear();
      },
    });
  }
}

function apply(counted: Counted, { op, xid }: ChangeRow): void {
  if (op === "update" || isVisibleIn(counted.snapshot, BigInt(xid))) return;
  counted.count += op === "create" ? 1 : -1;
}

/** A snapshot of the database: which transactions it shows. */
export interface Snapshot {
  /** Every transaction below has ended. */
  readonly xmin: bigint;
  /** No transaction from here on is shown. */
  readonly xmax: bigint;
  /** Transactions between the two that were still open. */
  readonly open: ReadonlySet<bigint>;
}

/** Reads the text of `pg_current_snapshot()`: `xmin:xmax:open,open,…`. */
export function parseSnapshot(text: string): Snapshot {
  const [xmin = "0", xmax = "0", open = ""] = text.split(":");
  return {
    xmin: BigInt(xmin),
    xmax: BigInt(xmax),
    open: new Set(open === "" ? [] : open.split(",").map((xid) => BigInt(xid))),
  };
}

/** Does the snapshot show what the transaction wrote, given that it was committed? */
export function isVisibleIn({ xmin, xmax, open }: Snapshot, xid: bigint): boolean {
  return xid < xmin || (xid < xmax && !open.has(xid));
}
