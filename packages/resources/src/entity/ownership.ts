/**
 * Whose an entity of a network is. Several operators, other tools and people share one network: what may be changed and
 * deleted is decided by tags on the entity and by nothing else (docs/operator/entities.md, "Whose an entity is").
 */

/** Letters and hyphens only: filters of the API know no other characters in the name of a tag. */
export const OWNER_TAGS = {
  cluster: "sallyport-cluster",
  kind: "sallyport-kind",
  namespace: "sallyport-namespace",
  name: "sallyport-name",
  uid: "sallyport-uid",
  ordinal: "sallyport-ordinal",
  /** JSON list of the user's tags that we wrote, so that one that leaves the spec leaves the entity. */
  userTags: "sallyport-user-tags",
  /** What an owner without an object in a cluster has to remember of its resource: JSON object of its labels, and how it is to be deleted. */
  labels: "sallyport-labels",
  deletionPolicy: "sallyport-deletion-policy",
  /** The resource has given the entity configs of its own, which are no part of the entity. */
  serviceConfigs: "sallyport-service-configs",
} as const;

const OWN_KEYS: ReadonlySet<string> = new Set(Object.values(OWNER_TAGS));

/** In place of a cluster: what owns the entities of files that `sallyport apply` has applied. */
export const COMMAND_LINE = "command-line";

/** Tags as the API has them; OpenZiti writes `null` for no tags. */
export type Tags = Readonly<Record<string, string | boolean | number | null>>;

/** The resource that an entity belongs to. */
export interface Owner {
  /** Which operator: the UID of the cluster's namespace `kube-system`, or what was configured. */
  readonly cluster: string;
  readonly kind: string;
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  /** Of a resource that stands for several entities: which of them. */
  readonly ordinal?: number | undefined;
  /** Further tags of {@link OWNER_TAGS} that the owner keeps on the entity. */
  readonly marks?: Readonly<Record<string, string>>;
}

interface Owning {
  readonly kind: string;
  readonly metadata: { readonly namespace: string; readonly name: string; readonly uid: string };
}

export function ownerOf({ kind, metadata }: Owning, cluster: string, ordinal?: number): Owner {
  const { namespace, name, uid } = metadata;
  return { cluster, kind, namespace, name, uid, ordinal };
}

/** The tags by which an entity is known as the owner's. */
export function tagsOf(owner: Owner): Record<string, string> {
  return {
    [OWNER_TAGS.cluster]: owner.cluster,
    [OWNER_TAGS.kind]: owner.kind,
    [OWNER_TAGS.namespace]: owner.namespace,
    [OWNER_TAGS.name]: owner.name,
    [OWNER_TAGS.uid]: owner.uid,
    ...(owner.ordinal === undefined ? {} : { [OWNER_TAGS.ordinal]: String(owner.ordinal) }),
    ...owner.marks,
  };
}

/** Filter that finds the owner's entity, or of several the one with its ordinal. */
export function ownerFilter({ uid, ordinal }: Owner): string {
  const byUid = `tags.${OWNER_TAGS.uid} = "${uid}"`;
  return ordinal === undefined ? byUid : `${byUid} and tags.${OWNER_TAGS.ordinal} = "${ordinal}"`;
}

/**
 * `ours`: it is the owner's. `predecessor`: it was left behind by a resource of the same place that does not exist any
 * more, since two can't share one name. `foreign`: another resource, of this cluster or another, has it. `file`: it is of a file that was applied without a cluster.
 * `unowned`: nothing has it.
 */
export type Ownership =
  | { readonly kind: "ours" | "predecessor" | "unowned" }
  | { readonly kind: "file"; readonly owner: string }
  | { readonly kind: "foreign"; readonly owner: string };

export function ownershipOf(tags: Tags | null | undefined, owner: Owner): Ownership {
  const given = tags ?? {};
  if (given[OWNER_TAGS.uid] === undefined || given[OWNER_TAGS.uid] === null) return { kind: "unowned" };
  const wanted = tagsOf(owner);
  const fits = (key: string): boolean => (given[key] ?? undefined) === wanted[key];
  if (fits(OWNER_TAGS.uid) && fits(OWNER_TAGS.ordinal)) return { kind: "ours" };
  const isSamePlace = [OWNER_TAGS.cluster, OWNER_TAGS.kind, OWNER_TAGS.namespace, OWNER_TAGS.name, OWNER_TAGS.ordinal];
  if (isSamePlace.every(fits)) return { kind: "predecessor" };
  const text = (key: string): string => String(given[key] ?? "?");
  const place = `${text(OWNER_TAGS.kind)} ${text(OWNER_TAGS.namespace)}/${text(OWNER_TAGS.name)}`;
  if (given[OWNER_TAGS.cluster] === COMMAND_LINE && owner.cluster !== COMMAND_LINE)
    return { kind: "file", owner: place };
  return { kind: "foreign", owner: `${place} of cluster ${text(OWNER_TAGS.cluster)}` };
}

/**
 * Whether an entity is of the owner's namespace though it has another owner or none: a resource of that namespace has it, or the network's administrator
 * gave it the tag of the namespace.
 */
export function isOfNamespace(tags: Tags | null | undefined, { cluster, namespace }: Owner): boolean {
  const given = tags ?? {};
  return given[OWNER_TAGS.namespace] === namespace && (given[OWNER_TAGS.cluster] ?? cluster) === cluster;
}

export const isOurs = (entity: { readonly tags?: Tags | null | undefined }, owner: Owner): boolean =>
  ownershipOf(entity.tags, owner).kind === "ours";

/**
 * All tags that an entity shall have: those that others gave it stay, the user's come from the spec, and the owner's.
 * A tag that the user had in the spec before is taken away.
 */
export function mergedTags(
  found: Tags | null | undefined,
  owner: Owner,
  userTags: Readonly<Record<string, string>> = {},
): Record<string, string | boolean | number | null> {
  const names = Object.keys(userTags).sort();
  return {
    ...foreignTags(found),
    ...userTags,
    ...tagsOf(owner),
    ...(names.length === 0 ? {} : { [OWNER_TAGS.userTags]: JSON.stringify(names) }),
  };
}

/** The tags that stay when the entity is let go: all but the ownership. */
export function releasedTags(found: Tags | null | undefined): Record<string, string | boolean | number | null> {
  return Object.fromEntries(Object.entries(found ?? {}).filter(([key]) => !OWN_KEYS.has(key)));
}

/** What neither we nor, through us, the user wrote. */
function foreignTags(found: Tags | null | undefined): Record<string, string | boolean | number | null> {
  const written = new Set(writtenUserTags(found?.[OWNER_TAGS.userTags]));
  return Object.fromEntries(Object.entries(releasedTags(found)).filter(([key]) => !written.has(key)));
}

function writtenUserTags(value: unknown): readonly string[] {
  if (typeof value !== "string") return [];
  try {
    const names: unknown = JSON.parse(value);
    return Array.isArray(names) ? names.filter((name) => typeof name === "string") : [];
  } catch {
    // Another client wrote it: then nothing is known to be the user's.
    return [];
  }
}

/** Same tags; a tag of value null is as good as none. */
export function sameTags(wanted: Tags, found: Tags | null | undefined): boolean {
  const filled = (tags: Tags) => Object.entries(tags).filter(([, value]) => value !== null);
  const left = filled(wanted);
  const right = new Map(filled(found ?? {}));
  return left.length === right.size && left.every(([key, value]) => right.get(key) === value);
}
