import { type ListQuery, notFound } from "@sallyport/api";
import { sql } from "kysely";
import { type EntityFields, field } from "../../store/filter/filter-sql.ts";
import type { ApiDependencies } from "../dependencies.ts";
import type { EntityRow } from "../render/base.ts";
import { listed } from "./listing.ts";

interface FixedType extends EntityRow {
  readonly name: string;
}

const FIELDS: EntityFields = {
  id: field.string("fixed_type.id"),
  name: field.string("fixed_type.name"),
  createdAt: field.datetime("fixed_type.created_at"),
  updatedAt: field.datetime("fixed_type.updated_at"),
};

/** Types that the program defines, listed and filtered like a collection. They are as old as the network. */
export function fixedTypes<T>(
  { ctx }: ApiDependencies,
  kind: string,
  types: readonly { readonly id: string; readonly name: string }[],
  render: (row: FixedType) => T,
) {
  const ids = types.map(({ id }) => id);
  const names = types.map(({ name }) => name);
  const all = () =>
    ctx.store.db
      .selectFrom(
        sql<FixedType>`(SELECT t.id COLLATE "C" AS id, t.name COLLATE "C" AS name, '{}'::jsonb AS tags,
          p.created_at, p.created_at AS updated_at
          FROM unnest(${ids}::text[], ${names}::text[]) AS t (id, name)
          CROSS JOIN auth_policy p WHERE p.id = 'default')`.as("fixed_type"),
      )
      .selectAll();
  return {
    list: (list: ListQuery) => listed(all(), "fixed_type", FIELDS, list, (rows) => rows.map(render)),
    /** @throws ApiError 404 */
    detail: async (id: string) => {
      const row = await all().where("fixed_type.id", "=", id).executeTakeFirst();
      if (row === undefined) throw notFound(kind, id);
      return { data: render(row) };
    },
  };
}
