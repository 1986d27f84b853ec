import { amount, choice, flag, freeForm, integer, list, mapOf, openStruct, quantity, struct, text } from "./bounded.ts";
import { type CelRule, immutable, keeps } from "./cel.ts";
import { nameRef, objectName } from "./object-reference.ts";

const value = (what: string, max = 4096) => text(what, { max });

const amounts = (description: string) => mapOf(description, amount("An amount, such as 500m or 256Mi."), { max: 16 });

const toleration = struct("One toleration.", {
  key: value("Key of the taint; left out with operator Exists: all keys.", 316).optional(),
  operator: choice("Equal compares the value, Exists doesn't.", ["Equal", "Exists"]).optional(),
  value: value("Value of the taint.", 63).optional(),
  effect: choice("Effect of the taint; all when left out.", ["NoSchedule", "PreferNoSchedule", "NoExecute"]).optional(),
  tolerationSeconds: integer("For how long a NoExecute taint is tolerated.").optional(),
});

const container = (description: string) =>
  openStruct(description, { name: text("Name of the container.", { min: 1, max: 63 }) });

/** What a user may add to the pods that the operator makes. */
export const podTemplate = struct("What is added to the pods.", {
  metadata: struct("Labels and annotations of the pods.", {
    labels: mapOf("Labels; those of the operator win.", value("Value of the label.", 63), { max: 64 }).optional(),
    annotations: mapOf("Annotations; those of the operator win.", value("Value of the annotation.", 16_384), {
      max: 64,
    }).optional(),
  }).optional(),
  spec: struct("Fields of the pods, as in a Deployment's template.", {
    nodeSelector: mapOf("Labels of the nodes that pods may run on.", value("Value of the label.", 63), {
      max: 64,
    }).optional(),
    tolerations: list("Taints of nodes that pods put up with.", toleration, { type: "atomic", max: 64 }).optional(),
    affinity: freeForm("Affinity of the pods, as in a pod; routers prefer different nodes when left out.", {
      max: 3,
    }).optional(),
    topologySpreadConstraints: list(
      "How pods are spread, as in a pod; a soft spread over zones and nodes when left out.",
      freeForm("One constraint.", { max: 16 }),
      { type: "atomic", max: 16 },
    ).optional(),
    resources: struct(
      "What the program's container, and the operator's own that runs before it, ask for and may use; when given, nothing of the standard is left. Standard: requests of 100m and 128Mi for a router, 256Mi for a controller, limits of 2 processors and 1Gi.",
      {
        requests: amounts("What is set aside for it.").optional(),
        limits: amounts("What it may use at most.").optional(),
      },
    ).optional(),
    priorityClassName: objectName("Priority class of the pods.").optional(),
    runtimeClassName: objectName("Runtime class of the pods.").optional(),
    serviceAccountName: objectName("Service account of the pods; one without rights when left out.").optional(),
    hostNetwork: flag("Whether pods use the network of their node.").optional(),
    dnsPolicy: choice("How pods find names.", [
      "ClusterFirst",
      "ClusterFirstWithHostNet",
      "Default",
      "None",
    ]).optional(),
    dnsConfig: freeForm("DNS settings of the pods, as in a pod.", { max: 3 }).optional(),
    hostAliases: list(
      "Names that pods know without DNS: for an address of the controller that differs inside the cluster.",
      struct("Names of one address.", {
        ip: text("The address.", { min: 2, max: 45 }),
        hostnames: list("The names.", text("One name.", { min: 1, max: 253 }), { type: "set", min: 1, max: 64 }),
      }),
      { type: "map", keys: ["ip"], max: 64 },
    ).optional(),
    securityContext: freeForm(
      "Security context of the pods, laid over the operator's own, as in a pod; null takes a field away, so that the platform decides: runAsUser, runAsGroup and fsGroup on OpenShift. A null arrives by server-side apply only.",
      {
        max: 32,
      },
    ).optional(),
    env: list(
      "Environment of the program's container.",
      struct("One variable.", {
        name: text("Its name.", { min: 1, max: 253 }),
        value: value("Its value.").optional(),
        valueFrom: freeForm("Where its value is taken from, as in a pod.", { max: 1 }).optional(),
      }),
      { type: "map", keys: ["name"], max: 128 },
    ).optional(),
    volumes: list(
      "Further volumes, as in a pod.",
      openStruct("One volume.", { name: text("Its name.", { min: 1, max: 63 }) }),
      { type: "map", keys: ["name"], max: 64 },
    ).optional(),
    volumeMounts: list(
      "Where they are mounted in the program's container, as in a pod.",
      openStruct("One mount.", {
        name: text("Name of the volume.", { min: 1, max: 63 }),
        mountPath: text("Where it is mounted.", { min: 1, max: 1024 }),
      }),
      { type: "map", keys: ["mountPath"], max: 64 },
    ).optional(),
    containers: list("Further containers, as in a pod.", container("One container."), {
      type: "map",
      keys: ["name"],
      max: 16,
    }).optional(),
    initContainers: list("Further containers that run before, as in a pod.", container("One container."), {
      type: "map",
      keys: ["name"],
      max: 16,
    }).optional(),
  }).optional(),
});

/** The image of a workload's containers. */
export const imageFields = {
  image: text("Image of the containers; the one that this release of the operator is made for when left out.", {
    min: 1,
    max: 512,
  }).optional(),
  imagePullPolicy: choice("When the image is pulled.", ["Always", "IfNotPresent", "Never"]).optional(),
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
  "Storage class of the volumes; the cluster's own when left out. Immutable.",
).optional();

export const retention = (description: string) => choice(description, ["Delete", "Retain"]);

/** The volume of a router: its identity and what it has learned. */
export const storage = struct(
  "The volume of each router, for its identity and the addresses of controllers that it has learned.",
  {
    size: volumeSize("Size of the volume; it may only grow.").default("50Mi"),
    storageClassName,
    accessModes: list(
      "How nodes may mount it. Immutable.",
      choice("One way.", ["ReadWriteOnce", "ReadWriteOncePod", "ReadWriteMany"]),
      { type: "set", min: 1, max: 3, rules: [immutable("accessModes")] },
    ).default(["ReadWriteOnce"]),
    retention: retention(
      "Whether volumes go with their routers, or stay. With deletionPolicy Orphan they stay.",
    ).default("Delete"),
  },
  [keeps("storageClassName")],
);

export const enabled = (description: string, standard: boolean) => flag(description).default(standard);
