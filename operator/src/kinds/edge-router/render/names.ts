import { type EdgeRouterResource, type EdgeRouterSpec, LABELS } from "@sallyport/resources";
import { INSTANCE, ownerLabels, ownerReference } from "../../../children/owner-marks.ts";
import type { KubeObject } from "../../../kube/kinds.ts";

/** Names, labels and paths of what an EdgeRouter is made of in the cluster (docs/operator/edge-router.md, "Objects"). */

/** The parts of an EdgeRouter that rendering looks at. */
export type RenderedResource = Pick<EdgeRouterResource, "kind" | "metadata" | "spec">;

/** Where things are in the pods; the images are made for these. */
export const PATHS = {
  /** The volume of a router: identity, addresses of controllers. */
  data: "/var/lib/sallyport",
  config: "/etc/sallyport",
  token: "/etc/sallyport-enrollment",
  temporary: "/tmp",
} as const;

export const CONFIG_KEY = "router.yml";
export const TOKEN_KEY = "enrollment.jwt";
export const CONFIG_FILE = `${PATHS.config}/${CONFIG_KEY}`;
export const TOKEN_FILE = `${PATHS.token}/${TOKEN_KEY}`;

export const CONTAINERS = { router: "router", enroll: "enroll" } as const;
export const VOLUMES = { data: "data", config: "config", token: "enrollment", temporary: "tmp" } as const;

/** Name of the objects of one router. */
export const routerName = (name: string, ordinal: number): string => `${name}-${ordinal}`;
export const configMapName = (name: string, ordinal: number): string => `${name}-${ordinal}-config`;
export const enrollmentName = (name: string, ordinal: number): string => `${name}-${ordinal}-enrollment`;
export const edgeServiceName = (name: string, ordinal: number): string => `${name}-${ordinal}-edge`;
export const podName = (name: string, ordinal: number): string => `${name}-${ordinal}-0`;
/** A StatefulSet names the claims of its pods so. */
export const claimName = (name: string, ordinal: number): string => `${VOLUMES.data}-${podName(name, ordinal)}`;
/** Those of all routers begin so. */
export const claimsPrefix = (name: string): string => `${VOLUMES.data}-${name}-`;

/** Name of a router in the network. */
export const entityName = ({ spec, metadata }: RenderedResource, ordinal: number): string =>
  `${spec.name ?? metadata.name}-${ordinal}`;

const NAME = { "app.kubernetes.io/name": "edge-router" };

const ordinalLabel = (ordinal: number | undefined): Record<string, string> =>
  ordinal === undefined ? {} : { [LABELS.ordinal]: String(ordinal) };

/** By these pods are selected. */
export const selectorLabels = (name: string, ordinal?: number): Record<string, string> => ({
  ...NAME,
  [INSTANCE]: name,
  ...ordinalLabel(ordinal),
});

/** The immutable selector of a StatefulSet. Kubernetes copies it to the claims, which have no owner, so it does without {@link INSTANCE}. */
export const workloadSelector = (name: string, ordinal: number): Record<string, string> => ({
  ...NAME,
  [LABELS.ownerName]: name,
  ...ordinalLabel(ordinal),
});

/** `status.selector`, the form of the scale subresource. */
export const selectorText = (name: string): string =>
  Object.entries(selectorLabels(name))
    .map(([key, value]) => `${key}=${value}`)
    .join(",");

/** Labels of a volume, which has no owner. */
export const claimLabels = (name: string, ordinal: number | undefined): Record<string, string> => ({
  ...NAME,
  ...ordinalLabel(ordinal),
  "app.kubernetes.io/component": "router",
  "app.kubernetes.io/part-of": "overlay",
  ...ownerLabels({ kind: "EdgeRouter", name }),
});

/** Labels of what is the EdgeRouter's, and of the pods. */
export const labelsOf = (name: string, ordinal?: number): Record<string, string> => ({
  ...claimLabels(name, ordinal),
  [INSTANCE]: name,
});

/** Which router an object belongs to; undefined for those of all routers. */
export function ordinalOf(object: Pick<KubeObject, "metadata">): number | undefined {
  const text = object.metadata.labels?.[LABELS.ordinal];
  return text !== undefined && /^\d{1,2}$/.test(text) ? Number(text) : undefined;
}

/** What the metadata of a child has. */
export function childMetadata(resource: RenderedResource, name: string, ordinal?: number) {
  const { metadata } = resource;
  const labels = labelsOf(metadata.name, ordinal);
  return { name, namespace: metadata.namespace, labels, ownerReferences: [ownerReference(resource)] };
}

/** Port of the probes and of the metrics. */
export const healthPort = (spec: EdgeRouterSpec): number => (spec.edge.port === 8081 ? 8082 : 8081);

interface OfferedPort {
  readonly protocol: "TCP" | "UDP";
  readonly port: number;
}

/** Ports on which the tunneler offers services, in the order of their texts. */
export function offeredPorts({ tunneler }: EdgeRouterSpec): OfferedPort[] {
  const texts = tunneler.enabled && tunneler.mode === "proxy" ? (tunneler.proxyServices ?? []) : [];
  return texts.toSorted().map(offeredPort);
}

/** Of `<service>:<port>` or `<service>:<port>:udp`. */
export function offeredPort(text: string): OfferedPort {
  const [, port, protocol] = /:(\d{1,5})(?::(tcp|udp))?$/.exec(text) ?? [];
  return { protocol: protocol === "udp" ? "UDP" : "TCP", port: Number(port) };
}
