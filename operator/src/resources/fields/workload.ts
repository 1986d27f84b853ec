import { choice, flag, list, quantity, struct, text } from "./bounded.ts";
import { type CelRule, immutable, keeps } from "./cel.ts";
import { nameRef, objectName } from "./object-reference.ts";

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
