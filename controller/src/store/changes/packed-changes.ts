/**
 * Changes of many entities in one row of the change log. A removal of 40,000 terminators is then a few hundred rows, which every controller reads at once.
 * Source: docs/protocol/replicas.md, "Freshness".
 */
import { QUIET_MS } from "../replicas/lease.ts";

/** Entities in one row. */
const PACK = 500;
/** The schema level of the first program that reads such rows. */
const READ_FROM_LEVEL = 44;

/** The field of `before` that holds the further keys. Readers of the log never see it. */
const FURTHER = "furtherKeys";

/** What a statement packs: the rows of its part `of`, with SQL for the key, and for each value that all entities of a row share. */
interface PackedPart {
  readonly of: string;
  readonly key: string;
  readonly shared: readonly string[];
}

/**
 * SQL of rows (`key`, `further`) with the columns `shared` of the entities that they stand for. `further` is to be added to the column `before`. While an older replica works, every
 * entity has its own row.
 */
export function packedSql({ of, key, shared }: PackedPart): string {
  const columns = shared.map((column, index) => `${column} AS shared${index}`);
  const group = shared.map((_, index) => `shared${index}`).join(", ");
  const size = `(SELECT CASE WHEN EXISTS (SELECT 1 FROM replica_lease
    WHERE level < ${READ_FROM_LEVEL} AND until > clock_timestamp() - make_interval(secs => ${QUIET_MS / 1_000})) THEN 1 ELSE ${PACK} END)`;
  return `(SELECT keys[1] AS key, ${group},
      CASE WHEN cardinality(keys) = 1 THEN '{}'::jsonb ELSE jsonb_build_object('${FURTHER}', keys[2:]) END AS further
    FROM (SELECT array_agg(key ORDER BY key) AS keys, ${group} FROM (
      SELECT ${key} AS key, ${columns.join(", ")}, (row_number() OVER (PARTITION BY ${shared.join(", ")} ORDER BY ${key}) - 1) / ${size} AS pack
      FROM ${of}) numbered GROUP BY ${group}, pack) packs)`;
}

interface Row {
  readonly key: string;
  readonly before: Readonly<Record<string, unknown>> | null;
}

/** The changes that the rows stand for, one of each entity; undefined when there are more than `max`. */
export function unpacked<T extends Row>(rows: readonly T[], max: number): readonly T[] | undefined {
  if (!rows.some(isPacked)) return rows.length > max ? undefined : rows;
  const changes: T[] = [];
  for (const row of rows) {
    if (isPacked(row)) {
      const { [FURTHER]: further, ...before } = row.before;
      for (const key of [row.key, ...further]) changes.push({ ...row, key, before });
    } else {
      changes.push(row);
    }
    if (changes.length > max) return undefined;
  }
  return changes;
}

type Packed<T extends Row> = T & {
  readonly before: Readonly<Record<string, unknown>> & { readonly [FURTHER]: string[] };
};

function isPacked<T extends Row>(row: T): row is Packed<T> {
  return row.before !== null && FURTHER in row.before;
}
