import { KINDS, type KubeObject, objectOf, type ResourceKind } from "../../../kube/kinds.ts";
import type { FoundService } from "./address.ts";
import {
  childMetadata,
  edgeServiceName,
  healthPort,
  offeredPorts,
  type RenderedResource,
  selectorLabels,
} from "./names.ts";

/** An object of all routers, which has the name of the EdgeRouter. */
function child(resource: RenderedResource, kind: ResourceKind, content: object): KubeObject {
  return objectOf(kind, childMetadata(resource, resource.metadata.name), content);
}

/** The Service of all routers: it names their pods, ready or not, and is what metrics are scraped by. */
export function headlessService(resource: RenderedResource): KubeObject {
  return child(resource, KINDS.Service, {
    spec: {
      clusterIP: "None",
      publishNotReadyAddresses: true,
      selector: selectorLabels(resource.metadata.name),
      ports: [
        { name: "edge", port: resource.spec.edge.port, targetPort: "edge", protocol: "TCP" },
        { name: "health", port: healthPort(resource.spec), targetPort: "health", protocol: "TCP" },
      ],
    },
  });
}

/** The Service by which one router is reached; undefined where that needs none. */
export function edgeService(resource: RenderedResource, ordinal: number): KubeObject | undefined {
  const { metadata, spec } = resource;
  const { exposure, edge } = spec;
  const type = exposure.type;
  if (type === "None" || type === "HostPort") return undefined;
  const { annotations, externalTrafficPolicy, loadBalancerClass, loadBalancerSourceRanges } = exposure;
  const nodePort = exposure.nodePort && exposure.nodePort + ordinal;
  const base = childMetadata(resource, edgeServiceName(metadata.name, ordinal), ordinal);
  return objectOf(KINDS.Service, annotations === undefined ? base : { ...base, annotations }, {
    spec: {
      type,
      selector: selectorLabels(metadata.name, ordinal),
      ports: [{ name: "edge", port: exposure.port ?? edge.port, targetPort: "edge", protocol: "TCP", nodePort }],
      externalTrafficPolicy,
      loadBalancerClass,
      loadBalancerSourceRanges,
    },
  });
}

/** Each type has what those before it have. */
const TYPES = ["ClusterIP", "NodePort", "LoadBalancer"];
const widthOf = (type: unknown): number => TYPES.indexOf(typeof type === "string" ? type : "");

interface Port {
  readonly name?: string;
  readonly port?: number;
  readonly nodePort?: number;
}

/**
 * The Service while the router is still reached as before: what the old address needs stays, and the new one's is added. Undefined: it is left as it is until
 * the router has moved, since the new one would end the old address.
 */
export function edgeServiceOfBoth(
  resource: RenderedResource,
  ordinal: number,
  found: FoundService,
): KubeObject | undefined {
  const wanted = edgeService(resource, ordinal) as (KubeObject & { spec: { type: string; ports: Port[] } }) | undefined;
  if (wanted === undefined) return undefined;
  const { type, ports: there = [] } = (found.spec ?? {}) as { type?: string; ports?: readonly Port[] };
  if (widthOf(wanted.spec.type) < widthOf(type)) return undefined;
  const [edge] = wanted.spec.ports;
  const isOther = (one: number | undefined, other: number | undefined) => one !== undefined && other !== one;
  const own = there.filter(({ name }) => name === "edge" || name?.startsWith("edge-"));
  if (wanted.spec.type === "NodePort" || own.some(({ nodePort }) => isOther(edge?.nodePort, nodePort))) {
    // Nodes give one port for each port of a Service.
    return own.some(({ port, nodePort }) => port !== edge?.port || isOther(edge?.nodePort, nodePort))
      ? undefined
      : wanted;
  }
  const former = own
    .filter(({ port }) => port !== edge?.port)
    .map(({ port }) => ({ name: `edge-${port}`, port, targetPort: "edge", protocol: "TCP" }));
  return { ...wanted, spec: { ...wanted.spec, ports: [...wanted.spec.ports, ...former] } } as KubeObject;
}

/** The pods talk to no API server: their account has no token. Undefined where the spec names another account. */
export function serviceAccount(resource: RenderedResource): KubeObject | undefined {
  if (resource.spec.template?.spec?.serviceAccountName !== undefined) return undefined;
  return child(resource, KINDS.ServiceAccount, { automountServiceAccountToken: false });
}

/** Keeps drains of nodes from stopping several routers at once; with one router it would only be in the way. */
export function disruptionBudget(resource: RenderedResource): KubeObject | undefined {
  const { spec, metadata } = resource;
  if (!spec.podDisruptionBudget.enabled || spec.replicas < 2) return undefined;
  const selector = { matchLabels: selectorLabels(metadata.name) };
  return child(resource, KINDS.PodDisruptionBudget, {
    spec: {
      maxUnavailable: spec.updateStrategy.maxUnavailable,
      // A router that is not ready serves no client: it must not keep a node from being drained.
      unhealthyPodEvictionPolicy: "AlwaysAllow",
      selector,
    },
  });
}

/** Addresses that are the node's own: of the cloud's metadata, above all. */
const LINK_LOCAL = { v4: "169.254.0.0/16", v6: "fe80::/10" } as const;

/**
 * Lets in who comes to the ports of the router, and out what goes anywhere but to link-local addresses: where services end is known to
 * the network alone. Probes of the node's kubelet are not subject to it.
 */
export function networkPolicy(resource: RenderedResource): KubeObject | undefined {
  const { spec, metadata } = resource;
  if (!spec.networkPolicy.enabled) return undefined;
  // By name: a port that changes is that of each pod, whichever template it is of.
  const tcp = (port: number | "edge" | "health") => ({ protocol: "TCP", port });
  const isReached = spec.exposure.type !== "None";
  const open = [...(isReached ? [tcp("edge")] : []), ...offeredPorts(spec)];
  const scraped = { from: [{ namespaceSelector: {} }], ports: [tcp("health")] };
  return child(resource, KINDS.NetworkPolicy, {
    spec: {
      podSelector: { matchLabels: selectorLabels(metadata.name) },
      policyTypes: ["Ingress", "Egress"],
      ingress: [...(open.length === 0 ? [] : [{ ports: open }]), ...(spec.serviceMonitor.enabled ? [scraped] : [])],
      egress: [
        // Also to the node's own resolver, which has a link-local address.
        { ports: [{ protocol: "UDP", port: 53 }, tcp(53)] },
        {
          to: [
            // Some networks count no pod among the addresses of a block.
            { namespaceSelector: {} },
            { ipBlock: { cidr: "0.0.0.0/0", except: [LINK_LOCAL.v4] } },
            { ipBlock: { cidr: "::/0", except: [LINK_LOCAL.v6] } },
          ],
        },
      ],
    },
  });
}

export function serviceMonitor(resource: RenderedResource): KubeObject | undefined {
  const { spec, metadata } = resource;
  const { enabled, interval, labels } = spec.serviceMonitor;
  if (!enabled) return undefined;
  const monitor = child(resource, KINDS.ServiceMonitor, {
    spec: {
      selector: { matchLabels: selectorLabels(metadata.name) },
      endpoints: [
        {
          port: "health",
          path: "/metrics",
          scheme: "https",
          interval,
          // The certificate is one of the overlay's own authority, under names of the overlay.
          tlsConfig: { insecureSkipVerify: true },
        },
      ],
    },
  });
  return labels === undefined
    ? monitor
    : { ...monitor, metadata: { ...monitor.metadata, labels: { ...labels, ...monitor.metadata.labels } } };
}
