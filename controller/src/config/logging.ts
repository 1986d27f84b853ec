import type { Logger } from "@sallyport/wire";
import pino, { type DestinationStream } from "pino";

const CENSORED = "[redacted]";
/** Names of fields whose values are never shown, wherever they stand in the fields of a log line. */
const SECRET_NAME =
  /^(.*password|.*passwd|.*token|.*secret|.*secretkey|.*privatekey|(.*key)?pem|.*jwt|authorization|(set-)?cookie|zt-session|svc-session|database-?url)$/i;
/** Secrets that their form shows, in any text. Clients choose parts of these texts: every repetition is bounded, so that no pattern takes quadratic time. */
const SECRET_TEXTS: readonly (readonly [RegExp, string])[] = [
  [/-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(-----END [A-Z ]*PRIVATE KEY-----|$)/g, CENSORED],
  [/\b([a-z][a-z0-9+.-]{0,30}:\/\/[^\s:@/]*):[^\s@/]+@/gi, `$1:${CENSORED}@`],
  // PostgreSQL's message about a violated constraint: names of columns, then their values.
  [/\bKey \(([^)]{0,200})\)=\([^\n]*\)/g, `Key ($1)=(${CENSORED})`],
  // PostgreSQL's message about a refused row: all its values, which may hold lines, to the end of the text.
  [/\bFailing row contains \([\s\S]*/, `Failing row contains (${CENSORED})`],
  [/\b((?:Bearer|zt-session:|svc-session:)\s+)\S+/gi, `$1${CENSORED}`],
];
/** Text that may hold a JWT; matched whole, so that no part of it is looked at twice. */
const DOTTED = /[\w.-]{12,}/g;
const MAX_DEPTH = 6;

/** Takes secrets out of a text: private keys, JWTs, passwords in URLs, bearer tokens. */
export function withoutSecrets(text: string): string {
  const withoutTokens = text.replace(DOTTED, (found) => (found.includes("eyJ") ? withoutJwts(found) : found));
  return SECRET_TEXTS.reduce((kept, [form, replacement]) => kept.replace(form, replacement), withoutTokens);
}

/** A JWT is three parts with dots between; its first begins with `{"` in base64url. */
function withoutJwts(text: string): string {
  const parts = text.split(".");
  const kept: string[] = [];
  for (let i = 0; i < parts.length; i++) {
    const part = parts[i] ?? "";
    const start = part.indexOf("eyJ");
    const isJwt = start >= 0 && part.length - start >= 11 && (parts[i + 1] ?? "") !== "" && i + 2 < parts.length;
    kept.push(isJwt ? part.slice(0, start) + CENSORED : part);
    if (isJwt) i += 2;
  }
  return kept.join(".");
}

/** A log whose level can be changed: to any of pino's. */
export interface LevelledLogger extends Logger {
  level: string;
}

/** How the log is written: lines of JSON, lines for people, or the latter on a terminal only. */
export type LogFormat = "auto" | "json" | "text";

/** Where a program's log goes: standard output. A reader that stops does not stop the program. */
export function logDestination(format: LogFormat): DestinationStream {
  const stream = pino.destination({ fd: 1, sync: true });
  stream.on("error", () => undefined);
  if (format === "json" || (format === "auto" && !process.stdout.isTTY)) return stream;
  return readable((text) => void stream.write(text), { colours: Boolean(process.stdout.isTTY) });
}

/**
 * The program's log: one JSON object per line on `destination` (standard output). Whatever a caller passes, values under names like `password` or
 * `token` and texts that look like a key or a token are replaced.
 */
export function createLogger(
  level: "debug" | "info" | "warn" | "error",
  destination?: DestinationStream,
): LevelledLogger {
  return pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: {
        level: (label) => ({ level: label }),
        log: (fields) => cleaned(fields, 0) as Record<string, unknown>,
      },
      serializers: { err: (error) => error, error: (error) => error },
      hooks: {
        logMethod(args, method) {
          const texts = args.map((arg) => (typeof arg === "string" ? withoutSecrets(arg) : arg));
          return method.apply(this, texts as Parameters<typeof method>);
        },
      },
    },
    destination ?? logDestination("auto"),
  );
}

function cleaned(value: unknown, depth: number): unknown {
  if (typeof value === "string") return withoutSecrets(value);
  if (typeof value === "bigint") return value.toString();
  if (typeof value !== "object" || value === null) return value;
  if (depth >= MAX_DEPTH) return "[too deep]";
  if (value instanceof Date) return value.toISOString();
  if (value instanceof Uint8Array) return `${value.byteLength} bytes`;
  if (value instanceof Error) return errorFields(value, depth);
  if (Array.isArray(value)) return value.map((item) => cleaned(item, depth + 1));
  if (value instanceof Map || value instanceof Set) return cleaned([...value], depth);
  const entries = Object.entries(value).map(([name, inner]) => [
    name,
    SECRET_NAME.test(name) ? CENSORED : cleaned(inner, depth + 1),
  ]);
  return Object.fromEntries(entries);
}

function errorFields(error: Error, depth: number): unknown {
  const { name, message, stack, cause, ...rest } = error;
  return cleaned({ ...rest, name, message, stack, ...(cause !== undefined && { cause }) }, depth);
}

const COLOURS: Readonly<Record<string, string>> = {
  debug: "\x1b[2m",
  info: "\x1b[32m",
  warn: "\x1b[33m",
  error: "\x1b[31m",
};
const PLAIN = "\x1b[0m";
const DIM = "\x1b[2m";
// A terminal acts on these; peers choose parts of what is logged.
const CONTROL = /(?!\n)\p{Cc}/gu;

/** Turns the log's lines of JSON into lines for people: time, level, message, fields, and below them indented stacks. */
export function readable(write: (text: string) => void, { colours }: { readonly colours: boolean }): DestinationStream {
  const paint = (colour: string, text: string) => (colours ? `${colour}${text}${PLAIN}` : text);
  return {
    write(line: string): void {
      const entry = parsed(line);
      if (entry === undefined) {
        write(line);
        return;
      }
      const { level = "", time = "", msg = "", ...fields } = entry;
      const stacks: string[] = [];
      const words = Object.entries(fields).map(([name, value]) => {
        const stack = stackOf(value);
        if (stack !== undefined) stacks.push(stack);
        return `${paint(DIM, `${name}=`)}${printed(value)}`;
      });
      const label = paint(COLOURS[String(level)] ?? "", String(level).toUpperCase().padEnd(5));
      const head = [paint(DIM, String(time)), label, clean(String(msg)), ...words].join(" ");
      write(`${[head, ...stacks.map(indented)].join("\n")}\n`);
    },
  };
}

function parsed(line: string): Record<string, unknown> | undefined {
  try {
    return JSON.parse(line) as Record<string, unknown>;
  } catch {
    return undefined;
  }
}

function stackOf(value: unknown): string | undefined {
  if (typeof value !== "object" || value === null || !("stack" in value)) return undefined;
  return typeof value.stack === "string" ? value.stack : undefined;
}

function printed(value: unknown): string {
  if (stackOf(value) !== undefined) return JSON.stringify((value as { message?: unknown }).message ?? "");
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return /^[^\s"=]+$/.test(text) ? clean(text) : typeof value === "string" ? JSON.stringify(clean(text)) : clean(text);
}

function clean(text: string): string {
  return text.replaceAll(CONTROL, "?").replaceAll("\n", " ");
}

function indented(text: string): string {
  return text
    .split("\n")
    .map((line) => `    ${line.replaceAll(CONTROL, "?").trim()}`)
    .join("\n");
}
