import { isIP } from "node:net";
import { ANNOTATIONS, type ManagedNetwork, type NetworkResource } from "@sallyport/resources";
import { mergePatch } from "../../../children/json-value.ts";
import { KINDS, type KubeObject, objectOf } from "../../../kube/kinds.ts";
import {
  childLabels,
  childNames,
  keptMetadata,
  ownedMetadata,
  PATHS,
  selectorLabels,
  servicePort,
  USER,
} from "./names.ts";

/** The objects of a managed Network, each the whole of what the operator wants of it. */

export function renderConfigMap(resource: NetworkResource, text: string): KubeObject {
  return objectOf(KINDS.ConfigMap, ownedMetadata(resource, childNames(resource).controller), {
    data: { "controller.yml": text },
  });
}

/** What clients of the network trust, for workloads in the cluster. */
export function renderCaBundle(resource: NetworkResource, bundle: string): KubeObject {
  return objectOf(KINDS.ConfigMap, ownedMetadata(resource, childNames(resource).ca), { data: { "ca.crt": bundle } });
}

export function renderService(resource: NetworkResource, managed: ManagedNetwork): KubeObject {
  const { exposure } = managed;
  const { nodePort, annotations, externalTrafficPolicy, loadBalancerClass, loadBalancerSourceRanges } = exposure;
  const metadata = ownedMetadata(resource, childNames(resource).controller);
  const port = { name: "api", port: servicePort(managed), targetPort: "api", protocol: "TCP", nodePort };
  return objectOf(KINDS.Service, annotations === undefined ? metadata : { ...metadata, annotations }, {
    spec: {
      type: exposure.type,
      selector: selectorLabels(resource),
      ports: [port],
      externalTrafficPolicy,
      loadBalancerClass,
      loadBalancerSourceRanges,
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

export function renderStatefulSet(resource: NetworkResource, managed: ManagedNetwork, inputs: PodInputs): KubeObject {
  const name = childNames(resource).controller;
  return objectOf(KINDS.StatefulSet, ownedMetadata(resource, name), {
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

/** Default requests and limits of a controller. Quotas and autoscalers require both CPU and memory. */
const DEFAULT_RESOURCES = { requests: { cpu: "100m", memory: "256Mi" }, limits: { cpu: "2", memory: "1Gi" } } as const;

interface PodInputs {
  /** Where `spec.managed.image` is absent. */
  readonly image: string;
  /** Changes when the controller has to be restarted. */
  readonly configHash: string;
  readonly hasCertificate: boolean;
}

type Json = Readonly<Record<string, unknown>>;

const CONTROLLER = "controller";
/** The controller stops everything within 20 s, and its PostgreSQL after it. */
const GRACE_SECONDS = 45;

const POD_SECURITY = {
  runAsNonRoot: true,
  runAsUser: USER,
  runAsGroup: USER,
  fsGroup: USER,
  fsGroupChangePolicy: "OnRootMismatch",
  seccompProfile: { type: "RuntimeDefault" },
};

/** The pod of a managed controller. */
function renderPod(resource: NetworkResource, managed: ManagedNetwork, inputs: PodInputs): Json {
  const { labels, annotations } = managed.template?.metadata ?? {};
  const restart = resource.metadata.annotations?.[ANNOTATIONS.restart];
  return {
    metadata: {
      labels: { ...labels, ...childLabels(resource) },
      annotations: {
        ...annotations,
        [ANNOTATIONS.configHash]: inputs.configHash,
        ...(restart !== undefined && { [ANNOTATIONS.restart]: restart }),
      },
    },
    spec: podSpec(resource, managed, inputs),
  };
}

function podSpec(resource: NetworkResource, managed: ManagedNetwork, inputs: PodInputs): Json {
  const { volumes = [], containers = [], initContainers = [], ...rest } = managed.template?.spec ?? {};
  const { env, volumeMounts, resources, securityContext, ...fields } = rest as Json & {
    readonly env?: readonly Json[];
    readonly volumeMounts?: readonly Json[];
    readonly resources?: Json;
    readonly securityContext?: Json;
  };
  const common = {
    image: managed.image ?? inputs.image,
    imagePullPolicy: managed.imagePullPolicy,
    securityContext: {
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ["ALL"] },
    },
    resources: resources ?? DEFAULT_RESOURCES,
    // What it said last is in the status of the pod, and from there in ours.
    terminationMessagePolicy: "FallbackToLogsOnError",
  };
  const mounts = mountsOf(managed, inputs);
  const main = {
    name: CONTROLLER,
    ...common,
    args: ["run", PATHS.config.file],
    ports: [{ name: "api", containerPort: managed.port, protocol: "TCP" }],
    env,
    volumeMounts: [...mounts, ...(volumeMounts ?? [])],
    ...probes(),
  };
  const init = {
    name: "init",
    ...common,
    args: ["init", "--config", PATHS.config.file, ...(managed.keyType === "rsa" ? ["--key-type", "rsa"] : [])],
    env: [
      { name: "SALLYPORT_ADMIN_USERNAME_FILE", value: PATHS.admin.username },
      { name: "SALLYPORT_ADMIN_PASSWORD_FILE", value: PATHS.admin.password },
      ...(env ?? []),
    ],
    volumeMounts: [
      ...mounts,
      { name: "admin", mountPath: PATHS.admin.folder, readOnly: true },
      ...(volumeMounts ?? []),
    ],
  };
  return {
    terminationGracePeriodSeconds: GRACE_SECONDS,
    // A pod in the node's network would else ask the node's resolver, which knows no Service.
    dnsPolicy: fields.hostNetwork === true ? "ClusterFirstWithHostNet" : undefined,
    ...fields,
    automountServiceAccountToken: false,
    enableServiceLinks: false,
    imagePullSecrets: managed.imagePullSecrets,
    securityContext: mergePatch(POD_SECURITY, securityContext ?? {}),
    initContainers: [...initContainers, init],
    containers: [main, ...containers],
    volumes: [...volumesOf(resource, managed, inputs), ...volumes],
  };
}

/** The certificate isn't verified by the kubelet; the process answers, whatever is up with its database: restarting it would not help. */
function probes(): Json {
  const httpGet = { path: "/version", port: "api", scheme: "HTTPS" };
  return {
    startupProbe: { httpGet, periodSeconds: 2, timeoutSeconds: 5, failureThreshold: 150 },
    readinessProbe: { httpGet, periodSeconds: 5, timeoutSeconds: 5, failureThreshold: 3 },
    livenessProbe: { httpGet, periodSeconds: 10, timeoutSeconds: 10, failureThreshold: 6 },
  };
}

function mountsOf({ database }: ManagedNetwork, { hasCertificate }: PodInputs): Json[] {
  const readOnly = (name: string, mountPath: string): Json => ({ name, mountPath, readOnly: true });
  return [
    readOnly("config", PATHS.config.folder),
    readOnly("key", PATHS.key.folder),
    ...(database.urlSecretRef === undefined ? [] : [readOnly("database-url", PATHS.database.folder)]),
    ...(hasCertificate ? [readOnly("certificate", PATHS.certificate.folder)] : []),
    { name: "data", mountPath: PATHS.data.folder },
    { name: "tmp", mountPath: "/tmp" },
  ];
}

function volumesOf(resource: NetworkResource, { database }: ManagedNetwork, { hasCertificate }: PodInputs): Json[] {
  const names = childNames(resource);
  // For the owner and the group, which is that of the pod.
  const secret = (name: string, secretName: string, items?: readonly Json[]): Json => ({
    name,
    secret: { secretName, defaultMode: 0o440, items },
  });
  const { urlSecretRef } = database;
  return [
    { name: "config", configMap: { name: names.controller } },
    secret("key", names.key),
    // The network works without the Secret of the first password, too.
    { name: "admin", secret: { secretName: names.admin, defaultMode: 0o440, optional: true } },
    ...(urlSecretRef === undefined
      ? [{ name: "data", persistentVolumeClaim: { claimName: names.data } }]
      : [
          secret("database-url", urlSecretRef.name, [{ key: urlSecretRef.key, path: "url" }]),
          { name: "data", emptyDir: {} },
        ]),
    ...(hasCertificate ? [secret("certificate", names.certificate)] : []),
    { name: "tmp", emptyDir: {} },
  ];
}
