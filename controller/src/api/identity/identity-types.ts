import { type identityOperations, notFound } from "@sallyport/api";
import { sql } from "kysely";
import type { ApiHandlers } from "../../http/context.ts";
import { type EntityFields, field } from "../../store/filter/filter-sql.ts";
import type { Tags } from "../../store/schema.ts";
import type { ApiDependencies } from "../dependencies.ts";
import { listed } from "../lists/listing.ts";
import { baseOf } from "../render/base.ts";

interface IdentityTypeRow {
  id: string;
  name: string;
  tags: Tags;
  created_at: Date;
  updated_at: Date;
}

const FIELDS: EntityFields = {
  id: field.string("identity_type.id"),
  name: field.string("identity_type.name"),
  createdAt: field.datetime("identity_type.created_at"),
  updatedAt: field.datetime("identity_type.updated_at"),
};

/** The types that identities are of, as old as the network. Ids and names are the same. */
export function identityTypeHandlers(
  deps: ApiDependencies,
): Pick<ApiHandlers<typeof identityOperations>, "listIdentityTypes" | "detailIdentityType"> {
  const types = () =>
    deps.ctx.store.db
      .selectFrom(
        sql<IdentityTypeRow>`(SELECT t.id COLLATE "C" AS id, t.id COLLATE "C" AS name, '{}'::jsonb AS tags,
          p.created_at, p.created_at AS updated_at
          FROM (VALUES ('Default'), ('Device'), ('Router'), ('Service'), ('User')) AS t (id) CROSS JOIN auth_policy p WHERE p.id = 'default')`.as(
          "identity_type",
        ),
      )
      .selectAll();
  const render = (row: IdentityTypeRow) => ({ ...baseOf("identity-types", row), name: row.name });
  return {
    listIdentityTypes: ({ list }) => listed(types(), "identity_type", FIELDS, list, (rows) => rows.map(render)),
    detailIdentityType: async ({ params }) => {
      const row = await types().where("identity_type.id", "=", params.id).executeTakeFirst();
      if (row === undefined) throw notFound("identityType", params.id);
      return { data: render(row) };
    },
  };
}
