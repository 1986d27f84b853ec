import { formatHostPort, type HostPort } from "@sallyport/wire";
import type { ManagedNetwork, NetworkResource } from "../schema.ts";
import { childNames } from "./names.ts";

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
