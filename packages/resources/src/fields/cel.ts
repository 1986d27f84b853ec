/**
 * A rule that the API server evaluates on every write (CEL): `self` is the value that the rule stands on, `oldSelf`
 * what it was; a rule that names `oldSelf` is asked only on updates.
 */
export interface CelRule {
  readonly rule: string;
  /** What the user reads: what was expected, and what to do. Unique among the rules of its node. */
  readonly message: string;
  /** Not `FieldValueDuplicate`: the API server answers that without the message. */
  readonly reason?: "FieldValueInvalid" | "FieldValueForbidden" | "FieldValueRequired";
  /** The field below the node that is at fault, such as `.importId`. */
  readonly fieldPath?: string;
}

/** What a schema node carries besides its type; the generator copies it into the CRD as it stands. */
interface NodeMeta {
  readonly [key: string]: unknown;
  readonly description: string;
  readonly "x-kubernetes-validations"?: readonly CelRule[];
}

/** Metadata of a node; without rules the key is absent. */
export function nodeMeta(description: string, rules: readonly CelRule[] | undefined, more: object = {}): NodeMeta {
  return rules === undefined || rules.length === 0
    ? { ...more, description }
    : { ...more, description, "x-kubernetes-validations": rules };
}

/** The value may not change once it is set. For optional fields add `keeps` on the parent. */
export const immutable = (what: string): CelRule => ({
  rule: "self == oldSelf",
  message: `${what} is immutable: delete the resource and create it again`,
});

/** On the parent of optional fields: they can neither appear nor vanish nor change. */
export const keeps = (field: string, what: string = field): CelRule => ({
  rule: `has(self.${field}) == has(oldSelf.${field}) && (!has(self.${field}) || self.${field} == oldSelf.${field})`,
  message: `${what} is immutable: delete the resource and create it again`,
  fieldPath: `.${field}`,
});

/** Exactly one of the fields is there. */
export const exactlyOne = (...fields: readonly string[]): CelRule => ({
  rule: `[${fields.map((field) => `has(self.${field})`).join(", ")}].filter(x, x).size() == 1`,
  message: `exactly one of ${fields.join(", ")} is needed`,
});

/** Not more than one of the fields is there. */
export const atMostOne = (...fields: readonly string[]): CelRule => ({
  rule: `[${fields.map((field) => `has(self.${field})`).join(", ")}].filter(x, x).size() <= 1`,
  message: `only one of ${fields.join(", ")} may be given`,
});
