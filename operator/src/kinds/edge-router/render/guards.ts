import { apiVersionOf, KINDS, type KubeObject, type ResourceKind } from "../../../kube/kinds.ts";
import { childMetadata, type RenderedResource, selectorLabels } from "./names.ts";
import { offeredPorts } from "./ports.ts";

/** What stands around the pods: an account without rights, and what the spec asks for. */

function child(resource: RenderedResource, kind: ResourceKind, content: object): KubeObject {
  const metadata = childMetadata(resource, resource.metadata.name);
  return { apiVersion: apiVersionOf(kind), kind: kind.kind, metadata, ...content } as KubeObject;
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
      // A router that is not ready serves nobody: it must not keep a node from being drained.
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
          ...(interval === undefined ? {} : { interval }),
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
