import { isObject } from "../json-object.ts";
import {
  isOfNamespace,
  mergedTags,
  OWNER_TAGS,
  type Owner,
  type Ownership,
  ownershipOf,
  sameTags,
  type Tags,
} from "./ownership.ts";
import {
  type MissingReason,
  type MissingReference,
  missingReason,
  missingText,
  type Reference,
  type ResolvedReferences,
  type RoleScope,
  reachingField,
} from "./references.ts";

/** The part of the spec that every kind with one entity in a network has. */
export interface EntitySpec {
  readonly networkRef: { readonly name: string };
  readonly name?: string | undefined;
  readonly importId?: string | undefined;
  readonly managementPolicy: "Manage" | "Adopt" | "Observe";
  readonly deletionPolicy: "Delete" | "Orphan";
  readonly tags?: Readonly<Record<string, string>> | undefined;
}

export interface EntityResource<Spec extends EntitySpec = EntitySpec> {
  readonly kind: string;
  readonly metadata: { readonly namespace: string; readonly name: string; readonly uid: string };
  readonly spec: Spec;
}

/** What a plan may look at besides the resource and the entity. */
export interface Surroundings {
  readonly owner: Owner;
  readonly scope: RoleScope;
  readonly references: ResolvedReferences;
}

/** Every entity of a network. */
export interface FoundEntity {
  readonly id: string;
  readonly name: string;
  readonly tags?: Tags | null | undefined;
}

/** What the spec wants of an entity, without its name and tags. */
interface Desired<Fields, Found> {
  readonly fields: Fields;
  /** References without an id: they are left out of `fields`. */
  readonly missing: readonly MissingReference[];
  /**
   * Fields of an entity that exists, as they shall be while references are missing. What grants may lack the missing ones;
   * what restricts must not, and stays.
   */
  readonly whileMissing?: (found: Found) => Partial<Fields>;
}

/** One kind of entity: what a spec wants of it, and when it has that. */
export interface EntityKind<Spec extends EntitySpec, Fields extends object, Found extends FoundEntity, More = unknown> {
  /** For people: `service policy`. */
  readonly noun: string;
  references(spec: Spec): readonly Reference[];
  /** Fields of the spec that name entities of any owner by their ids: refused where namespaces are kept apart. */
  readonly idFields?: readonly (keyof Spec & string)[];
  desired(spec: Spec, surroundings: Surroundings & More): Desired<Fields, Found>;
  /** Whether the entity's field is as wanted. */
  readonly same: { readonly [Field in keyof Fields]-?: (wanted: Fields[Field], found: Found) => boolean };
  /** Why no change can make this entity what the spec wants. */
  readonly refusal?: (found: Found, fields: Fields) => string | undefined;
}

/** How an entity was found. `id`: it was ours when the status was written. */
export type FoundBy = "id" | "tag" | "import" | "name";

export interface Observed<Found> {
  readonly entity: Found;
  readonly by: FoundBy;
}

/** The whole of an entity as it is created or replaced. */
export type EntityBody<Fields> = Fields & { readonly name: string; readonly tags: Tags };

interface EntityUpdate<Fields> {
  readonly id: string;
  /** Only what differs. */
  readonly body: Partial<EntityBody<Fields>>;
  /** Everything, for collections that are changed by a replacement. */
  readonly whole: EntityBody<Fields>;
  readonly missing: readonly MissingReference[];
}

export type ConflictReason =
  | "NameConflict"
  | "OwnedByAnother"
  | "AdoptionRefused"
  | "ImmutableDifference"
  | "OutsideNamespace";

type Conflict = Extract<EntityPlan<object>, { action: "conflict" }>;

/** What to do about one entity. */
export type EntityPlan<Fields> =
  | { readonly action: "create"; readonly body: EntityBody<Fields> }
  /** `adopt` also makes it ours. */
  | ({ readonly action: "patch" | "adopt" } & EntityUpdate<Fields>)
  | {
      readonly action: "none";
      readonly id: string;
      readonly missing: readonly MissingReference[];
      /** Fields that are not as wanted and stay so, since the resource only observes. */
      readonly differences: readonly string[];
    }
  | { readonly action: "conflict"; readonly reason: ConflictReason; readonly message: string }
  | {
      readonly action: "wait";
      readonly reason: MissingReason | "NotInNetwork";
      readonly message: string;
      readonly missing: readonly MissingReference[];
    };

/** Name of the entity in the network. */
export const nameOf = ({ spec, metadata }: EntityResource): string => spec.name ?? metadata.name;

/** The Network that the resource is for. */
export const networkRefOf = ({ spec, metadata }: EntityResource) => ({
  namespace: metadata.namespace,
  name: spec.networkRef.name,
});

/**
 * Decides about one entity. Carried out and asked again, the answer is `none`.
 * @param observed what stands for the resource in the network: by id, by our tag, by the id to import, or by name
 */
export function planEntity<Spec extends EntitySpec, Fields extends object, Found extends FoundEntity, More>(
  kind: EntityKind<Spec, Fields, Found, More>,
  resource: EntityResource<Spec>,
  surroundings: Surroundings & More,
  observed: Observed<Found> | undefined,
): EntityPlan<Fields> {
  const outside = outsideOf(kind, resource, surroundings, observed);
  if (outside !== undefined) return outside;
  const desired = kind.desired(resource.spec, surroundings);
  if (observed === undefined) return planAbsent(kind.noun, resource, surroundings.owner, desired);

  const { entity } = observed;
  const isObserving = resource.spec.managementPolicy === "Observe";
  const claim = isObserving ? "ours" : claimOn(kind.noun, resource, observed, surroundings.owner);
  if (typeof claim === "object") return claim;
  const { missing } = desired;
  const fields = missing.length === 0 ? desired.fields : { ...desired.fields, ...desired.whileMissing?.(entity) };
  const refusal = isObserving ? undefined : kind.refusal?.(entity, fields);
  if (refusal !== undefined) {
    const reason = claim === "adopt" ? "AdoptionRefused" : "ImmutableDifference";
    return { action: "conflict", reason, message: `${kind.noun} ${entity.name} (${entity.id}) ${refusal}` };
  }
  const whole = {
    ...fields,
    name: nameOf(resource),
    tags: isObserving ? (entity.tags ?? {}) : mergedTags(entity.tags, surroundings.owner, resource.spec.tags),
  };
  const body = differing(kind, whole, entity);
  const names = Object.keys(body);
  if (isObserving) return { action: "none", id: entity.id, missing, differences: names };
  if (names.length === 0) return { action: "none", id: entity.id, missing, differences: [] };
  return { action: claim === "adopt" ? "adopt" : "patch", id: entity.id, body, whole, missing };
}

/** Where namespaces are kept apart: what the resource asks for beyond its own. */
function outsideOf<Spec extends EntitySpec>(
  { noun, idFields = [] }: Pick<EntityKind<Spec, object, FoundEntity>, "noun" | "idFields">,
  { spec }: EntityResource<Spec>,
  { scope, owner }: Surroundings,
  observed: Observed<FoundEntity> | undefined,
): Conflict | undefined {
  if (scope.roleScope === "Global" && scope.isTenant !== true) return undefined;
  const why =
    scope.roleScope === "Namespaced"
      ? "the Network keeps namespaces apart (roleScope Namespaced)"
      : `the namespace ${scope.namespace} is a tenant's, and its Network has roleScope Global`;
  const refused = (what: string): Conflict => ({
    action: "conflict",
    reason: "OutsideNamespace",
    message: `${why}: ${what}`,
  });
  const reaching = reachingField(spec, scope);
  if (reaching !== undefined) {
    const instead = "name resources, or have a Network with roleScope Namespaced";
    return refused(`spec.${reaching} reaches entities of others by their attributes; ${instead}`);
  }
  const field = idFields.find((name) => Array.isArray(spec[name]) && spec[name].length > 0);
  if (field !== undefined) {
    return refused(`spec.${field} names entities by their ids, which may be of others; name resources or attributes`);
  }
  const { managementPolicy, importId } = spec;
  if (observed === undefined || (managementPolicy === "Manage" && importId === undefined)) return undefined;
  const { entity, by } = observed;
  const { kind } = ownershipOf(entity.tags, owner);
  const isOwn = kind === "ours" || kind === "predecessor" || (kind === "unowned" && by === "id");
  if (isOwn || isOfNamespace(entity.tags, owner)) return undefined;
  return refused(
    `the ${noun} ${entity.name} is not of this namespace; the network's administrator can make it so by the tag ${OWNER_TAGS.namespace} with the value ${owner.namespace}`,
  );
}

function planAbsent<Fields extends object, Found>(
  noun: string,
  resource: EntityResource,
  owner: Owner,
  { fields, missing }: Desired<Fields, Found>,
): EntityPlan<Fields> {
  const name = nameOf(resource);
  const { managementPolicy, importId, tags } = resource.spec;
  if (managementPolicy === "Observe" || importId !== undefined) {
    const which = importId === undefined ? `called ${name}` : `with the id ${importId}`;
    return {
      action: "wait",
      reason: "NotInNetwork",
      message: `the network has no ${noun} ${which}`,
      missing,
    };
  }
  if (missing.length > 0) {
    return { action: "wait", reason: missingReason(missing), message: missingText(missing), missing };
  }
  return { action: "create", body: { ...fields, name, tags: mergedTags(undefined, owner, tags) } };
}

/** Whether we may write: the entity is ours, becomes ours, or has another owner. */
function claimOn(
  noun: string,
  resource: EntityResource,
  { entity, by }: Observed<FoundEntity>,
  owner: Owner,
): "ours" | "adopt" | Conflict {
  const ownership = ownershipOf(entity.tags, owner);
  if (ownership.kind === "ours") return "ours";
  if (ownership.kind === "predecessor") return "adopt";
  if (ownership.kind === "unowned") {
    // The status says that it was ours: another client took the tags away.
    if (by === "id" || by === "tag") return "ours";
  }
  const isFree = ownership.kind === "unowned" || ownership.kind === "file";
  if (isFree && (by === "import" || resource.spec.managementPolicy === "Adopt")) return "adopt";
  const reason = by === "name" ? "NameConflict" : "OwnedByAnother";
  return { action: "conflict", reason, message: conflictText(noun, entity, ownership) };
}

function conflictText(noun: string, { id, name }: FoundEntity, ownership: Ownership): string {
  if (ownership.kind === "foreign") {
    return `${noun} ${name} (${id}) belongs to ${ownership.owner}: choose another name, or let that resource go with deletionPolicy Orphan`;
  }
  const whose = ownership.kind === "file" ? `is of the file of ${ownership.owner}` : "belongs to no resource";
  return `a ${noun} called ${name} (${id}) exists and ${whose}: set spec.importId to its id or spec.managementPolicy to Adopt to take it over, or choose another name`;
}

function differing<Spec extends EntitySpec, Fields extends object, Found extends FoundEntity, More>(
  kind: EntityKind<Spec, Fields, Found, More>,
  whole: EntityBody<Fields>,
  found: Found,
): Partial<EntityBody<Fields>> {
  const body: Partial<EntityBody<Fields>> = {};
  if (whole.name !== found.name) Object.assign(body, { name: whole.name });
  for (const field of Object.keys(kind.same) as (keyof Fields & string)[]) {
    if (!kind.same[field](whole[field], found)) Object.assign(body, { [field]: whole[field] });
  }
  if (!sameTags(whole.tags, found.tags)) Object.assign(body, { tags: whole.tags });
  return body;
}

// When two values mean the same to a network: servers sort, fill in and rewrite what they are given.

type Texts = readonly string[] | null | undefined;

/** Same members, in any order; none is as good as an absent list. `normalize` maps every member to one form of it. */
export function sameSet(wanted: Texts, found: Texts, normalize: (value: string) => string = (value) => value): boolean {
  const left = new Set((wanted ?? []).map(normalize));
  const right = new Set((found ?? []).map(normalize));
  return left.size === right.size && left.isSubsetOf(right);
}

/** Same JSON; the order of keys does not count, a key without a value is as good as none. */
export function sameJson(wanted: unknown, found: unknown): boolean {
  if (wanted === found) return true;
  if (Array.isArray(wanted) && Array.isArray(found)) {
    return wanted.length === found.length && wanted.every((each, index) => sameJson(each, found[index]));
  }
  if (!isObject(wanted) || !isObject(found)) return false;
  const keys = new Set([...Object.keys(wanted), ...Object.keys(found)]);
  return [...keys].every((key) => sameJson(wanted[key], found[key]));
}

/** Hex digits without what people put between them. */
export const bareHex = (text: string): string => text.replaceAll(/[^0-9A-Fa-f]/g, "").toLowerCase();

export const lowerCase = (text: string): string => text.toLowerCase();
