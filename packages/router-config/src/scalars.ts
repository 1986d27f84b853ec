import { isIP } from "node:net";
import { MAX_TIMER_MS } from "@sallyport/async";
import { formatDuration, parseDuration } from "@sallyport/config-file";
import { type Address, type HostPort, parseAddress } from "@sallyport/wire";
import { z } from "zod";
import { PlainScalar } from "./document.ts";

/**
 * Value types of the file. Each accepts what a YAML reader yields (text or PlainScalar) and what a program would write
 * (text, numbers, booleans). Input types are those of the program side, so that the writer is typed. The description of
 * each is what an error says was expected, and what the reference page prints.
 */

/** What a scalar tells of itself, for `shape.ts`; durations in milliseconds. */
export interface ScalarMeta {
  readonly scalar?: "text" | "texts" | "boolean" | "integer" | "duration";
  readonly min?: number | undefined;
  readonly max?: number | undefined;
}

/** Records "expected X" for the value at the current path; what was found is rendered by the validator. */
export function expected(ctx: z.core.$RefinementCtx, what: string, input: unknown): never {
  ctx.issues.push({ code: "custom", message: what, input, params: { expected: what } });
  return z.NEVER;
}

/** Records "expected X" for a key of the current section. */
export function refuse(ctx: z.core.$RefinementCtx, path: string[], what: string, input?: unknown): never {
  ctx.addIssue({ code: "custom", path, params: { expected: what }, input });
  return z.NEVER;
}

/** A value type: `read` gives the value, or `undefined` for what is not one. */
export function scalar<Input, Output>(
  what: string,
  read: (input: unknown) => Output | undefined,
  meta: ScalarMeta = {},
) {
  return z
    .transform((input: Input, ctx): Output => read(input) ?? expected(ctx, what, input))
    .meta({ ...meta, description: what });
}

const textOf = (input: unknown): string | undefined =>
  typeof input === "string" ? input : input instanceof PlainScalar ? input.text : undefined;

const numberOf = (input: unknown): number | undefined => {
  const value = input instanceof PlainScalar ? input.value : input;
  return typeof value === "number" && Number.isFinite(value) ? value : undefined;
};

/** Text; an unquoted `N`, `on` or `007` is taken as it is written. */
export const text = (what = "text") => scalar<string, string>(what, textOf, { scalar: "text" });

/** Text that is not empty. */
export const name = (what = "text that is not empty") =>
  scalar<string, string>(what, (input) => textOf(input) || undefined);

function bounds(min: number | undefined, max: number | undefined, show: (n: number) => string = String): string {
  if (min !== undefined && max !== undefined) return ` from ${show(min)} to ${show(max)}`;
  if (min !== undefined) return ` of at least ${show(min)}`;
  return max !== undefined ? ` of at most ${show(max)}` : "";
}

function within(value: number | undefined, min?: number, max?: number): number | undefined {
  if (value === undefined || (min !== undefined && value < min) || (max !== undefined && value > max)) return undefined;
  return value;
}

/** What is longer than a timer takes counts as the longest. */
const waitable = (ms: number | undefined): number | undefined =>
  ms === undefined ? undefined : Math.min(ms, MAX_TIMER_MS);

export const integer = (o: { min?: number; max?: number; unit?: string } = {}) =>
  scalar<number, number>(
    `an integer${bounds(o.min, o.max)}${o.unit === undefined ? "" : ` (${o.unit})`}`,
    (input) => {
      const value = within(numberOf(input), o.min, o.max);
      if (!Number.isSafeInteger(value)) return undefined;
      return o.unit === "ms" ? waitable(value) : value;
    },
    { scalar: "integer", min: o.min, max: o.max },
  );

/** `above` and `below` are bounds that the number itself must not reach. */
export const decimal = (o: { min?: number; max?: number; above?: number; below?: number } = {}) => {
  const { min, max, above = Number.NEGATIVE_INFINITY, below = Number.POSITIVE_INFINITY } = o;
  const between = o.above === undefined ? "" : ` between ${above} and ${below}`;
  return scalar<number, number>(`a number${bounds(min, max)}${between}`, (input) => {
    const value = within(numberOf(input), min, max);
    return value !== undefined && value > above && value < below ? value : undefined;
  });
};

/** YAML 1.1 booleans: `true`, `yes`, `on` and their opposites, unquoted. */
export const boolean = () =>
  scalar<boolean, boolean>(
    "true or false",
    (input) => {
      const value = input instanceof PlainScalar ? input.value : input;
      return typeof value === "boolean" ? value : undefined;
    },
    { scalar: "boolean" },
  );

const durationOf = (input: unknown): number | undefined => {
  const body = textOf(input);
  return body === undefined ? undefined : parseDuration(body);
};

/** A duration text such as `5s`, `1m30s`, `24h`; the value is in milliseconds. */
export const duration = (o: { min?: number; max?: number } = {}) =>
  scalar<string, number>(
    `a duration with a unit, such as 5s or 1m30s${bounds(o.min, o.max, formatDuration).replace(/^ /, ", ")}`,
    (input) => waitable(within(durationOf(input), o.min, o.max)),
    { scalar: "duration", ...o },
  );

/** Either a duration text or a number of milliseconds. */
export const durationOrMs = (o: { min?: number }) =>
  scalar<string | number, number>(
    `a duration or milliseconds${bounds(o.min, undefined, formatDuration)}`,
    (input) => waitable(within(numberOf(input) ?? durationOf(input), o.min)),
    { scalar: "duration", ...o },
  );

export const oneOf = <const T extends string>(...choices: readonly T[]) =>
  scalar<T, T>(`one of ${choices.join(", ")}`, (input) => choices.find((choice) => choice === textOf(input)));

function tryAddress(body: string): Address | undefined {
  try {
    return parseAddress(body);
  } catch {
    return undefined;
  }
}

/** `udp4` and `udp6` name the family of their address. */
function isOfItsFamily({ protocol, host }: Address): boolean {
  const family = isIP(host);
  return !((protocol === "udp4" && family === 6) || (protocol === "udp6" && family === 4));
}

/** `<protocol>:<host>:<port>`; only the given protocols, all when none is given. */
export const address = (...protocols: readonly string[]) =>
  scalar<string, Address>(
    `an address <protocol>:<host>:<port>${protocols.length === 0 ? "" : ` with the protocol ${protocols.join(" or ")}`}, such as ${protocols[0] ?? "tls"}:router.example:3022`,
    (input) => {
      const parsed = tryAddress(textOf(input) ?? "");
      const isAllowed = parsed !== undefined && (protocols.length === 0 || protocols.includes(parsed.protocol));
      return isAllowed && isOfItsFamily(parsed) ? parsed : undefined;
    },
  );

/** An address that can be dialled: it names a host and a port. */
export const dialled = (protocol: string) =>
  scalar<string, Address>(
    `an address <protocol>:<host>:<port> with the protocol ${protocol}, a host and a port, such as ${protocol}:ctrl.example:1280`,
    (input) => {
      const parsed = tryAddress(textOf(input) ?? "");
      return isComplete(parsed) && parsed.protocol === protocol ? parsed : undefined;
    },
  );

const isComplete = <T extends HostPort>(value: T | undefined): value is T =>
  value !== undefined && value.host !== "" && value.port > 0;

const hostPortOf = (input: unknown): HostPort | undefined => {
  const parsed = tryAddress(`tls:${textOf(input) ?? ""}`);
  return isComplete(parsed) ? { host: parsed.host, port: parsed.port } : undefined;
};

/** `<protocol>:<host>:<port>` or `<host>:<port>`; the protocol is absent in the second form. */
export const advertised = () =>
  scalar<string, HostPort & { readonly protocol?: string }>(
    "<host>:<port> that others can reach, such as router.example:3022",
    (input) => {
      const full = tryAddress(textOf(input) ?? "");
      return isComplete(full) ? full : hostPortOf(input);
    },
  );

/** `<host>:<port>` with both parts. */
export const hostPort = () => scalar<string, HostPort>("<host>:<port>, such as 127.0.0.1:8081", hostPortOf);

export const ipAddress = () =>
  scalar<string, string>(
    "an IP address",
    (input) => {
      const body = textOf(input) ?? "";
      return isIP(body) === 0 ? undefined : body;
    },
    { scalar: "text" },
  );

export const uri = () =>
  scalar<string, string>(
    "a URI with a scheme",
    (input) => {
      const body = textOf(input) ?? "";
      return URL.canParse(body) ? body : undefined;
    },
    { scalar: "text" },
  );

/** An IP network such as `100.64.0.1/10`. */
export const cidr = () =>
  scalar<string, string>("a network such as 100.64.0.1/10", (input) => {
    const body = textOf(input) ?? "";
    const [ip = "", bits = ""] = body.split("/");
    const width = isIP(ip) === 6 && !ip.includes("%") ? 128 : isIP(ip) === 4 ? 32 : -1;
    return /^\d{1,3}$/.test(bits) && Number(bits) <= width ? body : undefined;
  });

/** A list of texts; a single text counts as a list of one. */
export const textList = () =>
  scalar<string | string[], string[]>(
    "a list of texts",
    (input) => {
      const items: unknown[] = Array.isArray(input) ? input : [input];
      const texts = items.map(textOf).filter((item) => item !== undefined);
      return texts.length === items.length ? texts : undefined;
    },
    { scalar: "texts" },
  );

/** A mapping with these keys. Other keys are ignored with a warning, because every other reader of these files ignores them. */
export function section<const Shape extends z.core.$ZodLooseShape>(shape: Shape) {
  return z.object(shape, { error: (issue) => (issue.code === "invalid_type" ? "a mapping" : undefined) });
}

/** A key that other programs write or read and that means nothing here; `without-effect.ts` says why. */
export const ignored = () => z.unknown().optional();
