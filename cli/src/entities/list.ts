/** Lists of entities, page by page. */
import { ApiError } from "@sallyport/api/client";
import { CommandError } from "../errors.ts";
import type { Kind } from "../kinds/kind.ts";
import type { ApiCaller } from "../network/api-caller.ts";
import type { Entity } from "./entity.ts";

export interface ListOptions {
  readonly filter?: string | undefined;
  /** At most so many; all when absent. */
  readonly limit?: number | undefined;
}

/** The largest page that a controller gives. */
const PAGE = 500;

/** The entities of a kind, by name unless the filter sorts them. @throws CommandError, ApiError */
export async function listEntities(kind: Kind, options: ListOptions, caller: ApiCaller): Promise<Entity[]> {
  if (!kind.isPaged && options.filter !== undefined)
    throw new CommandError(`the controller does not filter ${kind.plural}: leave out --filter`);
  return await listPath(kind.path, kind, options, caller);
}

/** The entities of a kind in a list below another entity, such as `/service-policies/{id}/services`. @throws CommandError, ApiError */
export async function listPath(
  path: string,
  { plural, isPaged, hasName }: Pick<Kind, "plural" | "isPaged" | "hasName">,
  { filter, limit = Number.POSITIVE_INFINITY }: ListOptions,
  caller: ApiCaller,
): Promise<Entity[]> {
  const isSorted = filter !== undefined && /\bsort\s+by\b/i.test(filter);
  const sort = hasName && !isSorted ? "name asc" : undefined;
  const found = new Map<unknown, Entity>();
  for (let offset = 0; found.size < limit; ) {
    const page = isPaged ? { limit: Math.min(PAGE, limit - found.size), offset, filter, sort } : {};
    const { data, meta } = await caller.json({ method: "GET", path, query: page }).catch((error: unknown) => {
      throw isMissing(error) ? notServed(plural, caller) : error;
    });
    const entities = Array.isArray(data) ? (data as Entity[]) : [];
    const before = found.size;
    // Entities that come and go meanwhile move the pages: what appears twice is listed once.
    for (const entity of entities) found.set(entity.id ?? entity.name ?? entity, entity);
    offset += entities.length;
    const { totalCount = 0 } = meta.pagination ?? {};
    if (!isPaged || offset >= totalCount || found.size === before) break;
  }
  return [...found.values()].slice(0, limit);
}

function isMissing(error: unknown): boolean {
  return error instanceof ApiError && (error.status === 404 || error.status === 501);
}

function notServed(plural: string, { controller }: ApiCaller): CommandError {
  return new CommandError(`${controller} does not serve ${plural}: 'sallyport version' shows which controller it is`);
}
