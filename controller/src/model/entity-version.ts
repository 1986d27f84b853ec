/** Versions of entities, and changes for one version only. */
import { apiError, unhandledCause } from "@sallyport/api";
import { onlyIfUnchanged, RowChangedError, rowVersion } from "../store/row-version.ts";
import type { Db } from "./context.ts";
import { ENTITY_NAMES, type EntityTable } from "./entity.ts";

/** A text that each change of the entity replaces; undefined when there is no entity. */
export function entityVersion(db: Db, table: EntityTable, id: string): Promise<string | undefined> {
  return rowVersion(db, { table, id });
}

/** Runs a change of the entity, which takes effect only if the entity has one of the versions. @throws ApiError 412 if it has another one */
export async function changeVersion<T>(
  table: EntityTable,
  id: string,
  versions: readonly string[],
  change: () => Promise<T>,
): Promise<T> {
  try {
    return await onlyIfUnchanged({ table, id }, versions, change);
  } catch (error) {
    if (!(error instanceof RowChangedError)) throw error;
    const what = `${ENTITY_NAMES[table]} with id ${id} was changed since it was read: read it again`;
    throw apiError("PRECONDITION_FAILED", unhandledCause(what));
  }
}
