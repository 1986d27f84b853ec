import type { inspectResponse } from "@sallyport/api";
import type { z } from "zod";
import type { InspectionResult } from "../../fabric/inspection/inspection.ts";

/** An inspection as it is sent: values that are JSON objects or lists are sent as such, and nothing at all as null. */
export function inspectionResponse(result: InspectionResult): z.input<typeof inspectResponse> {
  return {
    errors: result.errors.length === 0 ? null : [...result.errors],
    success: result.success,
    values:
      result.values.length === 0
        ? null
        : result.values.map(({ appId, name, value }) => ({ appId, name, value: structured(value) })),
  };
}

/** Deeper values stay text: what is nested without bounds cannot be written again. */
const MAX_DEPTH = 100;

function structured(text: string): unknown {
  if (!/^\s*[{[]/.test(text) || isDeeper(text, MAX_DEPTH)) return text;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** Brackets inside of strings count, too: at worst a value is sent as text. */
function isDeeper(text: string, limit: number): boolean {
  let depth = 0;
  for (const [bracket] of text.matchAll(/[[{}\]]/g)) {
    depth += bracket === "[" || bracket === "{" ? 1 : -1;
    if (depth > limit) return true;
  }
  return false;
}
