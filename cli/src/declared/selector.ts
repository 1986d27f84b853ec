/** Labels by which resources are chosen: `team=red,stage=test`. */
import { UsageError } from "../errors.ts";
import type { Labels } from "./marks.ts";

export const LABEL_KEY = /^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?\/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/;
export const LABEL_VALUE = /^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$/;

/** @throws UsageError for what is no selector */
export function selectorOf(text: string): Labels {
  const pairs = text.split(",").map((part): [string, string] => {
    const [, key = "", value = ""] = /^\s*([^=!\s]+)\s*==?\s*(\S*)\s*$/.exec(part) ?? [];
    if (LABEL_KEY.test(key) && LABEL_VALUE.test(value)) return [key, value];
    throw new UsageError(`'${text}' selects no labels: expected KEY=VALUE, or several with commas between them`);
  });
  return Object.fromEntries(pairs);
}

export function matches(labels: Labels, selector: Labels): boolean {
  return Object.entries(selector).every(([key, value]) => Object.hasOwn(labels, key) && labels[key] === value);
}
