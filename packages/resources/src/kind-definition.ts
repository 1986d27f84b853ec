import { z } from "zod";
import { choice, integer, list, struct, text, time } from "./fields/bounded.ts";
import type { CelRule } from "./fields/cel.ts";
import type { API_VERSION, OwnKind } from "./group.ts";

interface OwnerReference {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  readonly uid: string;
  readonly controller?: boolean;
  readonly blockOwnerDeletion?: boolean;
}

/** The part of an object's metadata that the operator reads; times are RFC 3339 texts. */
interface ObjectMeta {
  readonly name: string;
  readonly namespace: string;
  readonly uid: string;
  readonly resourceVersion: string;
  /** Grows with every change of the spec. */
  readonly generation: number;
  readonly creationTimestamp: string;
  readonly deletionTimestamp?: string;
  readonly finalizers?: readonly string[];
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly ownerReferences?: readonly OwnerReference[];
}

/**
 * A resource as the API server hands it out: defaults of the schema are filled in, `status` is at least
 * `{observedGeneration: -1}`.
 */
export interface Resource<Spec, Status extends BaseStatus = BaseStatus> {
  readonly apiVersion: typeof API_VERSION;
  readonly kind: string;
  readonly metadata: ObjectMeta;
  readonly spec: Spec;
  readonly status: Status;
}

/** A column of `kubectl get`. */
export interface PrinterColumn {
  readonly name: string;
  readonly type: "string" | "integer" | "boolean" | "date";
  readonly description: string;
  readonly jsonPath: string;
  /** 1: only with `-o wide`. */
  readonly priority?: 1;
}

export interface ScaleSubresource {
  readonly specReplicasPath: string;
  readonly statusReplicasPath: string;
  readonly labelSelectorPath: string;
}

/** Everything that the CRD of a kind says. */
export interface KindDefinition<Spec extends z.ZodType = z.ZodType, Status extends z.ZodType = z.ZodType>
  extends OwnKind {
  readonly singular: string;
  readonly shortNames: readonly string[];
  readonly description: string;
  readonly spec: Spec;
  readonly status: Status;
  /** Rules on the whole object: the only ones that see `metadata.name`. */
  readonly rules: readonly CelRule[];
  /** Between `Ready`, `Reason` and `Age`, which every kind has. */
  readonly columns: readonly PrinterColumn[];
  readonly scale?: ScaleSubresource;
}

/** What one of `KINDS` consists of. */
export function defineKind<Spec extends z.ZodType, Status extends z.ZodType>(
  definition: Omit<KindDefinition<Spec, Status>, "singular" | "rules"> & { readonly rules?: readonly CelRule[] },
): KindDefinition<Spec, Status> {
  return {
    singular: definition.kind.toLowerCase(),
    ...definition,
    rules: definition.rules ?? [],
  };
}

/** Services are made under this name, and pods find each other by it. */
export const serviceName: CelRule = {
  rule: "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
  message:
    "metadata.name has to begin with a letter and to have letters, digits and hyphens only: a Service is named after it",
};

/** The name may have at most `max` characters: names of children and labels are made from it. */
export const shortName = (max: number): CelRule => ({
  rule: `size(self.metadata.name) <= ${max}`,
  message: `metadata.name may have at most ${max} characters: names of other objects are made from it`,
});

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
