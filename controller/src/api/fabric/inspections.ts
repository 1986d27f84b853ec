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

function structured(text: string): unknown {
  if (!/^\s*[{[]/.test(text)) return text;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
