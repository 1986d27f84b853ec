import { ANNOTATIONS, type ManagedNetwork, type NetworkResource } from "@sallyport/resources";
import { mergePatch } from "../../../children/json-value.ts";
import { spreadOf } from "../../../children/spread.ts";
import { KINDS, type KubeObject, objectOf } from "../../../kube/kinds.ts";
import { childLabels, childNames, ownedMetadata, PATHS, selectorLabels, USER } from "./names.ts";
import { canBeSeveral, fileOf, HAS_ID, SHARED_FILE } from "./replicas.ts";

/** Default requests and limits of a controller. Quotas and autoscalers require both CPU and memory. */
const DEFAULT_RESOURCES = { requests: { cpu: "100m", memory: "256Mi" }, limits: { cpu: "2", memory: "1Gi" } } as const;

export interface PodInputs {
  /** Where `spec.managed.image` is absent. */
  readonly image: string;
  /** Changes when the controller has to be restarted. */
  readonly configHash: string;
  readonly hasCertificate: boolean;
  /** Pods that there are to be now; those of the spec where it is absent. */
  readonly replicas?: number;
  /** Each controller has an address of its own: there are several, or were. */
  readonly hasOwnAddress?: boolean;
  /** For so long a controller serves on after it was told to stop, milliseconds; 0 when absent. */
  readonly drainMs?: number;
}

type Json = Readonly<Record<string, unknown>>;

const CONTROLLER = "controller";
/** The name of the pod, in the arguments of its containers. */
const POD_NAME = "SALLYPORT_POD_NAME";
/** Routers and clients have so much time to find a controller again before the next one is stopped. */
const MIN_READY_SECONDS = 10;
/** After its drain the controller stops everything within 20 s, and its PostgreSQL after it. */
const STOP_SECONDS = 45;

const POD_SECURITY = {
  runAsNonRoot: true,
  runAsUser: USER,
  runAsGroup: USER,
  fsGroup: USER,
  fsGroupChangePolicy: "OnRootMismatch",
  seccompProfile: { type: "RuntimeDefault" },
};

export function renderStatefulSet(resource: NetworkResource, managed: ManagedNetwork, inputs: PodInputs): KubeObject {
  const name = childNames(resource).controller;
  return objectOf(KINDS.StatefulSet, ownedMetadata(resource, name), {
    spec: {
      replicas: inputs.replicas ?? managed.replicas,
      serviceName: name,
      // With the other policy a pod that never became ready is not replaced when its template is put right.
      podManagementPolicy: "Parallel",
      // One at a time, the last first.
      updateStrategy: { type: "RollingUpdate" },
      minReadySeconds: managed.replicas > 1 ? MIN_READY_SECONDS : undefined,
      selector: { matchLabels: selectorLabels(resource) },
      template: renderPod(resource, managed, inputs),
    },
  });
}

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
        ...(canBeSeveral(managed) && { [HAS_ID]: "true" }),
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
  const file = `${PATHS.config.folder}/${canBeSeveral(managed) ? fileOf(`$(${POD_NAME})`) : SHARED_FILE}`;
  const podName = canBeSeveral(managed)
    ? [{ name: POD_NAME, valueFrom: { fieldRef: { apiVersion: "v1", fieldPath: "metadata.name" } } }]
    : [];
  const main = {
    name: CONTROLLER,
    ...common,
    args: ["run", file],
    ports: [{ name: "api", containerPort: managed.port, protocol: "TCP" }],
    env: podName.length === 0 ? env : [...podName, ...(env ?? [])],
    volumeMounts: [...mounts, ...(volumeMounts ?? [])],
    ...probes(inputs),
  };
  const init = {
    name: "init",
    ...common,
    args: ["init", "--config", file, ...(managed.keyType === "rsa" ? ["--key-type", "rsa"] : [])],
    env: [
      ...podName,
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
    terminationGracePeriodSeconds: Math.ceil((inputs.drainMs ?? 0) / 1_000) + STOP_SECONDS,
    // A pod in the node's network would else ask the node's resolver, which knows no Service.
    dnsPolicy: fields.hostNetwork === true ? "ClusterFirstWithHostNet" : undefined,
    // Of a controller that is alone nothing is kept apart.
    ...(canBeSeveral(managed) && spreadOf(selectorLabels(resource))),
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

/**
 * The certificate isn't verified by the kubelet. The process answers, whatever is up with its database: restarting it would not help. One of several gets no
 * requests while it does not know what the others write, and when it stops.
 */
function probes({ hasOwnAddress }: PodInputs): Json {
  const httpGet = { path: "/version", port: "api", scheme: "HTTPS" };
  const ready =
    hasOwnAddress === true
      ? {
          httpGet: { ...httpGet, path: "/health-checks/ready" },
          periodSeconds: 3,
          timeoutSeconds: 5,
          failureThreshold: 2,
        }
      : { httpGet, periodSeconds: 5, timeoutSeconds: 5, failureThreshold: 3 };
  return {
    startupProbe: { httpGet, periodSeconds: 2, timeoutSeconds: 5, failureThreshold: 150 },
    readinessProbe: ready,
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
