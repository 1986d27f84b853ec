/** The kinds of Kubernetes objects that the operator knows, and how one of them is named. Paths come from this table: no discovery is asked. */

/** One kind of an API server: where its objects live and what they call themselves. */
export interface ResourceKind {
  /** API group; the empty text is the core group. */
  readonly group: string;
  readonly version: string;
  /** As in the path: `edgerouters`. */
  readonly plural: string;
  /** As in the object: `EdgeRouter`. */
  readonly kind: string;
  readonly namespaced: boolean;
}

/** Names one object. `namespace` is needed exactly for namespaced kinds. */
export interface ObjectRef {
  readonly kind: ResourceKind;
  readonly namespace?: string | undefined;
  readonly name: string;
}

export interface OwnerReference {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  readonly uid: string;
  readonly controller?: boolean;
  readonly blockOwnerDeletion?: boolean;
}

/** What an object that was read carries; times are texts of RFC 3339. */
export interface ObjectMeta {
  readonly name: string;
  readonly namespace?: string | undefined;
  readonly generateName?: string;
  readonly uid?: string | undefined;
  readonly resourceVersion?: string | undefined;
  readonly generation?: number;
  readonly creationTimestamp?: string;
  readonly deletionTimestamp?: string;
  readonly labels?: Readonly<Record<string, string>> | undefined;
  readonly annotations?: Readonly<Record<string, string>> | undefined;
  readonly finalizers?: readonly string[];
  readonly ownerReferences?: readonly OwnerReference[];
}

/** Any object of the API server, as parsed from JSON. Callers must not change one in place: stores share them. */
export interface KubeObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: ObjectMeta;
}

function builtIn(group: string, version: string, plural: string, kind: string, namespaced = true): ResourceKind {
  return { group, version, plural, kind, namespaced };
}

/** Kinds of Kubernetes itself that the operator reads or writes, and those of the Prometheus operator and of cert-manager. */
export const KINDS = {
  ConfigMap: builtIn("", "v1", "configmaps", "ConfigMap"),
  Secret: builtIn("", "v1", "secrets", "Secret"),
  Service: builtIn("", "v1", "services", "Service"),
  ServiceAccount: builtIn("", "v1", "serviceaccounts", "ServiceAccount"),
  Pod: builtIn("", "v1", "pods", "Pod"),
  Node: builtIn("", "v1", "nodes", "Node", false),
  PersistentVolumeClaim: builtIn("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim"),
  Namespace: builtIn("", "v1", "namespaces", "Namespace", false),
  Deployment: builtIn("apps", "v1", "deployments", "Deployment"),
  StatefulSet: builtIn("apps", "v1", "statefulsets", "StatefulSet"),
  Job: builtIn("batch", "v1", "jobs", "Job"),
  PodDisruptionBudget: builtIn("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget"),
  NetworkPolicy: builtIn("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy"),
  Role: builtIn("rbac.authorization.k8s.io", "v1", "roles", "Role"),
  RoleBinding: builtIn("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding"),
  Lease: builtIn("coordination.k8s.io", "v1", "leases", "Lease"),
  Event: builtIn("events.k8s.io", "v1", "events", "Event"),
  CustomResourceDefinition: builtIn(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    false,
  ),
  SelfSubjectAccessReview: builtIn(
    "authorization.k8s.io",
    "v1",
    "selfsubjectaccessreviews",
    "SelfSubjectAccessReview",
    false,
  ),
  /** Of cert-manager. */
  Certificate: builtIn("cert-manager.io", "v1", "certificates", "Certificate"),
  ServiceMonitor: builtIn("monitoring.coreos.com", "v1", "servicemonitors", "ServiceMonitor"),
} as const satisfies Record<string, ResourceKind>;

/** `apps/v1`; of the core group `v1`. */
export function apiVersionOf({ group, version }: ResourceKind): string {
  return group === "" ? version : `${group}/${version}`;
}

export function objectOf(kind: ResourceKind, metadata: ObjectMeta, content: object): KubeObject {
  return { apiVersion: apiVersionOf(kind), kind: kind.kind, metadata, ...content };
}

/** `namespace/name`, of cluster-wide objects `name`: the key of stores and work queues. */
export type ObjectKey = string;

export function keyOf(object: { readonly metadata: Pick<ObjectMeta, "namespace" | "name"> }): ObjectKey {
  return keyFor(object.metadata.namespace, object.metadata.name);
}

export function keyFor(namespace: string | undefined, name: string): ObjectKey {
  return namespace === undefined || namespace === "" ? name : `${namespace}/${name}`;
}

/** The two parts of a key that {@link keyOf} made. */
export function splitKey(key: ObjectKey): { namespace?: string; name: string } {
  const slash = key.indexOf("/");
  return slash < 0 ? { name: key } : { namespace: key.slice(0, slash), name: key.slice(slash + 1) };
}

export function refOf(
  kind: ResourceKind,
  object: { readonly metadata: Pick<ObjectMeta, "namespace" | "name"> },
): ObjectRef {
  const { namespace, name } = object.metadata;
  return kind.namespaced && namespace !== undefined ? { kind, namespace, name } : { kind, name };
}

/** Finds the kind of an object by what it calls itself. */
export class KindTable {
  readonly #byName = new Map<string, ResourceKind>();

  /** The table knows {@link KINDS} and whatever is given: the custom kinds of a program. */
  constructor(more: Iterable<ResourceKind> = []) {
    for (const kind of [...Object.values(KINDS), ...more]) this.#byName.set(`${apiVersionOf(kind)}/${kind.kind}`, kind);
  }

  /** @throws TypeError for a kind that is not in the table */
  of(object: { readonly apiVersion: string; readonly kind: string }): ResourceKind {
    const kind = this.#byName.get(`${object.apiVersion}/${object.kind}`);
    if (kind !== undefined) return kind;
    throw new TypeError(
      `no kind ${object.apiVersion} ${object.kind} in the table of kinds; give it to the client when it is made`,
    );
  }
}

/** A Secret. */
export interface SecretObject extends KubeObject {
  readonly type?: string;
  /** Base64. */
  readonly data?: Readonly<Record<string, string>>;
}

/** `/api/v1/namespaces/edge/secrets`; without a namespace all objects of the kind. */
export function collectionPath({ group, version, plural, namespaced }: ResourceKind, namespace?: string): string {
  const root = group === "" ? `/api/${version}` : `/apis/${group}/${version}`;
  const place = namespaced && namespace !== undefined ? `/namespaces/${encodeURIComponent(namespace)}` : "";
  return `${root}${place}/${plural}`;
}

/** @throws TypeError for a namespaced kind without a namespace, or a name that is none */
export function objectPath({ kind, namespace, name }: ObjectRef, subresource?: "status" | "token"): string {
  if (kind.namespaced && !namespace) throw new TypeError(`${kind.kind} ${name} needs a namespace`);
  if (name === "" || name === "." || name === "..") throw new TypeError(`"${name}" is no name of a ${kind.kind}`);
  const path = `${collectionPath(kind, namespace)}/${encodeURIComponent(name)}`;
  return subresource === undefined ? path : `${path}/${subresource}`;
}

/** `?a=1&b=2` of what is given; nothing when nothing is. */
export function query(parameters: Readonly<Record<string, string | number | boolean | undefined>>): string {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) if (value !== undefined) given.set(name, String(value));
  const text = given.toString();
  return text === "" ? "" : `?${text}`;
}
