import { isOfOperator, type ManagedNetwork, type NetworkResource } from "@sallyport/resources";
import { formatHostPort, type HostPort } from "@sallyport/wire";
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
  config: { folder: "/etc/sallyport/controller", file: "/etc/sallyport/controller/controller.yml" },
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

/** What is read of the controller's Service. */
export interface FoundService {
  readonly spec?: { readonly ports?: readonly { readonly name?: string; readonly nodePort?: number }[] };
  readonly status?: {
    readonly loadBalancer?: {
      readonly ingress?: readonly { readonly hostname?: string; readonly ip?: string }[];
    };
  };
}

interface WaitingForAddress {
  readonly reason: "WaitingForLoadBalancer" | "WaitingForNodePort";
  readonly message: string;
}

/** Under which address a managed controller is advertised: known, or what has to come first. */
type AdvertisedController = { readonly address: HostPort } | { readonly waiting: WaitingForAddress };

/** Host and port in certificates and enrollment tokens. */
export function advertisedAddress(
  resource: NetworkResource,
  { exposure, port }: ManagedNetwork,
  service: FoundService | undefined,
): AdvertisedController {
  const { name, namespace } = resource.metadata;
  const hostname = exposure.hostname?.replaceAll("{name}", name).replaceAll("{namespace}", namespace);
  if (exposure.type === "LoadBalancer") {
    const host = hostname ?? loadBalancerHost(service);
    if (host !== undefined) return { address: { host, port: exposure.port ?? port } };
    return waiting(
      "WaitingForLoadBalancer",
      `the Service ${childNames(resource).controller} has no load balancer yet; give spec.managed.exposure.hostname if the cluster makes none`,
    );
  }
  if (exposure.type === "NodePort") {
    const nodePort = exposure.port ?? exposure.nodePort ?? service?.spec?.ports?.[0]?.nodePort;
    if (hostname !== undefined && nodePort !== undefined) return { address: { host: hostname, port: nodePort } };
    return waiting("WaitingForNodePort", `the Service ${childNames(resource).controller} has no node port yet`);
  }
  const host = hostname ?? serviceHost(resource, exposure.clusterDomain);
  return { address: { host, port: exposure.port ?? port } };
}

const waiting = (reason: WaitingForAddress["reason"], message: string): AdvertisedController => ({
  waiting: { reason, message },
});

function loadBalancerHost(service: FoundService | undefined): string | undefined {
  const [first] = service?.status?.loadBalancer?.ingress ?? [];
  return first?.hostname || first?.ip || undefined;
}

/** Name of the controller's Service, known to every pod. */
export function serviceHost(resource: NetworkResource, clusterDomain?: string): string {
  const host = `${childNames(resource).controller}.${resource.metadata.namespace}.svc`;
  return clusterDomain === undefined ? host : `${host}.${clusterDomain}`;
}

/** Port of the Service; the pod's own is `spec.managed.port`. */
export function servicePort({ exposure, port }: ManagedNetwork): number {
  return exposure.type === "NodePort" ? port : (exposure.port ?? port);
}

export const baseUrl = (address: HostPort): string => `https://${formatHostPort(address)}`;
export const managementBase = (address: HostPort): string => `${baseUrl(address)}/edge/management/v1`;
