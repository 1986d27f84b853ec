import { apiVersionOf, KINDS, type KubeObject } from "../../../kube/kinds.ts";
import type { FoundService } from "./address.ts";
import { childMetadata, edgeServiceName, type RenderedResource, selectorLabels } from "./names.ts";
import { healthPort } from "./ports.ts";

/** The Service of all routers: it names their pods, ready or not, and is what metrics are scraped by. */
export function headlessService(resource: RenderedResource): KubeObject {
  const { name } = resource.metadata;
  return {
    apiVersion: apiVersionOf(KINDS.Service),
    kind: KINDS.Service.kind,
    metadata: childMetadata(resource, name),
    spec: {
      clusterIP: "None",
      publishNotReadyAddresses: true,
      selector: selectorLabels(name),
      ports: [
        { name: "edge", port: resource.spec.edge.port, targetPort: "edge", protocol: "TCP" },
        { name: "health", port: healthPort(resource.spec), targetPort: "health", protocol: "TCP" },
      ],
    },
  } as KubeObject;
}

/** The Service by which one router is reached; undefined where that needs none. */
export function edgeService(resource: RenderedResource, ordinal: number): KubeObject | undefined {
  const { metadata, spec } = resource;
  const { exposure, edge } = spec;
  const type = exposure.type;
  if (type === "None" || type === "HostPort") return undefined;
  const { annotations, externalTrafficPolicy, loadBalancerClass, loadBalancerSourceRanges } = exposure;
  const nodePort = exposure.nodePort === undefined ? {} : { nodePort: exposure.nodePort + ordinal };
  const base = childMetadata(resource, edgeServiceName(metadata.name, ordinal), ordinal);
  return {
    apiVersion: apiVersionOf(KINDS.Service),
    kind: KINDS.Service.kind,
    metadata: annotations === undefined ? base : { ...base, annotations },
    spec: {
      type,
      selector: selectorLabels(metadata.name, ordinal),
      ports: [{ name: "edge", port: exposure.port ?? edge.port, targetPort: "edge", protocol: "TCP", ...nodePort }],
      ...(externalTrafficPolicy === undefined ? {} : { externalTrafficPolicy }),
      ...(loadBalancerClass === undefined ? {} : { loadBalancerClass }),
      ...(loadBalancerSourceRanges === undefined ? {} : { loadBalancerSourceRanges }),
    },
  } as KubeObject;
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
