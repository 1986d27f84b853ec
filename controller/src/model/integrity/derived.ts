import { sql } from "kysely";
import { type ChangeKind, loggedWrite } from "../../store/changes/logged-write.ts";
import type { Db } from "../context.ts";
import { byQuery, type IntegrityCheck, keysOf, type Violation } from "./integrity-check.ts";

/** What the database computes or guarantees by itself, unless an administrator has switched it off or written around it. */
export async function derivedChecks(db: Db): Promise<IntegrityCheck[]> {
  return [
    enabledTriggers,
    presentTriggers,
    validConstraints,
    validIndexes,
    ...(await sortedLists(db)),
    lacking,
    surplus,
  ];
}

/** Triggers that are switched off: those of references, and those that keep derived tables. */
const enabledTriggers: IntegrityCheck = {
  name: "triggers",
  async find(db, limit) {
    const { rows } = await sql<{ table: string; names: string[]; internal: boolean }>`
      SELECT c.relname AS table, bool_or(t.tgisinternal) AS internal,
        array_agg(DISTINCT coalesce(k.conname, t.tgname)::text) AS names
      FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_namespace s ON s.oid = c.relnamespace
      LEFT JOIN pg_constraint k ON k.oid = t.tgconstraint
      WHERE s.nspname = 'public' AND t.tgenabled <> 'O' GROUP BY c.relname ORDER BY c.relname LIMIT ${limit}`.execute(
      db,
    );
    return rows.map(({ table, names, internal }) => ({
      key: `${internal ? "ALL" : "USER"} ${table}`,
      description: `table ${table} does not enforce ${names.join(", ")}: its triggers are switched off`,
    }));
  },
  async fix(db, findings) {
    for (const { key } of findings) {
      const [which, table = ""] = key.split(" ");
      await sql`ALTER TABLE ${sql.table(table)} ENABLE TRIGGER ${which === "ALL" ? sql`ALL` : sql`USER`}`.execute(db);
    }
  },
};

const TRIGGERS = ["identity_attr_insert", "identity_attr_update"];

const presentTriggers = byQuery(
  "missing triggers",
  sql`SELECT name AS key, 'the trigger ' || name || ' of table identity is gone: restore a backup, or make it again as its migration does' AS description
    FROM unnest(${TRIGGERS}::text[]) name
    WHERE NOT EXISTS (SELECT 1 FROM pg_trigger t WHERE t.tgname = name AND t.tgrelid = 'identity'::regclass) ORDER BY name`,
);

const validConstraints = byQuery(
  "constraints",
  sql`SELECT c.relname || ' ' || k.conname AS key,
      'the rule ' || k.conname || ' of table ' || c.relname || ' was never checked against its present rows' AS description
    FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid JOIN pg_namespace s ON s.oid = c.relnamespace
    WHERE s.nspname = 'public' AND NOT k.convalidated ORDER BY c.relname, k.conname`,
  async (db, findings) => {
    for (const { key } of findings) {
      const [table = "", name = ""] = key.split(" ");
      await sql`ALTER TABLE ${sql.table(table)} VALIDATE CONSTRAINT ${sql.ref(name)}`.execute(db);
    }
  },
);

const validIndexes = byQuery(
  "indexes",
  sql`SELECT x.relname AS key, 'the index ' || x.relname || ' of table ' || c.relname || ' is not valid' AS description
    FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid
    JOIN pg_class c ON c.oid = i.indrelid JOIN pg_namespace s ON s.oid = c.relnamespace
    WHERE s.nspname = 'public' AND NOT (i.indisvalid AND i.indisready) ORDER BY x.relname`,
  async (db, findings) => {
    for (const { key } of findings) await sql`REINDEX INDEX ${sql.table(key)}`.execute(db);
  },
);

/** Role attributes and selectors are sorted and without duplicates: equality and order of the API rest on it. */
async function sortedLists(db: Db): Promise<IntegrityCheck[]> {
  const { rows } = await sql<{ table: ChangeKind; column: string }>`
    SELECT c.relname AS table, a.attname::text AS column FROM pg_attribute a
    JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace s ON s.oid = c.relnamespace
    WHERE s.nspname = 'public' AND c.relkind = 'r' AND a.atttypid = 'text[]'::regtype AND NOT a.attisdropped
      AND (a.attname = 'attrs' OR a.attname LIKE '%\\_attrs') ORDER BY 1, 2`.execute(db);
  return rows.map(({ table, column }) => {
    const list = sql.ref(column);
    const sorted = sql`ARRAY(SELECT DISTINCT x COLLATE "C" FROM unnest(${list}) x WHERE x IS NOT NULL ORDER BY 1)`;
    return {
      name: `${table}.${column}`,
      async find(in_: Db, limit: number) {
        const { rows: found } = await sql<Violation>`
          SELECT id AS key, ${`${table} `} || id || ${`: its ${column} are not sorted, or some are there twice`} AS description
          FROM ${sql.table(table)} WHERE ${list} <> ${sorted} LIMIT ${limit}`.execute(in_);
        return found;
      },
      async fix(in_: Db, findings: readonly Violation[]) {
        await loggedWrite(
          in_,
          sql`WITH changed AS (
            UPDATE ${sql.table(table)} SET ${list} = ${sorted} WHERE id = ANY (${keysOf(findings)}::text[]) RETURNING id)`,
          { changes: [{ kind: table, op: "update", of: "changed" }] },
        );
      },
    };
  });
}

const lacking = byQuery(
  "identity_attr, missing rows",
  sql`SELECT i.id || '/' || a AS key, 'identity ' || i.id || ' has the attribute ' || a || ', and the list of attributes in use does not know it' AS description
    FROM identity i, unnest(i.attrs) a
    WHERE NOT EXISTS (SELECT 1 FROM identity_attr x WHERE x.attr = a AND x.identity_id = i.id)`,
  deriveAttributes,
);

const surplus = byQuery(
  "identity_attr, surplus rows",
  sql`SELECT i.id || '/' || x.attr AS key, 'the list of attributes in use names ' || x.attr || ' for identity ' || i.id || ', which does not have it' AS description
    FROM identity_attr x JOIN identity i ON i.id = x.identity_id WHERE NOT x.attr = ANY (i.attrs)`,
  deriveAttributes,
);

/** The rows of `identity_attr` are exactly the attributes of identities. */
async function deriveAttributes(db: Db, findings: readonly Violation[]): Promise<void> {
  const ids = keysOf(findings).map((key) => key.slice(0, key.indexOf("/")));
  await sql`DELETE FROM identity_attr x USING identity i
    WHERE i.id = x.identity_id AND i.id = ANY (${ids}::text[]) AND NOT x.attr = ANY (i.attrs)`.execute(db);
  await sql`INSERT INTO identity_attr (attr, identity_id) SELECT a, i.id FROM identity i, unnest(i.attrs) a
    WHERE i.id = ANY (${ids}::text[]) ON CONFLICT DO NOTHING`.execute(db);
}
