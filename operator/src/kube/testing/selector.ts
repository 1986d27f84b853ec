import { isMap } from "./json.ts";
import { Refusal } from "./status.ts";

/** Decides whether an object is among what a list or watch asked for. */
export type Matcher = (object: unknown) => boolean;

/** @throws Refusal for a selector that cannot be read */
export function matcherOf(labelSelector: string | null, fieldSelector: string | null): Matcher {
  const tests = [...requirements(labelSelector ?? "").map(labelTest), ...fieldTests(fieldSelector ?? "")];
  return (object) => tests.every((test) => test(object));
}

function requirements(selector: string): string[] {
  return selector.split(",").flatMap((part) => (part.trim() === "" ? [] : [part.trim()]));
}

function labelTest(requirement: string): Matcher {
  const [, name, sign, value] = /^([\w./-]+)\s*(==?|!=)\s*([\w./-]*)$/.exec(requirement) ?? [];
  if (name !== undefined) return (object) => (labelOf(object, name) === value) === (sign !== "!=");
  const [, not, bare] = /^(!?)([\w./-]+)$/.exec(requirement) ?? [];
  if (bare === undefined) {
    throw new Refusal(400, "BadRequest", `unable to parse requirement: ${requirement}`);
  }
  return (object) => (labelOf(object, bare) !== undefined) === (not === "");
}

function labelOf(object: unknown, name: string): string | undefined {
  const value = valueAt(object, ["metadata", "labels", name]);
  return typeof value === "string" ? value : undefined;
}

function fieldTests(selector: string): Matcher[] {
  return requirements(selector).map((requirement) => {
    const [, path, sign, value] = /^([\w.]+)(==?|!=)(.*)$/.exec(requirement) ?? [];
    if (path === undefined) throw new Refusal(400, "BadRequest", `invalid field selector: ${requirement}`);
    const names = path.split(".");
    return (object) => (String(valueAt(object, names) ?? "") === value) === (sign !== "!=");
  });
}

function valueAt(object: unknown, path: readonly string[]): unknown {
  return path.reduce<unknown>((value, name) => (isMap(value) ? value[name] : undefined), object);
}
