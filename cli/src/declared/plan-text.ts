/** What would be done to a network, line by line. */

import { visible } from "../terminal/visible.ts";
import type { Change } from "./changes.ts";
import type { Deletion } from "./deletions.ts";
import type { Step } from "./plan.ts";

const SIGNS = { create: "+", change: "~", adopt: "~", none: " ", kept: " " } as const;
const SUFFIX = { create: "", change: "", adopt: " (taken over)", none: "", kept: "" } as const;

/** @param nameOf the name of an entity by its id */
export function stepText(step: Step, nameOf: (id: string) => string | undefined): string {
  const { outcome, title, changes } = step;
  const lines = changes.map((change) => `    ${changeText(change, outcome === "create", nameOf)}\n`);
  return `${SIGNS[outcome]} ${visible(title)}${SUFFIX[outcome]}\n${lines.join("")}`;
}

export function deletionText({ title, mark }: Deletion): string {
  return `- ${visible(title)}${mark.isOrphaned ? " (stays in the network, let go)" : ""}\n`;
}

function changeText({ path, before, after }: Change, isNew: boolean, nameOf: (id: string) => string | undefined) {
  const text = (value: unknown) => valueText(named(value, nameOf));
  const field = visible(path.map((key) => nameOf(key) ?? key).join("."));
  return isNew ? `${field}: ${text(after)}` : `${field}: ${text(before)} -> ${text(after)}`;
}

function valueText(value: unknown): string {
  return value === undefined ? "(none)" : visible(JSON.stringify(value));
}

/** The value with names in place of ids. */
function named(value: unknown, nameOf: (id: string) => string | undefined): unknown {
  if (typeof value === "string") {
    const [, at = "", id = value] = /^(@?)(.*)$/s.exec(value) ?? [];
    return `${at}${nameOf(id) ?? id}`;
  }
  if (Array.isArray(value)) {
    const all: unknown[] = value.map((each) => named(each, nameOf));
    // Selectors are a set, in the order of ids that are not shown.
    return all.every((each) => typeof each === "string" && /^[@#]/.test(each)) ? all.sort() : all;
  }
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [nameOf(key) ?? key, named(each, nameOf)]));
}
