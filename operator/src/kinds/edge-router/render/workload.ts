import { ANNOTATIONS, type EdgeRouterSpec } from "@sallyport/resources";
import { mergePatch } from "../../../children/json-value.ts";
import { KEPT_ANNOTATIONS } from "../../../children/owner-marks.ts";
import { spreadOf } from "../../../children/spread.ts";
import { KINDS, type KubeObject, objectOf } from "../../../kube/kinds.ts";
import { hostnameOf } from "./address.ts";
import {
  CONFIG_FILE,
  CONFIG_KEY,
  CONTAINERS,
  childMetadata,
  claimLabels,
  configMapName,
  enrollmentName,
  healthPort,
  labelsOf,
  offeredPorts,
  PATHS,
  type RenderedResource,
  routerName,
  selectorLabels,
  TOKEN_FILE,
  TOKEN_KEY,
  VOLUMES,
  workloadSelector,
} from "./names.ts";

/** Default requests and limits of a router. Quotas and autoscalers require both CPU and memory. */
const DEFAULT_RESOURCES = { requests: { cpu: "100m", memory: "128Mi" }, limits: { cpu: "2", memory: "1Gi" } } as const;

/** What the pod of one router is made from, besides the spec. */
export interface WorkloadInput {
  readonly ordinal: number;
  /** Id of the router in the network: a volume of another router is enrolled again. */
  readonly id: string;
  readonly configHash: string;
  readonly image: string;
  /** The controllers of the file count, not those of the token. */
  readonly areControllersChosen: boolean;
  /** Last value of the annotation that asks for a restart. */
  readonly restart: string | undefined;
  /** What can't be changed of the StatefulSet that exists, where it is not as a new one would be made. */
  readonly made?: MadeParts;
}

interface MadeParts {
  readonly selector?: Readonly<Record<string, string>> | undefined;
  readonly claimSize?: string | undefined;
  readonly claimMetadata?: object | undefined;
}

/** User and group of the images. */
const USER = 65_532;
/** Beyond the time to drain: what the router itself takes to stop. */
const STOP_SECONDS = 15;

export function configMap(resource: RenderedResource, ordinal: number, text: string): KubeObject {
  const metadata = childMetadata(resource, configMapName(resource.metadata.name, ordinal), ordinal);
  return objectOf(KINDS.ConfigMap, metadata, { data: { [CONFIG_KEY]: text } });
}

/** The token that makes a pod the router; it is there only until it is used. */
export function enrollmentSecret(resource: RenderedResource, ordinal: number, jwt: string): KubeObject {
  const metadata = childMetadata(resource, enrollmentName(resource.metadata.name, ordinal), ordinal);
  const data = { [TOKEN_KEY]: Buffer.from(jwt).toString("base64") };
  return objectOf(KINDS.Secret, metadata, { type: "Opaque", data });
}

/** One router: at most one pod, ever, with a volume of its own (docs/operator/edge-router.md, "Pods"). */
export function statefulSet(resource: RenderedResource, input: WorkloadInput): KubeObject {
  const { metadata } = resource;
  const { ordinal } = input;
  return objectOf(KINDS.StatefulSet, childMetadata(resource, routerName(metadata.name, ordinal), ordinal), {
    spec: {
      replicas: 1,
      serviceName: metadata.name,
      // With OrderedReady a pod that never became ready would not be replaced when its template is fixed.
      podManagementPolicy: "Parallel",
      revisionHistoryLimit: 3,
      updateStrategy: { type: "RollingUpdate" },
      persistentVolumeClaimRetentionPolicy: { whenDeleted: "Retain", whenScaled: "Retain" },
      selector: { matchLabels: input.made?.selector ?? workloadSelector(metadata.name, ordinal) },
      template: podTemplate(resource, input),
      volumeClaimTemplates: [claim(resource, input)],
    },
  });
}

function claim({ metadata, spec }: RenderedResource, { ordinal, made = {} }: WorkloadInput) {
  const { size, storageClassName, accessModes } = spec.storage;
  return {
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: made.claimMetadata ?? {
      name: VOLUMES.data,
      labels: claimLabels(metadata.name, ordinal),
      annotations: KEPT_ANNOTATIONS,
    },
    spec: {
      accessModes: accessModes.toSorted(),
      storageClassName,
      resources: { requests: { storage: made.claimSize ?? size } },
    },
  };
}

function podTemplate(resource: RenderedResource, input: WorkloadInput) {
  const { metadata, spec } = resource;
  const { metadata: given = {}, spec: pod = {} } = spec.template ?? {};
  const { env, volumes, volumeMounts, containers, initContainers, resources, securityContext, ...rest } = pod;
  const { affinity, topologySpreadConstraints, serviceAccountName, ...scheduling } = rest;
  const spread = spreadOf(selectorLabels(metadata.name));
  return {
    metadata: {
      labels: { ...given.labels, ...labelsOf(metadata.name, input.ordinal) },
      annotations: {
        ...given.annotations,
        [ANNOTATIONS.configHash]: input.configHash,
        ...(input.restart !== undefined && { [ANNOTATIONS.restart]: input.restart }),
      },
    },
    spec: {
      // A pod in the node's network would else ask the node's resolver, which knows no Service.
      dnsPolicy: scheduling.hostNetwork === true ? "ClusterFirstWithHostNet" : undefined,
      ...scheduling,
      affinity: affinity ?? spread.affinity,
      topologySpreadConstraints: topologySpreadConstraints ?? spread.topologySpreadConstraints,
      serviceAccountName: serviceAccountName ?? metadata.name,
      automountServiceAccountToken: false,
      // Variables of all Services of the namespace would only fill the environment.
      enableServiceLinks: false,
      terminationGracePeriodSeconds: spec.drainSeconds + STOP_SECONDS,
      imagePullSecrets: spec.imagePullSecrets,
      securityContext: mergePatch(podSecurity(spec), securityContext ?? {}),
      initContainers: [...(initContainers ?? []), enrollContainer(resource, input)],
      containers: [routerContainer(resource, input), ...(containers ?? [])],
      volumes: [
        { name: VOLUMES.config, configMap: { name: configMapName(metadata.name, input.ordinal) } },
        {
          name: VOLUMES.token,
          secret: {
            secretName: enrollmentName(metadata.name, input.ordinal),
            optional: true,
            defaultMode: 0o440,
            items: [{ key: TOKEN_KEY, path: TOKEN_KEY }],
          },
        },
        { name: VOLUMES.temporary, emptyDir: {} },
        ...(volumes ?? []),
      ],
    },
  };
}

const intercepts = ({ tunneler }: EdgeRouterSpec): boolean => tunneler.enabled && tunneler.mode === "tproxy";

function podSecurity(spec: EdgeRouterSpec) {
  return {
    // Capabilities reach no process of another user.
    ...(intercepts(spec)
      ? { runAsNonRoot: false, runAsUser: 0, runAsGroup: 0 }
      : { runAsNonRoot: true, runAsUser: USER, runAsGroup: USER }),
    fsGroup: USER,
    // A handful of files, which are to stay readable when the user changes with the mode of the tunneler.
    fsGroupChangePolicy: "Always",
    seccompProfile: { type: "RuntimeDefault" },
  };
}

function containerSecurity(add?: readonly string[]) {
  return { allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: { drop: ["ALL"], add } };
}

/** What both of our containers have. */
function ownContainer({ metadata, spec }: RenderedResource, input: WorkloadInput) {
  const needsNode = spec.exposure.type === "HostPort" && hostnameOf({ kind: "", metadata, spec }, 0) === undefined;
  const node = { name: "HOST_IP", valueFrom: { fieldRef: { apiVersion: "v1", fieldPath: "status.hostIP" } } };
  return {
    image: input.image,
    imagePullPolicy: spec.imagePullPolicy ?? "IfNotPresent",
    // One after the other they need no more than one of them.
    resources: spec.template?.spec?.resources ?? DEFAULT_RESOURCES,
    // What it said last is in the status of the pod, and from there in ours.
    terminationMessagePolicy: "FallbackToLogsOnError",
    env: needsNode ? [node] : undefined,
  };
}

const OWN_MOUNTS = [
  { name: VOLUMES.data, mountPath: PATHS.data },
  { name: VOLUMES.config, mountPath: PATHS.config, readOnly: true },
  { name: VOLUMES.temporary, mountPath: PATHS.temporary },
];

function enrollContainer(resource: RenderedResource, input: WorkloadInput) {
  const chosen = input.areControllersChosen ? ["--configured-endpoints"] : [];
  return {
    name: CONTAINERS.enroll,
    ...ownContainer(resource, input),
    args: ["enroll", CONFIG_FILE, "--if-needed", "--jwt", TOKEN_FILE, "--expect-id", input.id, ...chosen],
    securityContext: containerSecurity(),
    volumeMounts: [...OWN_MOUNTS, { name: VOLUMES.token, mountPath: PATHS.token, readOnly: true }],
  };
}

function routerContainer(resource: RenderedResource, input: WorkloadInput) {
  const { spec } = resource;
  const { env, volumeMounts } = spec.template?.spec ?? {};
  const own = ownContainer(resource, input);
  const { exposure, edge } = spec;
  const isMapped = exposure.type === "HostPort" && spec.template?.spec?.hostNetwork !== true;
  const hostPort = isMapped ? (exposure.port ?? edge.port) : undefined;
  const variables = [...(own.env ?? []), ...(env ?? [])];
  return {
    name: CONTAINERS.router,
    ...own,
    args: ["run", CONFIG_FILE],
    env: variables.length === 0 ? undefined : variables,
    ports: [
      { name: "edge", containerPort: edge.port, protocol: "TCP", hostPort },
      { name: "health", containerPort: healthPort(spec), protocol: "TCP" },
      ...offeredPorts(spec).map(({ port, protocol }) => ({ containerPort: port, protocol })),
    ],
    securityContext: containerSecurity(intercepts(spec) ? ["NET_ADMIN", "NET_BIND_SERVICE"] : undefined),
    startupProbe: { ...probe("live"), periodSeconds: 2, failureThreshold: 150 },
    // No controller is asked: an outage of it must not restart every router.
    livenessProbe: { ...probe("live"), periodSeconds: 10, failureThreshold: 6 },
    readinessProbe: { ...probe("ready"), periodSeconds: 5, failureThreshold: 2 },
    volumeMounts: [...OWN_MOUNTS, ...(volumeMounts ?? [])],
  };
}

const probe = (name: "live" | "ready") => ({
  httpGet: { path: `/health-checks/${name}`, port: "health", scheme: "HTTPS" },
  timeoutSeconds: 5,
});
