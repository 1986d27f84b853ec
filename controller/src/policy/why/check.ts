import type { Named } from "./facts.ts";

/** What was looked at, and what it says. The fields are those of the API (`packages/api/src/schema/why.ts`). */
export interface Check {
  readonly check: CheckName;
  readonly status: "ok" | "failed" | "warning" | "unknown" | "skipped";
  readonly code?: string;
  readonly message: string;
  readonly entities?: readonly EntityOf[];
  readonly details?: Readonly<Record<string, unknown>>;
  readonly remedies?: readonly Remedy[];
  readonly checks?: readonly Check[];
}

export type CheckName =
  | "authentication"
  | "identity-enabled"
  | "credential"
  | "api-session"
  | "second-factor"
  | "service-policy"
  | "posture"
  | "posture-check"
  | "edge-router-policy"
  | "service-edge-router-policy"
  | "common-routers"
  | "edge-routers"
  | "edge-router"
  | "terminators"
  | "terminator"
  | "path"
  | "encryption"
  | "hosting"
  | "recent-dials";

export interface EntityOf {
  readonly entity: string;
  readonly id: string;
  readonly name: string;
}

export interface Remedy {
  readonly text: string;
  readonly command?: string;
}

type Extra = Pick<Check, "entities" | "details" | "remedies" | "checks">;

export function ok(check: CheckName, message: string, extra: Extra = {}): Check {
  return { check, status: "ok", message, ...extra };
}

export function failed(check: CheckName, code: string, message: string, extra: Extra = {}): Check {
  return { check, status: "failed", code, message, ...extra };
}

export function warning(check: CheckName, code: string, message: string, extra: Extra = {}): Check {
  return { check, status: "warning", code, message, ...extra };
}

export function unknown(check: CheckName, code: string, message: string, extra: Extra = {}): Check {
  return { check, status: "unknown", code, message, ...extra };
}

export function skipped(check: CheckName, message: string): Check {
  return { check, status: "skipped", message };
}

/** Entities of a collection, such as `service-policies`. */
export function entities(entity: string, named: readonly Named[]): EntityOf[] {
  return named.map(({ id, name }) => ({ entity, id, name }));
}

const SHOWN = 5;

/** Names for a sentence: `"a", "b" and 3 more`. */
export function listOf(names: readonly string[]): string {
  const shown = names.slice(0, SHOWN).map(quoted);
  const more = names.length - shown.length;
  if (more > 0) return `${shown.join(", ")} and ${more} more`;
  const last = shown.pop() ?? "";
  return shown.length === 0 ? last : `${shown.join(", ")} and ${last}`;
}

export function namesOf(named: readonly Named[]): string {
  return listOf(named.map(({ name }) => name));
}

/** A name in a sentence. Characters that would move the cursor of a terminal, or turn its text around, are written as escapes. */
export function quoted(name: string): string {
  return `"${name.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (character) => `\\u{${character.codePointAt(0)?.toString(16)}}`)}"`;
}

export function timeText(at: number): string {
  return new Date(at).toISOString();
}
