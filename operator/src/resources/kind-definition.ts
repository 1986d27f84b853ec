import type { z } from "zod";
import type { OwnerReference } from "../kube/kinds.ts";
import type { BaseStatus } from "./condition.ts";
import type { CelRule } from "./fields/cel.ts";
import type { API_VERSION } from "./group.ts";
import type { OwnKind } from "./own-kinds.ts";

/** The part of an object's metadata that the operator reads; times are RFC 3339 texts. */
export interface ObjectMeta {
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
