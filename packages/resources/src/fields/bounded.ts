import { z } from "zod";
import { type CelRule, nodeMeta } from "./cel.ts";

/**
 * Builders of schema nodes. Each demands a description (`kubectl explain`) and bounds: without bounds the API server
 * can't estimate what a rule costs, and refuses the CRD.
 */

interface Rules {
  readonly rules?: readonly CelRule[] | undefined;
}

/** Text of at most `max` characters. A `pattern` must mean the same in JavaScript and in RE2. */
export function text(description: string, o: { max: number; min?: number; pattern?: RegExp } & Rules) {
  let schema = z.string().max(o.max);
  if (o.min !== undefined) schema = schema.min(o.min);
  if (o.pattern !== undefined) schema = schema.regex(o.pattern);
  return schema.meta(nodeMeta(description, o.rules));
}

const INT32 = 2 ** 31 - 1;

export function integer(description: string, o: { min?: number | undefined; max?: number | undefined } & Rules = {}) {
  const max = o.max ?? Number.MAX_SAFE_INTEGER;
  const schema = z
    .int()
    .min(o.min ?? 0)
    .max(max);
  return schema.meta(nodeMeta(description, o.rules, { format: max > INT32 ? "int64" : "int32" }));
}

export const flag = (description: string, o: Rules = {}) => z.boolean().meta(nodeMeta(description, o.rules));

export const choice = <const T extends readonly [string, ...string[]]>(description: string, values: T, o: Rules = {}) =>
  z.enum(values).meta(nodeMeta(description, o.rules));

const DURATION = /^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$/;

/** A duration such as `90s` or `1h30m`, within bounds of the same form. */
export function duration(description: string, o: { min?: string | undefined; max?: string | undefined } & Rules = {}) {
  const bounds: CelRule[] = [];
  // Rules are asked even when the pattern has refused the text, and what is no duration has no length.
  const holds = (rule: string): string => `!self.matches('${DURATION.source.replaceAll("\\", "\\\\")}') || ${rule}`;
  // The pattern has no sign.
  if (o.min !== undefined && o.min !== "0s")
    bounds.push({ rule: holds(`duration(self) >= duration('${o.min}')`), message: `must be at least ${o.min}` });
  if (o.max !== undefined)
    bounds.push({ rule: holds(`duration(self) <= duration('${o.max}')`), message: `must be at most ${o.max}` });
  return text(description, {
    max: 32,
    pattern: DURATION,
    rules: [...bounds, ...(o.rules ?? [])],
  });
}

/** A moment, RFC 3339. */
export const time = (description: string) => z.string().meta(nodeMeta(description, undefined, { format: "date-time" }));

const QUANTITY = /^[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$/;

/** An amount such as `50Mi`, as text, so that rules can compare it. */
export const quantity = (description: string, o: Rules = {}) => text(description, { max: 32, pattern: QUANTITY, ...o });

/** An amount as pod templates have it: `2`, `500m`, `256Mi`. */
export const amount = (description: string) =>
  z
    .union([z.int().min(0), z.string().max(32).regex(QUANTITY)])
    .meta(nodeMeta(description, undefined, { "x-kubernetes-int-or-string": true, maxLength: 32 }));

/**
 * How lists are merged by server-side apply: `set` by value, `map` by key fields of the entries, `atomic` as one value.
 */
type ListType = { type: "set" } | { type: "map"; keys: readonly [string, ...string[]] } | { type: "atomic" };

export function list<T extends z.ZodType>(
  description: string,
  item: T,
  o: ListType & { max: number; min?: number } & Rules,
) {
  const schema = z.array(item).max(o.max);
  return (o.min === undefined ? schema : schema.min(o.min)).meta(
    nodeMeta(description, o.rules, {
      "x-kubernetes-list-type": o.type,
      ...(o.type === "map" ? { "x-kubernetes-list-map-keys": o.keys } : {}),
    }),
  );
}

/** A map from text to values of one kind. */
export function mapOf<T extends z.ZodType>(description: string, value: T, o: { max: number } & Rules) {
  return z
    .record(z.string(), value)
    .refine((entries) => Object.keys(entries).length <= o.max, `at most ${o.max} entries`)
    .meta(nodeMeta(description, o.rules, { maxProperties: o.max }));
}

/** An object with exactly these fields. */
export const struct = <const Shape extends z.core.$ZodLooseShape>(
  description: string,
  shape: Shape,
  rules?: readonly CelRule[],
) => z.strictObject(shape).meta(nodeMeta(description, rules));

const FREE = { "x-kubernetes-preserve-unknown-fields": true };

/** An object of any fields, which the network or the cluster checks. */
export const freeForm = (description: string, o: { max: number }) =>
  z
    .record(z.string(), z.unknown())
    .refine((entries) => Object.keys(entries).length <= o.max, `at most ${o.max} fields`)
    .meta(nodeMeta(description, undefined, { ...FREE, maxProperties: o.max }));

/** An object with these fields and any others: a piece of a pod, which the API server checks when the pod is made. */
export const openStruct = <const Shape extends z.core.$ZodLooseShape>(description: string, shape: Shape) =>
  z.looseObject(shape).meta(nodeMeta(description, undefined, FREE));
