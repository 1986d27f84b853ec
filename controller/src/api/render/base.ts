import { apiTime } from "@sallyport/api";
import type { Tags } from "../../store/schema.ts";

/** The fields that every record begins with, `_links` and references (`docs/api.md`, "Shapes"): addresses are relative to the base path of the API. */

export type Links = Record<string, { readonly href: string }>;

/** Collections, and the links of their entities besides `self`; each leads below the entity's own address. */
const FURTHER = {
  "api-sessions": ["sessions"],
  "auth-policies": [],
  configs: [],
  "config-types": [],
  controllers: [],
  enrollments: [],
  "external-jwt-signers": [],
  "identity-types": [],
  revocations: [],
  "posture-checks": [],
  "posture-check-types": [],
  terminators: [],
  authenticators: [],
  cas: [],
  "edge-routers": ["edge-router-policies"],
  "edge-router-policies": ["edge-routers", "identities"],
  identities: [
    "edge-router-policies",
    "edge-routers",
    "service-policies",
    "services",
    "posture-data",
    "failed-service-requests",
    "authenticators",
    "enrollments",
    "service-configs",
  ],
  "transit-routers": [],
  services: ["service-edge-router-policies", "service-policies", "terminators", "configs"],
  "service-edge-router-policies": ["edge-routers", "services"],
  "service-policies": ["services", "identities", "posture-checks"],
  sessions: ["route-path"],
  specs: ["spec"],
} as const satisfies Record<string, readonly string[]>;

export type Collection = keyof typeof FURTHER;

export function links(collection: Collection, id: string): Links {
  return linksBelow(`./${collection}/${id}`, FURTHER[collection]);
}

export function linksBelow(self: string, further: readonly string[]): Links {
  // A loop: lists have a dozen links in each record, and building entries first shows in profiles.
  const made: Links = { self: { href: self } };
  for (const key of further) made[key] = { href: `${self}/${key}` };
  return made;
}

export interface EntityReference {
  _links: Links;
  entity: string;
  id: string;
  name?: string;
}

/** A reference to an entity. */
export function ref(collection: Collection, id: string, name?: string): EntityReference {
  return refWith(links(collection, id), collection, id, name);
}

/** An unknown name, as of an entity that was just deleted, or an empty one is left out. */
export function refWith(links: Links, entity: string, id: string, name: string | undefined): EntityReference {
  const made: EntityReference = { _links: links, entity, id };
  if (name) made.name = name;
  return made;
}

/** A reference to an identity: its links include its auth policy. */
export function identityRef(id: string, name: string | undefined, authPolicyId = "default"): EntityReference {
  const made = ref("identities", id, name);
  return { ...made, _links: identityLinks(id, authPolicyId) };
}

export function identityLinks(id: string, authPolicyId: string): Links {
  const made = links("identities", id);
  made["auth-policies"] = { href: `./auth-policies/${authPolicyId}` };
  return made;
}

export interface EntityRow {
  readonly id: string;
  readonly tags: Tags;
  readonly created_at: Date;
  readonly updated_at: Date;
}

/** The fields that every record begins with. */
export function baseOf(collection: Collection, row: EntityRow) {
  return baseWith(links(collection, row.id), row);
}

export function baseWith(links: Links, row: EntityRow) {
  return {
    _links: links,
    createdAt: apiTime(row.created_at),
    id: row.id,
    tags: row.tags,
    updatedAt: apiTime(row.updated_at),
  };
}
