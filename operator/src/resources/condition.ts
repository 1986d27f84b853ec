import { z } from "zod";
import { choice, integer, list, struct, text, time } from "./fields/bounded.ts";

/** One condition, as Kubernetes defines it. */
export const condition = struct("One aspect of the state of the resource.", {
  type: text("Type of the condition, such as Ready.", {
    min: 1,
    max: 316,
    pattern: /^([a-z0-9.-]+\/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$/,
  }),
  status: choice("True, False or Unknown.", ["True", "False", "Unknown"]),
  observedGeneration: integer("metadata.generation of the spec that the condition is for.").optional(),
  lastTransitionTime: time("Time of the last change of status."),
  reason: text("Reason, as one word for programs.", {
    min: 1,
    max: 1024,
    pattern: /^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$/,
  }),
  message: text("Reason and remedy, for people.", { max: 32768 }),
});

export type Condition = z.output<typeof condition>;

/** What every kind's status has. */
export const statusFields = {
  observedGeneration: integer(
    "metadata.generation of the spec that this status is for; -1 before the first reconcile.",
    {
      min: -1,
    },
  ).optional(),
  conditions: list(
    "Conditions. Ready sums them up; Reconciling and Stalled are present only while they are true.",
    condition,
    { type: "map", keys: ["type"], max: 32 },
  ).optional(),
  lastHandledReconcileAt: text("The last value of the annotation sallyport.dev/reconcile-requested-at acted on.", {
    max: 256,
  }).optional(),
};

const statusShape = z.strictObject(statusFields);
/** The part of `status` that is the same in every kind. */
export type BaseStatus = z.output<typeof statusShape>;
