import { apiTime } from "@sallyport/api";
import type { Tags } from "../../store/schema.ts";
import { type Collection, type Links, links } from "./links.ts";

/** The fields that every record begins with. */
export function baseOf(
  collection: Collection,
  row: { readonly id: string; readonly tags: Tags; readonly created_at: Date; readonly updated_at: Date },
): { _links: Links; createdAt: string; id: string; tags: Tags; updatedAt: string } {
  return {
    _links: links(collection, row.id),
    createdAt: apiTime(row.created_at),
    id: row.id,
    tags: row.tags,
    updatedAt: apiTime(row.updated_at),
  };
}
