import type { ColumnType, Generated, JSONColumnType } from "kysely";

/** What happened to an entity: one row per change, written in the transaction of the change. */
export interface ChangeLogTable {
  /** Order of writing, not of committing: never use it to find "what is new" (see `change-log.ts`). */
  seq: Generated<string>;
  /** The writing transaction (`pg_current_xact_id()`), as text of an unsigned 64-bit number. */
  xid: ColumnType<string, never, never>;
  at: ColumnType<Date, never, never>;
  kind: string;
  /** The public id of the entity. */
  key: string;
  op: "create" | "update" | "delete";
  /** What readers need of the state before the change, for example old role attributes or selectors. */
  before: JSONColumnType<Record<string, unknown> | null, string | null, string | null>;
}

/** Secrets at rest: sealed boxes of `secrets.ts`, the name bound as their context. */
export interface SecretTable {
  name: string;
  box: Buffer;
  updated_at: ColumnType<Date, Date | undefined, Date>;
}

/** Small facts about the network that belong to no entity. */
export interface SettingTable {
  name: string;
  value: ColumnType<unknown, string, string>;
}

/** The tables of the store's engine; the entities' tables are in `schema.ts`. */
export interface EngineTables {
  change_log: ChangeLogTable;
  secret: SecretTable;
  setting: SettingTable;
}
