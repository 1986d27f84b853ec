import { API_VERSION, LABELS, MANAGED_BY } from "@sallyport/resources";
import type { ObjectMeta, OwnerReference } from "../kube/kinds.ts";

/**
 * Marks that keep delivery tools from pruning objects without an owner: volumes, keys, first passwords. Argo CD reads the label
 * `app.kubernetes.io/instance` as the name of an Application, so these objects do without it. The annotations protect them from other tools
 * (docs/gitops.md, "Pruning and deletion").
 */

/** The label by which others tell whose an object is. */
export const INSTANCE = "app.kubernetes.io/instance";

export const KEPT_ANNOTATIONS: Readonly<Record<string, string>> = {
  "argocd.argoproj.io/sync-options": "Prune=false,Delete=false",
  "argocd.argoproj.io/compare-options": "IgnoreExtraneous",
  "helm.sh/resource-policy": "keep",
};

/** One of our resources, by what labels say of it. */
export interface OwnerName {
  readonly kind: string;
  readonly name: string;
}

export const ownerLabels = ({ kind, name }: OwnerName): Record<string, string> => ({
  [MANAGED_BY.key]: MANAGED_BY.value,
  [LABELS.ownerKind]: kind,
  [LABELS.ownerName]: name,
});

/** By which the garbage collector takes an object away with our resource. */
export const ownerReference = ({ kind, metadata: { name, uid } }: Owning): OwnerReference => ({
  apiVersion: API_VERSION,
  ...{ kind, name, uid },
  controller: true,
  blockOwnerDeletion: true,
});

interface Owning {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly uid: string };
}

/** Whose an object is by its labels. Those that earlier versions made say the name by another label. */
export function ownerByLabels({ labels = {} }: Pick<ObjectMeta, "labels">): OwnerName | undefined {
  const [kind, name] = [labels[LABELS.ownerKind], labels[LABELS.ownerName] ?? labels[INSTANCE]];
  return kind === undefined || name === undefined ? undefined : { kind, name };
}

/** What is to change of the metadata of an object without an owner that is there, such as one of an earlier version. Undefined: nothing. */
export function missingMarks({ labels = {}, annotations = {} }: ObjectMeta, owner: OwnerName): object | undefined {
  const lacking = (wanted: Readonly<Record<string, string>>, found: Readonly<Record<string, string>>) =>
    Object.fromEntries(Object.entries(wanted).filter(([key, value]) => found[key] !== value));
  // A user who sets another value knows why: the annotations still apply.
  const isOurs = labels[INSTANCE] === owner.name;
  const labelled = { ...lacking(ownerLabels(owner), labels), ...(isOurs ? { [INSTANCE]: null } : {}) };
  const annotated = Object.fromEntries(
    Object.entries(KEPT_ANNOTATIONS).filter(([key]) => annotations[key] === undefined),
  );
  const isMarked = [labelled, annotated].every((each) => Object.keys(each).length === 0);
  return isMarked ? undefined : { labels: labelled, annotations: annotated };
}
