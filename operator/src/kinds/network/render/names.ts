import { isOfOperator, type NetworkResource } from "@sallyport/resources";
import {
  INSTANCE,
  KEPT_ANNOTATIONS,
  type OwnerName,
  ownerByLabels,
  ownerLabels,
  ownerReference,
} from "../../../children/owner-marks.ts";
import type { KubeObject, ObjectMeta } from "../../../kube/kinds.ts";

/** Names of everything that belongs to a managed Network (docs/operator/networks.md, "Objects"). */
interface ChildNames {
  /** StatefulSet, Service, ConfigMap and PodDisruptionBudget. */
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

/** Secrets that lead into the network, or hold what it is kept by: the operator's own, and those that the spec names. */
export function secretNames(resource: NetworkResource): readonly string[] {
  const { external, managed } = resource.spec;
  const { passwordSecretRef, certificateSecretRef } = external?.auth ?? {};
  const named = [passwordSecretRef, certificateSecretRef, managed?.database.urlSecretRef];
  const { key, admin, operator } = childNames(resource);
  return [...named.flatMap((each) => each?.name ?? []), ...(managed === undefined ? [] : [key, admin, operator])];
}

/** Which pods are the controller's. They never change: a StatefulSet's selector can't. */
export const selectorLabels = ({ metadata: { name } }: NetworkResource) => ({
  ...NAME,
  [INSTANCE]: name,
});

const NAME = { "app.kubernetes.io/name": "network-controller" };
const PART = { ...NAME, "app.kubernetes.io/component": "controller", "app.kubernetes.io/part-of": "overlay" };

export const ownerName = ({ kind, metadata: { name } }: NetworkResource): OwnerName => ({ kind, name });

/** Labels of what is the Network's, and of the pods. */
export const childLabels = (resource: NetworkResource) => ({
  ...selectorLabels(resource),
  ...PART,
  ...ownerLabels(ownerName(resource)),
});

/** Metadata of a child that goes with its Network. */
export function ownedMetadata(resource: NetworkResource, name: string): ObjectMeta {
  const { namespace } = resource.metadata;
  return { name, namespace, labels: childLabels(resource), ownerReferences: [ownerReference(resource)] };
}

/** Metadata of what may outlive its Network, and so has no owner. */
export function keptMetadata(resource: NetworkResource, name: string): ObjectMeta {
  const labels = { ...PART, ...ownerLabels(ownerName(resource)) };
  return { name, namespace: resource.metadata.namespace, labels, annotations: KEPT_ANNOTATIONS };
}

/** Whether an object of a child's name is one that the operator made for a Network of this name. */
export function isChild({ metadata }: KubeObject, resource: NetworkResource): boolean {
  const { labels = {}, ownerReferences = [] } = metadata;
  const owner = ownerReferences.find(({ controller }) => controller === true);
  if (owner !== undefined) return owner.uid === resource.metadata.uid;
  const told = ownerByLabels(metadata);
  const isPart = Object.entries(PART).every(([name, value]) => labels[name] === value);
  return isPart && isOfOperator(metadata) && told?.kind === resource.kind && told.name === resource.metadata.name;
}

/** Where things are in the controller's pod. */
export const PATHS = {
  config: { folder: "/etc/sallyport/controller" },
  key: { folder: "/etc/sallyport/key", file: "/etc/sallyport/key/secret.key" },
  admin: {
    folder: "/etc/sallyport/admin",
    username: "/etc/sallyport/admin/username",
    password: "/etc/sallyport/admin/password",
  },
  database: { folder: "/etc/sallyport/database", file: "/etc/sallyport/database/url" },
  certificate: { folder: "/etc/sallyport/certificate" },
  data: {
    folder: "/var/lib/sallyport",
    database: "/var/lib/sallyport/database",
    snapshots: "/var/lib/sallyport/snapshots",
  },
} as const;

/** User and group of the programs in the images. */
export const USER = 65_532;
