import type { ManagedNetwork, NetworkResource } from "@sallyport/resources";
import { formatHostPort, type HostPort } from "@sallyport/wire";
import { childNames } from "./names.ts";
import { replicaName } from "./replicas.ts";

/** What is read of a controller's Service. */
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

/** Host and port in certificates and enrollment tokens: those that all controllers share. */
export function advertisedAddress(
  resource: NetworkResource,
  managed: ManagedNetwork,
  service: FoundService | undefined,
): AdvertisedController {
  const { hostname, nodePort } = managed.exposure;
  const serviceName = childNames(resource).controller;
  const place = { serviceName, hostname: hostname && filledIn(hostname, resource), field: "hostname", nodePort };
  return addressAt(place, resource, managed, service);
}

/** Host and port at which routers reach one of several controllers. */
export function replicaAddress(
  resource: NetworkResource,
  managed: ManagedNetwork,
  ordinal: number,
  service: FoundService | undefined,
): AdvertisedController {
  const serviceName = replicaName(resource, ordinal);
  const place = {
    ...{ serviceName, hostname: replicaHostname(resource, managed, ordinal), field: "replicaHostname" },
    nodePort: replicaNodePort(managed, ordinal),
  };
  return addressAt(place, resource, managed, service);
}

/** The name of the spec for one of several controllers. Nodes have one name, whichever port leads to it. */
export function replicaHostname(
  resource: NetworkResource,
  { exposure }: ManagedNetwork,
  ordinal: number,
): string | undefined {
  const pattern = exposure.replicaHostname ?? (exposure.type === "NodePort" ? exposure.hostname : undefined);
  return pattern && filledIn(pattern, resource).replaceAll("{ordinal}", String(ordinal));
}

/** Of one of several controllers: the one after that of the shared Service, and so on. */
export const replicaNodePort = ({ exposure: { nodePort } }: ManagedNetwork, ordinal: number): number | undefined =>
  nodePort === undefined ? undefined : nodePort + 1 + ordinal;

/** Do addresses of single controllers come from what the cluster has assigned, and not from the spec alone? */
export const areAssigned = ({ exposure }: ManagedNetwork): boolean =>
  (exposure.type === "LoadBalancer" && exposure.replicaHostname === undefined) ||
  (exposure.type === "NodePort" && exposure.nodePort === undefined && exposure.port === undefined);

const filledIn = (pattern: string, { metadata: { name, namespace } }: NetworkResource): string =>
  pattern.replaceAll("{name}", name).replaceAll("{namespace}", namespace);

interface Place {
  readonly serviceName: string;
  /** As the spec has it. */
  readonly hostname: string | undefined;
  /** Field of the exposure with the name. */
  readonly field: string;
  readonly nodePort: number | undefined;
}

function addressAt(
  { serviceName, hostname, field, nodePort }: Place,
  resource: NetworkResource,
  { exposure, port }: ManagedNetwork,
  service: FoundService | undefined,
): AdvertisedController {
  if (exposure.type === "LoadBalancer") {
    const host = hostname ?? loadBalancerHost(service);
    if (host !== undefined) return { address: { host, port: exposure.port ?? port } };
    return waiting(
      "WaitingForLoadBalancer",
      `the Service ${serviceName} has no load balancer yet; give spec.managed.exposure.${field} if the cluster makes none`,
    );
  }
  if (exposure.type === "NodePort") {
    const at = exposure.port ?? nodePort ?? service?.spec?.ports?.[0]?.nodePort;
    if (hostname !== undefined && at !== undefined) return { address: { host: hostname, port: at } };
    return waiting("WaitingForNodePort", `the Service ${serviceName} has no node port yet`);
  }
  const host = hostname ?? hostOfService(serviceName, resource, exposure.clusterDomain);
  return { address: { host, port: exposure.port ?? port } };
}

const waiting = (reason: WaitingForAddress["reason"], message: string): AdvertisedController => ({
  waiting: { reason, message },
});

function loadBalancerHost(service: FoundService | undefined): string | undefined {
  const [first] = service?.status?.loadBalancer?.ingress ?? [];
  return first?.hostname || first?.ip || undefined;
}

/** Name of the controllers' Service, known to every pod. */
export const serviceHost = (resource: NetworkResource, clusterDomain?: string): string =>
  hostOfService(childNames(resource).controller, resource, clusterDomain);

function hostOfService(name: string, { metadata: { namespace } }: NetworkResource, clusterDomain?: string): string {
  const host = `${name}.${namespace}.svc`;
  return clusterDomain === undefined ? host : `${host}.${clusterDomain}`;
}

/** Port of the Service; the pod's own is `spec.managed.port`. */
export function servicePort({ exposure, port }: ManagedNetwork): number {
  return exposure.type === "NodePort" ? port : (exposure.port ?? port);
}

export const baseUrl = (address: HostPort): string => `https://${formatHostPort(address)}`;
export const managementBase = (address: HostPort): string => `${baseUrl(address)}/edge/management/v1`;
