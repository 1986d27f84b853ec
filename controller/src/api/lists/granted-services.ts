import type { ListQuery, ListResult } from "@sallyport/api";
import { NO_LIMIT } from "@sallyport/api";
import { type RawBuilder, type SqlBool, sql } from "kysely";
import { type EntityFields, fieldNames } from "../../store/filter/filter-sql.ts";
import type { ApiDependencies } from "../dependencies.ts";
import { renderServices, type ServiceDetail, type Viewer } from "../render/service.ts";
import { SERVICE_FIELDS } from "./fields.ts";
import { listed } from "./listing.ts";

/**
 * A page of the services that an identity may use, with one permission or with any. What clients ask for most, a page by id without a filter, comes from
 * memory with its total, and only its own rows from the database; everything else is asked of the database among the ids that are granted.
 */
export async function listGrantedServices(
  deps: ApiDependencies,
  identity: { readonly id: string; readonly attrs: readonly string[] },
  viewer: Viewer,
  list: ListQuery,
  o: {
    readonly permission?: "Dial" | "Bind" | undefined;
    readonly condition?: RawBuilder<SqlBool> | undefined;
    readonly fields?: EntityFields;
  } = {},
): Promise<ListResult<ServiceDetail>> {
  const { db } = deps.ctx.store;
  const { fields = SERVICE_FIELDS } = o;
  const granted = (await deps.model.policy.current()).grantedTo(identity);
  if (list.filter === undefined && list.sort.length === 0 && o.condition === undefined) {
    const ids = granted.ids(o.permission, list.offset, list.limit === NO_LIMIT ? undefined : list.limit);
    const totalCount = granted.count(o.permission);
    const permissions = new Map(ids.map((id) => [id, granted.permissionsOn(id)]));
    const rows = await deps.model.services.byIds(db, ids);
    const data = await renderServices(deps, rows, { ...viewer, permissionsOn: (id) => permissions.get(id) ?? [] });
    return { data, totalCount, filterableFields: fieldNames(fields) };
  }
  const among = granted.ids(o.permission);
  let query = db.selectFrom("service").selectAll().where(sql<SqlBool>`service.id = ANY (${among}::text[])`);
  if (o.condition !== undefined) query = query.where(o.condition);
  return listed(query, "service", fields, list, (rows) => renderServices(deps, rows, viewer));
}
