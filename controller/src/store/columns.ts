/** The types of columns, and the columns that every entity has. */
import type { ColumnType, Generated } from "kysely";

/** A JSON column: read as a value, written as JSON text (`json()` in `model/entity.ts`). */
export type JsonColumn<T> = ColumnType<T, string, string>;
export type JsonDefault<T> = ColumnType<T, string | undefined, string>;
/** A time column, millisecond precision. */
export type Time = ColumnType<Date, Date, Date>;
export type TimeDefault = ColumnType<Date, Date | undefined, Date>;
export type TimeOrNull = ColumnType<Date | null, Date | null | undefined, Date | null>;

export type Tags = Record<string, string | number | boolean | null>;

export interface EntityTable {
  id: string;
  tags: JsonDefault<Tags>;
  is_system: Generated<boolean>;
  created_at: TimeDefault;
  updated_at: TimeDefault;
}

export interface NamedTable extends EntityTable {
  name: string;
}
