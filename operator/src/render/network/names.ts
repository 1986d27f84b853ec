import type { KubeObject, ObjectMeta, OwnerReference } from "../../kube/kinds.ts";
import { API_VERSION, LABELS, MANAGED_BY } from "../../resources/group.ts";
import type { NetworkResource } from "../../resources/network.ts";

/** Names of everything that belongs to a managed Network (docs/operator/networks.md, "Objects"). */
export interface ChildNames {
  /** StatefulSet, Service and ConfigMap. */
  readonly controller: string;
  readonly data: string;
  readonly key: string;
  readonly admin: string;
  /** Certificate and key of the operator's own administrator. */
  readonly operator: string;
  readonly ca: string;
  /** The certificate that cert-manager makes. */
  readonly certificate: string;
}

export function childNames({ metadata: { name }, spec }: NetworkResource): ChildNames {
  return {
    controller: `${name}-controller`,
    data: `${name}-controller-data`,
    key: `${name}-controller-key`,
    admin: spec.managed?.adminSecretName ?? `${name}-admin`,
    operator: `${name}-operator`,
    ca: `${name}-ca`,
    certificate: `${name}-controller-certificate`,
  };
}

/** Which pods are the controller's. They never change: a StatefulSet's selector can't. */
export const selectorLabels = ({ metadata: { name } }: NetworkResource) => ({
  "app.kubernetes.io/name": "network-controller",
  "app.kubernetes.io/instance": name,
});

export const childLabels = (resource: NetworkResource) => ({
  ...selectorLabels(resource),
  "app.kubernetes.io/component": "controller",
  "app.kubernetes.io/part-of": "overlay",
  [MANAGED_BY.key]: MANAGED_BY.value,
  [LABELS.ownerKind]: resource.kind,
});

export function ownerReference({ kind, metadata: { name, uid } }: NetworkResource): OwnerReference {
  return { apiVersion: API_VERSION, kind, name, uid, controller: true, blockOwnerDeletion: true };
}

/** Metadata of a child that goes with its Network. */
export function ownedMetadata(resource: NetworkResource, name: string): ObjectMeta {
  return { ...keptMetadata(resource, name), ownerReferences: [ownerReference(resource)] };
}

/** Metadata of what may outlive its Network. */
export function keptMetadata(resource: NetworkResource, name: string): ObjectMeta {
  return { name, namespace: resource.metadata.namespace, labels: childLabels(resource) };
}

/** Whether an object of a child's name is one that the operator made for a Network of this name. */
export function isChild({ metadata }: KubeObject, resource: NetworkResource): boolean {
  const { labels = {}, ownerReferences = [] } = metadata;
  const owner = ownerReferences.find(({ controller }) => controller === true);
  if (owner !== undefined) return owner.uid === resource.metadata.uid;
  return Object.entries(childLabels(resource)).every(([name, value]) => labels[name] === value);
}
