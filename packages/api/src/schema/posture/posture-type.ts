/** What a type of posture check is to the API, and the parts that all types share. Each has its fields in a file beside this one; `types.ts` collects them. */
import { z } from "zod";
import { base } from "../entity.ts";
import { names, patchOf, tags, time } from "../scalars.ts";

export const osType = z.enum(["Windows", "WindowsServer", "Android", "iOS", "Linux", "macOS"]);
export type OsType = z.infer<typeof osType>;
export const DESKTOP_SYSTEMS = ["Windows", "WindowsServer", "Linux", "macOS"] as const satisfies readonly OsType[];

/** The fields of every posture check in a request. */
export const commonFields = { name: z.string(), roleAttributes: names.default([]), tags: tags.default({}) };
const commonDetail = { ...base, name: z.string(), roleAttributes: names, version: z.int() };
const commonFailure = { postureCheckId: z.string(), postureCheckName: z.string() };

/** Operations whose definition names clients may send as `typeId` in place of the short name. */
const OPERATIONS = ["Create", "Update", "Patch"] as const;

/**
 * Describes a type of posture check.
 * @param type the short name, as it is stored and answered
 * @param definition the type's part of definition names such as `postureCheckOperatingSystemCreate`
 */
export function postureType<
  const T extends string,
  const D extends string,
  Fields extends z.ZodRawShape,
  Detail extends z.ZodRawShape,
  Failure extends z.ZodRawShape,
>(
  type: T,
  definition: D,
  parts: {
    /** The type's own fields in a request; optional ones may be left out of a creation and a replacement. */
    readonly fields: Fields;
    /** The same fields in answers. */
    readonly detail: Detail;
    /** A failed check: at least `actualValue` and `expectedValue`. */
    readonly failure: Failure;
    /** The entry under `posture-check-types`, with the systems that the check can judge. */
    readonly listed?: { readonly name: string; readonly systems: readonly OsType[] };
  },
) {
  const { fields, detail, failure } = parts;
  const typeId = <const Operation extends (typeof OPERATIONS)[number]>(operation: Operation) =>
    z.enum([type, `postureCheck${definition}${operation}`] as const);
  return {
    parts,
    /** Every `typeId` that means this type. */
    typeIds: [type, ...OPERATIONS.map((operation) => `postureCheck${definition}${operation}`)],
    /** The own fields that a check of the type cannot be without. */
    required: Object.keys(fields).filter((name) => !(fields[name] instanceof z.ZodOptional)),
    create: z.object({ typeId: typeId("Create"), ...commonFields, ...fields }),
    update: z.object({ typeId: typeId("Update"), ...commonFields, ...fields }),
    patch: patchOf({ ...commonFields, ...fields }).extend({ typeId: typeId("Patch") }),
    detail: z.strictObject({ ...commonDetail, typeId: z.literal(type), ...detail }),
    failure: z.strictObject({ ...commonFailure, postureCheckType: z.literal(type), ...failure }),
  };
}

/** The controller keeps every report of a device in memory, so all texts and lists have a limit. */
const MAX_CHARACTERS = 1024;
export const MAX_VALUES = 100;
export const reportedText = z.string().max(MAX_CHARACTERS);

/** When a device reported something, and for which check. */
export const reported = { lastUpdatedAt: time.nullable(), postureCheckId: z.string(), timedOut: z.boolean() };

/**
 * Describes a report of a device: what clients send, and what administrators see of it in `posture-data`.
 * `id` is that of the posture check (any text for `ENDPOINT_STATE`).
 */
export function postureReport<
  const T extends string,
  const D extends string,
  Fields extends z.ZodRawShape,
  Data extends z.ZodRawShape,
>(type: T, definition: D, parts: { readonly fields: Fields; readonly data: Data }) {
  const typeIds = [type, `postureResponse${definition}Create`] as const;
  return {
    typeIds,
    create: z.object({ id: reportedText, typeId: z.enum(typeIds), ...parts.fields }),
    data: parts.data,
  };
}
