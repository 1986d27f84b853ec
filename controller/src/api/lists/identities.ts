import type { identityDetail, ListQuery, ListResult } from "@sallyport/api";
import type { RawBuilder, SqlBool } from "kysely";
import type { z } from "zod";
import type { ApiDependencies } from "../dependencies.ts";
import { renderIdentities } from "../render/identity.ts";
import { IDENTITY_FIELDS } from "./fields.ts";
import { listed } from "./listing.ts";

/** A page of identities, all or those that fulfil a condition. The page is found by ids alone; only its own rows are read whole. */
export function listIdentities(
  deps: ApiDependencies,
  list: ListQuery,
  condition?: RawBuilder<SqlBool>,
): Promise<ListResult<z.input<typeof identityDetail>>> {
  const all = deps.ctx.store.db.selectFrom("identity").select("identity.id");
  const render = (rows: { id: string }[]) =>
    renderIdentities(
      deps,
      rows.map(({ id }) => id),
    );
  if (condition !== undefined) return listed(all.where(condition), "identity", IDENTITY_FIELDS, list, render);
  return listed(all, "identity", IDENTITY_FIELDS, list, render, () => deps.model.counts.of("identity"));
}
