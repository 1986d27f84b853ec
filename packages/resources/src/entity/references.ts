/** References of a spec to other resources of its namespace, and what they come to in the network. */

type ReferencedKind = "EdgeRouter" | "Identity" | "OverlayService" | "PostureCheck" | "ServiceConfig" | "AuthPolicy";

export interface Reference {
  readonly kind: ReferencedKind;
  readonly name: string;
}

/**
 * `NotFound`: there is no such resource. `NotReady`: it has no id in the network yet. `OtherNetwork`: it is of another
 * Network. `Deleting`: its entity is about to go.
 */
type ReferenceProblem = "NotFound" | "NotReady" | "OtherNetwork" | "Deleting";

export interface MissingReference extends Reference {
  readonly problem: ReferenceProblem;
}

/** Of one resource: the ids that stand for it, several for an EdgeRouter. */
export type Resolution = { readonly ids: readonly string[] } | { readonly problem: ReferenceProblem };

export type ResolvedReferences = ReadonlyMap<string, Resolution>;

export const NO_REFERENCES: ResolvedReferences = new Map();

const keyOf = ({ kind, name }: Reference): string => `${kind}/${name}`;

/** A resource as far as a reference looks at it. */
export interface Referenced {
  readonly metadata: { readonly deletionTimestamp?: string };
  readonly spec: { readonly networkRef: { readonly name: string } };
  readonly status: {
    readonly id?: string | undefined;
    readonly routers?: readonly { readonly id?: string | undefined }[] | undefined;
  };
}

/** Resolves every reference by what is known of the resources; `find` knows the namespace. */
export function resolveReferences(
  references: readonly Reference[],
  network: string,
  find: (reference: Reference) => Referenced | undefined,
): ResolvedReferences {
  return new Map(references.map((reference) => [keyOf(reference), resolve(find(reference), network)]));
}

function resolve(found: Referenced | undefined, network: string): Resolution {
  if (found === undefined) return { problem: "NotFound" };
  if (found.spec.networkRef.name !== network) return { problem: "OtherNetwork" };
  if (found.metadata.deletionTimestamp !== undefined) return { problem: "Deleting" };
  const { id, routers } = found.status;
  if (routers !== undefined) {
    const ids = routers.flatMap((router) => router.id ?? []);
    return ids.length === 0 && routers.length > 0 ? { problem: "NotReady" } : { ids };
  }
  return id === undefined ? { problem: "NotReady" } : { ids: [id] };
}

/** The ids behind references, and those that have none. */
export function idsOf(
  references: readonly Reference[],
  resolved: ResolvedReferences,
): { readonly ids: readonly string[]; readonly missing: readonly MissingReference[] } {
  const ids: string[] = [];
  const missing: MissingReference[] = [];
  for (const reference of references) {
    const resolution = resolved.get(keyOf(reference)) ?? { problem: "NotFound" };
    if ("ids" in resolution) ids.push(...resolution.ids);
    else missing.push({ ...reference, problem: resolution.problem });
  }
  return { ids, missing };
}

/** References by name to resources of one kind. */
export const named = (kind: ReferencedKind, refs: readonly { readonly name: string }[] | undefined): Reference[] =>
  (refs ?? []).map(({ name }) => ({ kind, name }));

/** Fields of a spec that give an entity configs. */
interface ConfigFields {
  readonly configRefs?: readonly { readonly name: string }[] | undefined;
  readonly configIds?: readonly string[] | undefined;
}

export const configReferences = ({ configRefs }: ConfigFields): Reference[] => named("ServiceConfig", configRefs);

/** Ids of the configs of a spec, a sorted set, and the references that have none. */
export function configsOf(
  spec: ConfigFields,
  resolved: ResolvedReferences,
): { readonly configs: readonly string[]; readonly missing: readonly MissingReference[] } {
  const { ids, missing } = idsOf(configReferences(spec), resolved);
  return { configs: sortedSet([...ids, ...(spec.configIds ?? [])]), missing };
}

const PROBLEMS: Readonly<Record<ReferenceProblem, string>> = {
  NotFound: "does not exist",
  NotReady: "has no id in the network yet",
  OtherNetwork: "is of another Network",
  Deleting: "is being deleted",
};

/** `ReferenceNotReady` passes by itself: all of them are on their way into the network. */
export type MissingReason = "ReferenceNotFound" | "ReferenceNotReady";

/** Reason of conditions. */
export const missingReason = (missing: readonly MissingReference[]): MissingReason =>
  missing.every(({ problem }) => problem === "NotReady") ? "ReferenceNotReady" : "ReferenceNotFound";

/** For people: what is missing and why. */
export const missingText = (missing: readonly MissingReference[]): string =>
  missing.map(({ kind, name, problem }) => `${kind} ${name} ${PROBLEMS[problem]}`).join("; ");

/**
 * What a Network's `roleScope` makes of attributes and selectors. `Namespaced`: `web` in the namespace `edge` is
 * `edge.web`, and `#all` means all of the namespace, for which every entity has the attribute `edge.all`. A namespace's
 * name holds no dot, so two namespaces never make the same attribute.
 */
export interface RoleScope {
  readonly roleScope: "Global" | "Namespaced";
  /** Resources of the namespace may reach nothing beyond it, whatever the scope is. */
  readonly isTenant?: boolean | undefined;
  readonly namespace: string;
}

const ALL = "all";

/** Fields that select by attribute, or are selected by it, in the whole network. Selectors of posture checks are left out, because they only restrict. */
const ATTRIBUTE_FIELDS = ["roleAttributes", "identityRoles", "serviceRoles", "edgeRouterRoles"] as const;

/** The first field by which a spec reaches beyond a tenant's namespace; none where attributes are those of the namespace. */
export function reachingField(spec: object, { roleScope, isTenant = false }: RoleScope): string | undefined {
  if (!isTenant || roleScope === "Namespaced") return undefined;
  const fields = spec as Readonly<Record<string, unknown>>;
  return ATTRIBUTE_FIELDS.find((name) => Array.isArray(fields[name]) && fields[name].length > 0);
}

/** Attributes of an entity as the network has them: a sorted set. */
export function scopedAttributes(attributes: readonly string[] | undefined, scope: RoleScope): string[] {
  const given = attributes ?? [];
  if (scope.roleScope === "Global") return sortedSet(given);
  return sortedSet([...given, ALL].map((attribute) => `${scope.namespace}.${attribute}`));
}

/** Selectors of a policy by attribute (`#web`) as the network has them: a sorted set. */
export function scopedSelectors(roles: readonly string[] | undefined, scope: RoleScope): string[] {
  const given = roles ?? [];
  if (scope.roleScope === "Global") return sortedSet(given);
  return sortedSet(given.map((role) => `#${scope.namespace}.${role.slice(1)}`));
}

export function sortedSet(values: readonly string[]): string[] {
  return [...new Set(values)].sort();
}

interface RenderedSelector {
  /** A sorted set, as the API takes it. */
  readonly roles: readonly string[];
  readonly missing: readonly MissingReference[];
}

/**
 * One role list of a policy: attributes as they are scoped, resources and ids as `@id`.
 * @param field how the fields of the spec begin that name the entities: `identity` for `identityRoles` and `identityIds`
 */
export function renderSelector<Field extends string>(
  spec: { readonly [Name in `${Field}Roles` | `${Field}Ids`]?: readonly string[] | undefined },
  field: Field,
  named: readonly Reference[],
  { scope, references }: { readonly scope: RoleScope; readonly references: ResolvedReferences },
): RenderedSelector {
  const { [`${field}Roles`]: roles, [`${field}Ids`]: given = [] } = spec as Readonly<Record<string, readonly string[]>>;
  const { ids, missing } = idsOf(named, references);
  const byId = [...ids, ...given].map((id) => `@${id}`);
  return { roles: sortedSet([...scopedSelectors(roles, scope), ...byId]), missing };
}
