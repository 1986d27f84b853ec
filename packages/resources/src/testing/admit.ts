import { type Admission, admitObject } from "../admission/admit.ts";
import { objectSchema, type StructuralNode } from "../crd/crd.ts";
import type { KindDefinition } from "../kind-definition.ts";

const schemas = new Map<KindDefinition, StructuralNode>();

/**
 * What an API server makes of an object of the kind.
 *
 * @param previous the stored object that this is an update of
 */
export function admit(kind: KindDefinition, object: unknown, previous?: unknown): Admission {
  const schema = schemas.get(kind) ?? objectSchema(kind);
  schemas.set(kind, schema);
  return admitObject(schema, object, previous);
}
