import { z } from "zod";
import { choice, integer, list, struct, text, time } from "./fields/bounded.ts";

/** One condition, as Kubernetes defines it. */
export const condition = struct("One aspect of the state of the resource.", {
  type: text("Which aspect, such as Ready.", {
    min: 1,
    max: 316,
    pattern: /^([a-z0-9.-]+\/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$/,
  }),
  status: choice("Whether it holds: True, False or Unknown.", ["True", "False", "Unknown"]),
  observedGeneration: integer("metadata.generation of the spec that this was found for.").optional(),
  lastTransitionTime: time("When status changed last."),
  reason: text("Why, as one word for programs.", {
    min: 1,
    max: 1024,
    pattern: /^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$/,
  }),
  message: text("Why, and what to do, for people.", { max: 32768 }),
});

export type Condition = z.output<typeof condition>;
export type ConditionStatus = Condition["status"];

/** What every kind's status has. */
export const statusFields = {
  observedGeneration: integer("metadata.generation of the spec that this status is for; -1 before the first look.", {
    min: -1,
  }).optional(),
  conditions: list(
    "What is going on. Ready sums it up; Reconciling and Stalled are there only while they hold.",
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
