import { isIP } from "node:net";
import type { KubeObject } from "../../../kube/kinds.ts";
import { edgeServiceName, type RenderedResource } from "./names.ts";

/** What a Service has that an address may come from. */
export interface FoundService extends KubeObject {
  readonly spec?: { readonly ports?: readonly { readonly name?: string; readonly nodePort?: number }[] };
  readonly status?: {
    readonly loadBalancer?: { readonly ingress?: readonly { readonly hostname?: string; readonly ip?: string }[] };
  };
}

/** Where a router is reached. */
export interface Address {
  readonly host: string;
  readonly port: number;
}

/** The host of pods with a port of their node: known to the pod alone, which puts it in place of this. */
export const NODE_ADDRESS = `\${HOST_IP}`;

/** `waiting`: Kubernetes has not said it yet. `none`: the router is not reached at all. */
export type AddressResult =
  | { readonly state: "known"; readonly address: Address }
  | {
      readonly state: "waiting";
      readonly reason: "WaitingForLoadBalancer" | "WaitingForNodePort";
      readonly message: string;
    }
  | { readonly state: "none" };

export const addressText = ({ host, port }: Address): string =>
  isIP(host) === 6 ? `[${host}]:${port}` : `${host}:${port}`;

/** The host of `<host>:<port>`. */
export function hostOf(text: string): string {
  const host = text.slice(0, text.lastIndexOf(":"));
  return host.startsWith("[") ? host.slice(1, -1) : host;
}

/** Under which names the Service of a router is known in the cluster. */
export function serviceNames({ metadata, spec }: RenderedResource, ordinal: number): string[] {
  const short = `${edgeServiceName(metadata.name, ordinal)}.${metadata.namespace}.svc`;
  const { clusterDomain } = spec.exposure;
  return clusterDomain === undefined ? [short] : [`${short}.${clusterDomain}`, short];
}

/** Where a router is to be reached, by its exposure and what Kubernetes made of its Service (docs/operator/edge-router.md, "Addresses"). */
export function addressOf(
  resource: RenderedResource,
  ordinal: number,
  service: FoundService | undefined,
): AddressResult {
  const { exposure, edge } = resource.spec;
  const hostname = hostnameOf(resource, ordinal);
  const port = exposure.port ?? edge.port;
  const known = (host: string, at = port): AddressResult => ({ state: "known", address: { host, port: at } });
  switch (exposure.type) {
    case "None":
      return { state: "none" };
    case "HostPort":
      return known(hostname ?? NODE_ADDRESS);
    case "LoadBalancer": {
      if (hostname !== undefined) return known(hostname);
      const [ingress] = service?.status?.loadBalancer?.ingress ?? [];
      const host = ingress?.hostname || ingress?.ip;
      if (host) return known(host);
      const message = `the load balancer of Service ${edgeServiceName(resource.metadata.name, ordinal)} has no address yet; set spec.exposure.hostname if it never gets one`;
      return { state: "waiting", reason: "WaitingForLoadBalancer", message };
    }
    case "NodePort": {
      const nodePort = service?.spec?.ports?.find(({ name }) => name === "edge")?.nodePort;
      const at = exposure.port ?? (exposure.nodePort === undefined ? nodePort : exposure.nodePort + ordinal);
      if (hostname !== undefined && at !== undefined) return known(hostname, at);
      const message = `Service ${edgeServiceName(resource.metadata.name, ordinal)} has no node port yet`;
      return { state: "waiting", reason: "WaitingForNodePort", message };
    }
    default:
      return known(hostname ?? serviceNames(resource, ordinal)[0] ?? "");
  }
}

/** The host name of the spec for one router. */
export function hostnameOf({ metadata, spec }: RenderedResource, ordinal: number): string | undefined {
  return spec.exposure.hostname
    ?.replaceAll("{name}", metadata.name)
    .replaceAll("{namespace}", metadata.namespace)
    .replaceAll("{ordinal}", String(ordinal));
}

/** What a router advertises now, and which names its certificate needs besides. */
interface Advertised {
  readonly address: Address;
  /** Hosts of the certificate, the advertised one first. */
  readonly hosts: readonly string[];
  /** Still the old address: the certificate has to get the new name first. */
  readonly isChanging: boolean;
}

/**
 * The next step towards an address. An enrolled router does not start with a host that its certificate lacks, and clients that dial one would refuse it:
 * another host first becomes a name of the certificate, and is advertised when the certificate has it.
 *
 * @param current what it advertises now, `<host>:<port>`; undefined before its first start
 * @param names hosts of the certificate that it serves now; undefined when it is not enrolled
 */
export function nextAdvertised(
  target: Address,
  current: string | undefined,
  names: readonly string[] | undefined,
): Advertised {
  const done: Advertised = { address: target, hosts: [target.host], isChanging: false };
  if (current === undefined || names === undefined) return done;
  const host = hostOf(current);
  // The node's address comes from the pod, whose first container has the certificate renewed for it.
  if (host === target.host || target.host === NODE_ADDRESS || host === NODE_ADDRESS) return done;
  if (names.some((name) => name.toLowerCase() === target.host.toLowerCase())) return done;
  const port = Number(current.slice(current.lastIndexOf(":") + 1));
  return { address: { host, port }, hosts: [host, target.host], isChanging: true };
}
