import { isIP } from "node:net";
import { apiVersionOf, KINDS, type KubeObject } from "../../../kube/kinds.ts";
import type { ManagedNetwork, NetworkResource } from "../schema.ts";
import { servicePort } from "./address.ts";
import { childNames, keptMetadata, ownedMetadata, selectorLabels } from "./names.ts";
import { type PodInputs, renderPod } from "./pod.ts";

/** The objects of a managed Network, each the whole of what the operator wants of it. */

export function renderConfigMap(resource: NetworkResource, text: string): KubeObject {
  return object(KINDS.ConfigMap, ownedMetadata(resource, childNames(resource).controller), {
    data: { "controller.yml": text },
  });
}

/** What clients of the network trust, for whoever needs it in the cluster. */
export function renderCaBundle(resource: NetworkResource, bundle: string): KubeObject {
  return object(KINDS.ConfigMap, ownedMetadata(resource, childNames(resource).ca), { data: { "ca.crt": bundle } });
}

export function renderService(resource: NetworkResource, managed: ManagedNetwork): KubeObject {
  const { exposure } = managed;
  const { nodePort, annotations, externalTrafficPolicy, loadBalancerClass, loadBalancerSourceRanges } = exposure;
  const metadata = ownedMetadata(resource, childNames(resource).controller);
  const port = {
    name: "api",
    port: servicePort(managed),
    targetPort: "api",
    protocol: "TCP",
    ...(nodePort === undefined ? {} : { nodePort }),
  };
  return object(KINDS.Service, annotations === undefined ? metadata : { ...metadata, annotations }, {
    spec: {
      type: exposure.type,
      selector: selectorLabels(resource),
      ports: [port],
      ...(externalTrafficPolicy === undefined ? {} : { externalTrafficPolicy }),
      ...(loadBalancerClass === undefined ? {} : { loadBalancerClass }),
      ...(loadBalancerSourceRanges === undefined ? {} : { loadBalancerSourceRanges }),
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
  return object(KINDS.PersistentVolumeClaim, keptMetadata(resource, childNames(resource).data), {
    spec: {
      accessModes: ["ReadWriteOnce"],
      resources: { requests: { storage: size } },
      ...(storageClassName === undefined ? {} : { storageClassName }),
    },
  });
}

export function renderStatefulSet(resource: NetworkResource, managed: ManagedNetwork, inputs: PodInputs): KubeObject {
  const name = childNames(resource).controller;
  return object(KINDS.StatefulSet, ownedMetadata(resource, name), {
    spec: {
      replicas: managed.replicas,
      serviceName: name,
      // With the other policy a pod that never became ready is not replaced when its template is put right.
      podManagementPolicy: "Parallel",
      updateStrategy: { type: "RollingUpdate" },
      selector: { matchLabels: selectorLabels(resource) },
      template: renderPod(resource, managed, inputs),
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
  return object(KINDS.Certificate, ownedMetadata(resource, certificate), {
    spec: {
      secretName: certificate,
      ...(isAddress(host) ? { ipAddresses: [host] } : { dnsNames: [host] }),
      issuerRef: { name, kind, group: group ?? KINDS.Certificate.group },
      // Enrollment tokens are signed with this key: a new one would have outstanding tokens issued anew.
      privateKey: { algorithm: "ECDSA", size: 256, rotationPolicy: "Never" },
      usages: ["digital signature", "server auth"],
    },
  });
}

const isAddress = (host: string): boolean => isIP(host) !== 0;

function object(
  kind: Parameters<typeof apiVersionOf>[0],
  metadata: KubeObject["metadata"],
  fields: object,
): KubeObject {
  return { apiVersion: apiVersionOf(kind), kind: kind.kind, metadata, ...fields };
}
