import { apiTime } from "@sallyport/api";
import type { Tags } from "../../store/schema.ts";
import { type Collection, type Links, links } from "./links.ts";

export interface EntityRow {
  readonly id: string;
  readonly tags: Tags;
  readonly created_at: Date;
  readonly updated_at: Date;
}

interface Base {
  _links: Links;
  createdAt: string;
  id: string;
  tags: Tags;
  updatedAt: string;
}

/** The fields that every record begins with. */
export function baseOf(collection: Collection, row: EntityRow): Base {
  return baseWith(links(collection, row.id), row);
}

export function baseWith(links: Links, row: EntityRow): Base {
  return {
    _links: links,
    createdAt: apiTime(row.created_at),
    id: row.id,
    tags: row.tags,
    updatedAt: apiTime(row.updated_at),
  };
}
