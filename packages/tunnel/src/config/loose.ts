import { MAX_TIMER_MS } from "@sallyport/async";
import { parseDuration } from "@sallyport/config-file/duration";
import { z } from "zod";

/**
 * An object whose keys are found whatever their capitals, the exact one first; `null` counts as absent, further keys
 * are ignored. Configs are written by hand and read so by every tunneler.
 */
export function looseObject<S extends z.ZodRawShape>(shape: S) {
  return z.preprocess((value) => withKeys(value, Object.keys(shape)), z.object(shape));
}

function withKeys(value: unknown, keys: readonly string[]): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  const entries = Object.entries(value).filter(([, each]) => each !== null);
  const find = (is: (name: string) => boolean) => entries.find(([name]) => is(name));
  return Object.fromEntries(
    keys.flatMap((key) => {
      const entry = find((name) => name === key) ?? find((name) => name.toLowerCase() === key.toLowerCase());
      return entry === undefined ? [] : [[key, entry[1]]];
    }),
  );
}

/** A duration as text, in whole milliseconds that a timer can hold. */
export const duration = z.string().transform((text, context) => {
  const ms = parseDuration(text);
  if (ms !== undefined && ms >= 0) return Math.min(Math.ceil(ms), MAX_TIMER_MS);
  context.addIssue({ code: "custom", message: `expected a duration such as 5s or 100ms, got ${JSON.stringify(text)}` });
  return z.NEVER;
});

export const port = z.int().min(1).max(65_535);

export const portRange = looseObject({ low: z.int().min(0).max(65_535), high: z.int().min(0).max(65_535) }).refine(
  ({ low, high }) => low <= high,
  "expected low not to be above high",
);

/** One of these words, whatever its capitals. */
export const anyCase = <const T extends readonly string[]>(...words: T) => z.string().toLowerCase().pipe(z.enum(words));

export const protocol = anyCase("tcp", "udp");

/** A config cannot be used; the message begins with the path within the config. */
export class ServiceConfigError extends Error {
  /** Name of the config type. */
  readonly configType: string;
  /** Where in the config, such as `terminators[0].port`; empty for the whole. */
  readonly path: string;

  constructor(configType: string, path: string, reason: string) {
    super(`${path === "" ? "the config" : path}: ${reason}`);
    this.name = "ServiceConfigError";
    this.configType = configType;
    this.path = path;
  }
}

/** Reads a config. @throws ServiceConfigError about the first thing that is wrong */
export function decodeConfig<T>(configType: string, schema: z.ZodType<T>, config: unknown): T {
  const result = schema.safeParse(config);
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  throw new ServiceConfigError(configType, pathText(issue?.path ?? []), issue?.message ?? "it cannot be read");
}

function pathText(path: readonly PropertyKey[]): string {
  return path.map((key, i) => (typeof key === "number" ? `[${key}]` : `${i > 0 ? "." : ""}${String(key)}`)).join("");
}
