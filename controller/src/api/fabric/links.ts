/** `_links` and references of the Fabric API: addresses relative to its base path. */
import type { Links, Reference } from "../render/links.ts";

const FURTHER = {
  services: ["terminators"],
  routers: ["terminators"],
  terminators: [],
  links: [],
  circuits: [],
} as const satisfies Record<string, readonly string[]>;

export type FabricCollection = keyof typeof FURTHER;

export function fabricLinks(collection: FabricCollection, id: string): Links {
  const self = `./${collection}/${id}`;
  const further = FURTHER[collection].map((key) => [key, { href: `${self}/${key}` }] as const);
  return { self: { href: self }, ...Object.fromEntries(further) };
}

/** A name that is unknown, as of something deleted a moment ago, is left out. */
export function fabricRef(collection: FabricCollection, id: string, name?: string): Reference {
  return {
    _links: fabricLinks(collection, id),
    entity: collection,
    id,
    ...(name === undefined || name === "" ? {} : { name }),
  };
}
