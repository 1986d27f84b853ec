/** `_links` and entity references (`docs/api.md`, "Shapes"): addresses relative to the base path of the API. */

export interface Link {
  readonly href: string;
}
export type Links = Record<string, Link>;

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
  const self = `./${collection}/${id}`;
  // A loop: lists have a dozen links in each record, and building entries first is what shows in profiles.
  const made: Links = { self: { href: self } };
  for (const key of FURTHER[collection]) made[key] = { href: `${self}/${key}` };
  return made;
}

export interface Reference {
  _links: Links;
  entity: string;
  id: string;
  name?: string;
}

/** A reference to an entity; an unknown or empty name is left out. */
export function ref(collection: Collection, id: string, name?: string): Reference {
  const made: Reference = { _links: links(collection, id), entity: collection, id };
  if (name !== undefined && name !== "") made.name = name;
  return made;
}

/** A reference to an identity: its links include its auth policy. */
export function identityRef(id: string, name: string | undefined, authPolicyId = "default"): Reference {
  const made = ref("identities", id, name);
  return { ...made, _links: identityLinks(id, authPolicyId) };
}

export function identityLinks(id: string, authPolicyId: string): Links {
  const made = links("identities", id);
  made["auth-policies"] = { href: `./auth-policies/${authPolicyId}` };
  return made;
}
