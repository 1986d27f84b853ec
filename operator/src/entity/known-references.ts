import { type Reference, type Referenced, type ResolvedReferences, resolveReferences } from "@sallyport/resources";
import type { AnyResource, Known } from "../loop/kind-reconciler.ts";

/** The references of a resource, resolved by what the watches know of its namespace. */
export function knownReferences(
  { metadata, spec }: { readonly metadata: { readonly namespace: string }; readonly spec: Referenced["spec"] },
  references: readonly Reference[],
  known: Pick<Known, "resource">,
): ResolvedReferences {
  return resolveReferences(references, spec.networkRef.name, ({ kind, name }) =>
    known.resource<AnyResource & Referenced>(kind, metadata.namespace, name),
  );
}
