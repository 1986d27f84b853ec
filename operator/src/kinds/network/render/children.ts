import { isIP } from "node:net";
import type { ManagedNetwork, NetworkResource } from "@sallyport/resources";
import { KINDS, type KubeObject, objectOf } from "../../../kube/kinds.ts";
import { advertisedAddress, replicaHostname, replicaNodePort, servicePort } from "./address.ts";
import { childNames, keptMetadata, ownedMetadata, selectorLabels } from "./names.ts";
import { replicaName } from "./replicas.ts";

/** The objects of a managed Network, each the whole of what the operator wants of it. */

/** @param files texts by their names */
export function renderConfigMap(resource: NetworkResource, files: Readonly<Record<string, string>>): KubeObject {
  return objectOf(KINDS.ConfigMap, ownedMetadata(resource, childNames(resource).controller), { data: files });
}

/** What clients of the network trust, for workloads in the cluster. */
export function renderCaBundle(resource: NetworkResource, bundle: string): KubeObject {
  return objectOf(KINDS.ConfigMap, ownedMetadata(resource, childNames(resource).ca), { data: { "ca.crt": bundle } });
}

/** The Service of all controllers: clients reach one of those that are ready. */
export function renderService(resource: NetworkResource, managed: ManagedNetwork): KubeObject {
  const { annotations, nodePort } = managed.exposure;
  const metadata = ownedMetadata(resource, childNames(resource).controller);
  return objectOf(KINDS.Service, annotations === undefined ? metadata : { ...metadata, annotations }, {
    spec: { ...exposed(managed, nodePort), selector: selectorLabels(resource) },
  });
}

/** The Service of one of several controllers: routers reach it also while it is not ready for clients. */
export function renderReplicaService(resource: NetworkResource, managed: ManagedNetwork, ordinal: number): KubeObject {
  const name = replicaName(resource, ordinal);
  const annotations = replicaAnnotations(resource, managed, ordinal);
  const metadata = ownedMetadata(resource, name);
  return objectOf(KINDS.Service, annotations === undefined ? metadata : { ...metadata, annotations }, {
    spec: {
      ...exposed(managed, replicaNodePort(managed, ordinal)),
      selector: { ...selectorLabels(resource), "statefulset.kubernetes.io/pod-name": name },
      publishNotReadyAddresses: true,
    },
  });
}

function exposed(managed: ManagedNetwork, nodePort: number | undefined) {
  const { type, externalTrafficPolicy, loadBalancerClass, loadBalancerSourceRanges } = managed.exposure;
  const port = { name: "api", port: servicePort(managed), targetPort: "api", protocol: "TCP", nodePort };
  return { type, ports: [port], externalTrafficPolicy, loadBalancerClass, loadBalancerSourceRanges };
}

/** Those of the spec, with the controller's own name where the shared one stands, such as for external-dns. */
function replicaAnnotations(resource: NetworkResource, managed: ManagedNetwork, ordinal: number) {
  const { annotations, hostname } = managed.exposure;
  const own = replicaHostname(resource, managed, ordinal);
  if (annotations === undefined || hostname === undefined || own === undefined) return annotations;
  const shared = advertisedAddress(resource, managed, undefined);
  const name = "address" in shared ? shared.address.host : hostname;
  const entries = Object.entries(annotations).map(([key, value]) => [key, value === name ? own : value]);
  return Object.fromEntries(entries) as Readonly<Record<string, string>>;
}

/** Keeps drains of nodes from stopping several controllers at once; with one it would only be in the way. */
export function renderDisruptionBudget(
  resource: NetworkResource,
  { replicas }: ManagedNetwork,
): KubeObject | undefined {
  if (replicas < 2) return undefined;
  return objectOf(KINDS.PodDisruptionBudget, ownedMetadata(resource, childNames(resource).controller), {
    spec: {
      maxUnavailable: 1,
      // A controller that is not ready serves no client: it must not keep a node from being drained.
      unhealthyPodEvictionPolicy: "AlwaysAllow",
      selector: { matchLabels: selectorLabels(resource) },
    },
  });
}

/**
 * The volume of the embedded database. It has no owner: what becomes of it is decided by `spec.managed.retention` alone.
 * @param size of the volume, where it is not that of the spec
 */
export function renderClaim(
  resource: NetworkResource,
  { database }: ManagedNetwork,
  size = database.embedded?.size,
): KubeObject | undefined {
  const { embedded } = database;
  if (embedded === undefined) return undefined;
  const { storageClassName } = embedded;
  return objectOf(KINDS.PersistentVolumeClaim, keptMetadata(resource, childNames(resource).data), {
    spec: {
      accessModes: ["ReadWriteOnce"],
      resources: { requests: { storage: size } },
      storageClassName,
    },
  });
}

/** The request to cert-manager for the certificate of the API. */
export function renderCertificate(
  resource: NetworkResource,
  { certificates }: ManagedNetwork,
  host: string,
): KubeObject | undefined {
  const issuer = certificates?.issuerRef;
  if (issuer === undefined) return undefined;
  const { certificate } = childNames(resource);
  const { name, kind, group } = issuer;
  return objectOf(KINDS.Certificate, ownedMetadata(resource, certificate), {
    spec: {
      secretName: certificate,
      ...(isIP(host) === 0 ? { dnsNames: [host] } : { ipAddresses: [host] }),
      issuerRef: { name, kind, group: group ?? KINDS.Certificate.group },
      // Enrollment tokens are signed with this key: a new one would have outstanding tokens issued again.
      privateKey: { algorithm: "ECDSA", size: 256, rotationPolicy: "Never" },
      usages: ["digital signature", "server auth"],
    },
  });
}
