import { type NetworkProblem, passing } from "./problem.ts";

/** The part of a Secret (values in base64) or ConfigMap that is looked at. */
export interface ValueHolder {
  readonly data?: Readonly<Record<string, string>>;
}

export interface NamedValue {
  readonly kind: "Secret" | "ConfigMap";
  readonly name: string;
  readonly key: string;
  /** What it is needed for, in messages: `the CA bundle`. */
  readonly use: string;
}

export type Found<T> = { readonly value: T } | { readonly problem: NetworkProblem };

/** The text under one key of a Secret or ConfigMap that was read; `holder` undefined: there is none of that name. */
export function namedValue(holder: ValueHolder | undefined, { kind, name, key, use }: NamedValue): Found<string> {
  if (holder === undefined) {
    return {
      problem: passing(
        kind === "Secret" ? "SecretNotFound" : "ConfigMapNotFound",
        `there is no ${kind} ${name} in this namespace, from which ${use} should come; it is looked at as soon as it appears`,
      ),
    };
  }
  const text = holder.data?.[key];
  const value = text === undefined || kind === "ConfigMap" ? text : Buffer.from(text, "base64").toString("utf8");
  if (value !== undefined && value !== "") return { value };
  const keys = Object.keys(holder.data ?? {}).sort();
  const present = keys.length === 0 ? "it has none" : `it has ${keys.slice(0, 10).join(", ")}`;
  return {
    problem: passing(
      kind === "Secret" ? "SecretKeyMissing" : "ConfigMapKeyMissing",
      `the ${kind} ${name} has ${value === "" ? "nothing under" : "not"} the key ${key}, from which ${use} should come; ${present}`,
    ),
  };
}
