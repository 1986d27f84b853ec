/** Types that several shapes share (`docs/api.md`, "Shapes"). */
import { z } from "zod";

/** Time in answers: RFC 3339, UTC, exactly three fraction digits. Write it with {@link apiTime}. */
export const time = z
  .string()
  .regex(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
  .meta({ format: "date-time" });

export function apiTime(at: Date | number): string {
  return new Date(at).toISOString();
}

/** How an unset time is written where the key must be there. */
export const ZERO_TIME = "0001-01-01T00:00:00.000Z";

const TIME_PATTERN = /^(\d{4}-\d\d-\d\d)(?:[Tt ](\d\d:\d\d)(?::(\d\d))?(\.\d+)?)?([Zz]|[+-]\d\d:?\d\d)?$/;

/**
 * Time in requests, given to handlers as a Date. Clients write it with or without fraction, seconds, offset (then UTC)
 * or time of day; the empty string is the beginning of 1970.
 */
export const timeInput = z.string().transform((text, context): Date => {
  if (text === "") return new Date(0);
  const parts = TIME_PATTERN.exec(text);
  if (parts !== null) {
    const [, date, minutes = "00:00", seconds = "00", fraction = "", offset = "Z"] = parts;
    const zone = /^[Zz]$/.test(offset)
      ? "Z"
      : offset.includes(":")
        ? offset
        : `${offset.slice(0, 3)}:${offset.slice(3)}`;
    const at = new Date(`${date}T${minutes}:${seconds}${fraction.slice(0, 4)}${zone}`);
    if (!Number.isNaN(at.getTime())) return at;
  }
  context.addIssue({ code: "invalid_format", format: "date-time", input: text });
  return z.NEVER;
});

/** User-defined map. Values are null, text, boolean or numbers, which OpenZiti's clients send as well. */
export const tags = z.record(z.string(), z.union([z.null(), z.string(), z.boolean(), z.number()]));
/**
 * Tags in a patch. OpenZiti's CLI always sends `{}`, whether tags were given or not, so an empty map changes nothing. To remove all tags, a client
 * replaces the entity.
 */
export const tagsUnlessEmpty = tags
  .transform((given) => (Object.keys(given).length === 0 ? undefined : given))
  .optional();
const MAX_OWN_TAG_CHARACTERS = 4_096;
/** Tags that others than administrators may store: as JSON they have at most 4,096 characters. */
export const ownTags = tags.superRefine((given, context) => {
  if (JSON.stringify(given).length <= MAX_OWN_TAG_CHARACTERS) return;
  context.addIssue({
    code: "too_big",
    origin: "string",
    maximum: MAX_OWN_TAG_CHARACTERS,
    inclusive: true,
    input: given,
  });
});
export const jsonObject = z.record(z.string(), z.unknown());
export const names = z.array(z.string());
/** In answers, where OpenZiti writes null for an empty list: its Terraform provider takes `[]` for a difference. Write it with {@link orNull}. */
export const namesOrNull = names.nullable();
/** An empty list as null. */
export function orNull<T>(list: readonly T[]): T[] | null {
  return list.length === 0 ? null : [...list];
}
export const semantic = z.enum(["AllOf", "AnyOf"]);
export const dialBind = z.enum(["Dial", "Bind"]);
export const cost = z.int().min(0).max(65535);
export const precedence = z.enum(["default", "required", "failed"]);
export const costMap = z.record(z.string(), cost);
export const precedenceMap = z.record(z.string(), precedence);

/** Text with bounds on its length, counted in code points. `blank`: or none, where that counts as not given. */
function sized(minLength: number, maxLength: number, blank: "refused" | "taken" = "refused") {
  return z
    .string()
    .superRefine((text, context) => {
      const length = [...text].length;
      if (length === 0 && blank === "taken") return;
      if (length < minLength) {
        context.addIssue({ code: "too_small", origin: "string", minimum: minLength, inclusive: true, input: text });
      } else if (length > maxLength) {
        context.addIssue({ code: "too_big", origin: "string", maximum: maxLength, inclusive: true, input: text });
      }
    })
    .meta({ minLength, maxLength });
}

export const username = sized(4, 100);
export const usernameOrBlank = sized(4, 100, "taken");
export const password = sized(5, 100);
export const text253 = sized(0, 253);
export const text255 = sized(0, 255);
export const pem = z.string();

type PatchShape<S extends z.ZodRawShape> = {
  [K in keyof S]: z.ZodOptional<S[K] extends z.ZodDefault<infer Inner> ? Inner : S[K]>;
};

/** The body of a PATCH: every field optional, none defaulted. */
export function patchOf<S extends z.ZodRawShape>(shape: S): z.ZodObject<PatchShape<S>> {
  const optional = Object.entries(shape).map(([name, field]) => {
    const schema = field as z.ZodType;
    return [name, (schema instanceof z.ZodDefault ? (schema.unwrap() as z.ZodType) : schema).optional()];
  });
  return z.object(Object.fromEntries(optional) as PatchShape<S>);
}
