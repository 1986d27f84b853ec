import { amount, choice, flag, freeForm, integer, list, mapOf, openStruct, quantity, struct, text } from "./bounded.ts";
import { type CelRule, immutable, keeps } from "./cel.ts";
import { nameRef, objectName } from "./references.ts";

const value = (what: string, max = 4096) => text(what, { max });

const amounts = (description: string) => mapOf(description, amount("An amount, such as 500m or 256Mi."), { max: 16 });

const toleration = struct("One toleration.", {
  key: value("Key of the taint. Default with operator Exists: all keys.", 316).optional(),
  operator: choice("Equal compares the value, Exists does not.", ["Equal", "Exists"]).optional(),
  value: value("Value of the taint.", 63).optional(),
  effect: choice("Effect of the taint. Default: all.", ["NoSchedule", "PreferNoSchedule", "NoExecute"]).optional(),
  tolerationSeconds: integer("How long a NoExecute taint is tolerated.").optional(),
});

const container = (description: string) =>
  openStruct(description, { name: text("Name of the container.", { min: 1, max: 63 }) });

/** What a user may add to the pods that the operator makes. */
export const podTemplate = struct("Additions to the pods.", {
  metadata: struct("Labels and annotations of the pods.", {
    labels: mapOf("Labels; those of the operator take precedence.", value("Value of the label.", 63), {
      max: 64,
    }).optional(),
    annotations: mapOf(
      "Annotations; those of the operator take precedence.",
      value("Value of the annotation.", 16_384),
      {
        max: 64,
      },
    ).optional(),
  }).optional(),
  spec: struct("Fields of the pods, as in a Deployment's template.", {
    nodeSelector: mapOf("Labels of nodes that the pods may run on.", value("Value of the label.", 63), {
      max: 64,
    }).optional(),
    tolerations: list("Taints of nodes that the pods tolerate.", toleration, { type: "atomic", max: 64 }).optional(),
    affinity: freeForm("Affinity, as in a pod. Default: routers prefer different nodes.", {
      max: 3,
    }).optional(),
    topologySpreadConstraints: list(
      "How pods are spread, as in a pod. Default: a soft spread over zones and nodes.",
      freeForm("One constraint.", { max: 16 }),
      { type: "atomic", max: 16 },
    ).optional(),
    resources: struct(
      "Resources of the program's container and of the operator's init container. They replace all defaults. Default: requests of 100m and 128Mi for a router, 256Mi for a controller, limits of 2 CPUs and 1Gi.",
      {
        requests: amounts("Resource requests.").optional(),
        limits: amounts("Resource limits.").optional(),
      },
    ).optional(),
    priorityClassName: objectName("Priority class of the pods.").optional(),
    runtimeClassName: objectName("Runtime class of the pods.").optional(),
    serviceAccountName: objectName("Service account of the pods. Default: one without rights.").optional(),
    hostNetwork: flag("Whether pods use the network of their node.").optional(),
    dnsPolicy: choice("DNS policy of the pods.", [
      "ClusterFirst",
      "ClusterFirstWithHostNet",
      "Default",
      "None",
    ]).optional(),
    dnsConfig: freeForm("DNS settings of the pods, as in a pod.", { max: 3 }).optional(),
    hostAliases: list(
      "Names that pods resolve without DNS, such as a controller with another address inside the cluster.",
      struct("Names of one address.", {
        ip: text("The address.", { min: 2, max: 45 }),
        hostnames: list("The names.", text("One name.", { min: 1, max: 253 }), { type: "set", min: 1, max: 64 }),
      }),
      { type: "map", keys: ["ip"], max: 64 },
    ).optional(),
    securityContext: freeForm(
      "Security context of the pods, merged into the operator's. A null removes a field, so that the platform decides: runAsUser, runAsGroup and fsGroup on OpenShift. Only server-side apply keeps a null.",
      {
        max: 32,
      },
    ).optional(),
    env: list(
      "Environment variables of the program's container.",
      struct("One variable.", {
        name: text("Its name.", { min: 1, max: 253 }),
        value: value("Its value.").optional(),
        valueFrom: freeForm("Source of its value, as in a pod.", { max: 1 }).optional(),
      }),
      { type: "map", keys: ["name"], max: 128 },
    ).optional(),
    volumes: list(
      "Additional volumes, as in a pod.",
      openStruct("One volume.", { name: text("Its name.", { min: 1, max: 63 }) }),
      { type: "map", keys: ["name"], max: 64 },
    ).optional(),
    volumeMounts: list(
      "Volume mounts of the program's container, as in a pod.",
      openStruct("One mount.", {
        name: text("Name of the volume.", { min: 1, max: 63 }),
        mountPath: text("Mount path.", { min: 1, max: 1024 }),
      }),
      { type: "map", keys: ["mountPath"], max: 64 },
    ).optional(),
    containers: list("Additional containers, as in a pod.", container("One container."), {
      type: "map",
      keys: ["name"],
      max: 16,
    }).optional(),
    initContainers: list("Additional init containers, as in a pod.", container("One container."), {
      type: "map",
      keys: ["name"],
      max: 16,
    }).optional(),
  }).optional(),
});

/** The image of a workload's containers. */
export const imageFields = {
  image: text("Image of the containers. Default: the image of this release of the operator.", {
    min: 1,
    max: 512,
  }).optional(),
  imagePullPolicy: choice("When the nodes pull the image.", ["Always", "IfNotPresent", "Never"]).optional(),
  imagePullSecrets: list("Secrets with credentials for the image's registry.", nameRef("One Secret.", "the Secret"), {
    type: "map",
    keys: ["name"],
    max: 16,
  }).optional(),
};

const GROWS: CelRule = {
  rule: "quantity(self).compareTo(quantity(oldSelf)) >= 0",
  message: "a volume can grow, not shrink",
};

/** Size of a volume: it may only grow. */
export const volumeSize = (description: string) => quantity(description, { rules: [GROWS] });

export const storageClassName = objectName(
  "Storage class of the volumes. Default: that of the cluster. Immutable.",
).optional();

export const retention = (description: string) => choice(description, ["Delete", "Retain"]);

/** The volume of a router: its identity and what it has learned. */
export const storage = struct(
  "The volume of each router, for its identity and the learned addresses of controllers.",
  {
    size: volumeSize("Size of the volume; it may only grow.").default("50Mi"),
    storageClassName,
    accessModes: list(
      "How nodes may mount it. Immutable.",
      choice("One way.", ["ReadWriteOnce", "ReadWriteOncePod", "ReadWriteMany"]),
      { type: "set", min: 1, max: 3, rules: [immutable("accessModes")] },
    ).default(["ReadWriteOnce"]),
    retention: retention(
      "Whether volumes are deleted with their routers, or stay. With deletionPolicy Orphan they stay.",
    ).default("Delete"),
  },
  [keeps("storageClassName")],
);

export const enabled = (description: string, standard: boolean) => flag(description).default(standard);
