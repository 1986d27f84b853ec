import { isIP } from "node:net";
import { type Address, parseAddress } from "@sallyport/wire";
import { z } from "zod";
import { formatDuration, parseDuration } from "./duration.ts";
import { PlainScalar } from "./plain-scalar.ts";

/**
 * Value types of the file. Each accepts what a YAML reader yields (text or PlainScalar) and what a program would write
 * (text, numbers, booleans). Input types are those of the program side, so that the writer is typed.
 */

type Context = z.core.$RefinementCtx;

/** Records "expected X" for the value at the current path; what was found is rendered by the validator. */
export function expected(ctx: Context, what: string, input: unknown): never {
  ctx.issues.push({ code: "custom", message: what, input, params: { expected: what } });
  return z.NEVER;
}

const textOf = (input: unknown): string | undefined =>
  typeof input === "string" ? input : input instanceof PlainScalar ? input.text : undefined;

/** Text; an unquoted `N`, `on` or `007` is taken as it is written. */
export const text = (what = "text") =>
  z.transform((input: string, ctx): string => textOf(input) ?? expected(ctx, what, input));

/** Text that is not empty. */
export const name = (what = "text that is not empty") =>
  z.transform((input: string, ctx): string => textOf(input) || expected(ctx, what, input));

const numberOf = (input: unknown): number | undefined => {
  const value = input instanceof PlainScalar ? input.value : input;
  return typeof value === "number" && Number.isFinite(value) ? value : undefined;
};

const bounds = (min?: number, max?: number, show: (n: number) => string = String) =>
  min !== undefined && max !== undefined
    ? ` from ${show(min)} to ${show(max)}`
    : min !== undefined
      ? ` of at least ${show(min)}`
      : max !== undefined
        ? ` of at most ${show(max)}`
        : "";

const within = (value: number | undefined, min?: number, max?: number): value is number =>
  value !== undefined && (min === undefined || value >= min) && (max === undefined || value <= max);

export const integer = (o: { min?: number; max?: number; unit?: string } = {}) =>
  z.transform((input: number, ctx): number => {
    const value = numberOf(input);
    return within(value, o.min, o.max) && Number.isSafeInteger(value)
      ? value
      : expected(ctx, `an integer${bounds(o.min, o.max)}${o.unit === undefined ? "" : ` (${o.unit})`}`, input);
  });

export const decimal = (o: { min?: number; max?: number } = {}) =>
  z.transform((input: number, ctx): number => {
    const value = numberOf(input);
    return within(value, o.min, o.max) ? value : expected(ctx, `a number${bounds(o.min, o.max)}`, input);
  });

/** YAML 1.1 booleans: `true`, `yes`, `on` and their opposites, unquoted. */
export const boolean = () =>
  z.transform((input: boolean, ctx): boolean => {
    const value: unknown = (input as unknown) instanceof PlainScalar ? (input as unknown as PlainScalar).value : input;
    return typeof value === "boolean" ? value : expected(ctx, "true or false", input);
  });

/** A duration text such as `5s`, `1m30s`, `24h`; the value is in milliseconds. */
export const duration = (o: { min?: number; max?: number } = {}) =>
  z.transform((input: string, ctx): number => {
    const body = textOf(input);
    const value = body === undefined ? undefined : parseDuration(body);
    const what = `a duration with a unit, such as 5s or 1m30s${bounds(o.min, o.max, formatDuration).replace(/^ /, ", ")}`;
    return within(value, o.min, o.max) ? value : expected(ctx, what, input);
  });

/** Either a duration text or a number of milliseconds. */
export const durationOrMs = (o: { min?: number }) =>
  z.transform((input: string | number, ctx): number => {
    const body = textOf(input);
    const value = numberOf(input) ?? (body === undefined ? undefined : parseDuration(body));
    return within(value, o.min)
      ? value
      : expected(ctx, `a duration or milliseconds${bounds(o.min, undefined, formatDuration)}`, input);
  });

export const oneOf = <const T extends string>(...choices: readonly T[]) =>
  z.transform((input: T, ctx): T => {
    const found = choices.find((choice) => choice === textOf(input));
    return found ?? expected(ctx, `one of ${choices.join(", ")}`, input);
  });

/** `<protocol>:<host>:<port>`; only the given protocols, all when none is given. */
export const address = (...protocols: readonly string[]) =>
  z.transform((input: string, ctx): Address => readAddress(input, ctx, protocols));

function readAddress(input: unknown, ctx: Context, protocols: readonly string[]): Address {
  const example = `${protocols[0] ?? "tls"}:router.example:3022`;
  const list = protocols.length === 0 ? "" : ` with the protocol ${protocols.join(" or ")}`;
  try {
    const parsed = parseAddress(textOf(input) ?? "");
    if (protocols.length === 0 || protocols.includes(parsed.protocol)) return parsed;
  } catch {
    // Said below, with the place in the file.
  }
  return expected(ctx, `an address <protocol>:<host>:<port>${list}, such as ${example}`, input);
}

export interface HostPort {
  readonly host: string;
  readonly port: number;
}

/** `<protocol>:<host>:<port>` or `<host>:<port>`; the protocol is absent in the second form. */
export const advertised = () =>
  z.transform((input: string, ctx): HostPort & { readonly protocol?: string } => {
    const body = textOf(input) ?? "";
    const full = tryAddress(body);
    if (full !== undefined && full.host !== "" && full.port > 0) return full;
    const short = tryAddress(`tls:${body}`);
    if (short !== undefined && short.host !== "" && short.port > 0) return { host: short.host, port: short.port };
    return expected(ctx, "<host>:<port> that others can reach, such as router.example:3022", input);
  });

/** `<host>:<port>` with both parts. */
export const hostPort = () =>
  z.transform((input: string, ctx): HostPort => {
    const parsed = tryAddress(`tls:${textOf(input) ?? ""}`);
    return parsed !== undefined && parsed.host !== "" && parsed.port > 0
      ? { host: parsed.host, port: parsed.port }
      : expected(ctx, "<host>:<port>, such as 127.0.0.1:8081", input);
  });

function tryAddress(body: string): Address | undefined {
  try {
    return parseAddress(body);
  } catch {
    return undefined;
  }
}

export const ipAddress = () =>
  z.transform((input: string, ctx): string => {
    const body = textOf(input) ?? "";
    return isIP(body) === 0 ? expected(ctx, "an IP address", input) : body;
  });

export const uri = () =>
  z.transform((input: string, ctx): string => {
    const body = textOf(input) ?? "";
    return URL.canParse(body) ? body : expected(ctx, "a URI with a scheme", input);
  });

/** An IP network such as `100.64.0.1/10`. */
export const cidr = () =>
  z.transform((input: string, ctx): string => {
    const body = textOf(input) ?? "";
    const [ip = "", bits = ""] = body.split("/");
    const width = isIP(ip) === 6 ? 128 : isIP(ip) === 4 ? 32 : -1;
    return /^\d{1,3}$/.test(bits) && Number(bits) <= width
      ? body
      : expected(ctx, "a network such as 100.64.0.1/10", input);
  });

/** A list of texts; a single text counts as a list of one. */
export const textList = () =>
  z.transform((input: string | string[], ctx): string[] => {
    const items: unknown[] = Array.isArray(input) ? input : [input];
    const texts = items.map(textOf).filter((item) => item !== undefined);
    return texts.length === items.length ? texts : expected(ctx, "a list of texts", input);
  });
