import { type DestinationStream, type Logger, pino } from "pino";
import type { LogFormat, LogLevel } from "./level.ts";
import { readable } from "./readable.ts";
import { CENSORED, isSecretName, withoutSecrets } from "./secret-texts.ts";

const MAX_DEPTH = 6;
/** What else an error may say beside type, message, stack and cause. Libraries attach anything to errors, such as the body of a response. */
const ERROR_FIELDS = [
  ...["code", "status", "reason", "requestId"],
  ...["errno", "syscall", "path", "address", "port", "hostname"],
  ...["severity", "detail", "schema", "table", "column", "constraint"],
];

/** A log whose level can be changed: to any of pino's. */
export interface LevelledLogger extends Logger {
  level: string;
}

export interface LogOptions {
  readonly level: LogLevel;
  /** Default: `auto`. */
  readonly format?: LogFormat;
  /** Takes lines of JSON. Default: standard output, in the given format. */
  readonly destination?: DestinationStream;
  /** In every line. */
  readonly fields?: Readonly<Record<string, unknown>>;
  /** A further name of fields whose values are never shown. */
  readonly secretName?: RegExp;
}

/**
 * The log of a program: one JSON object per line, with level by name, time in ISO 8601 and the message last; lines for people on a terminal. Whatever a caller
 * passes, values under names like `password` or `token` and texts that look like a key or a token are replaced.
 */
export function createLogger({ level, format = "auto", destination, fields, secretName }: LogOptions): LevelledLogger {
  const isSecret = (name: string) => isSecretName(name) || secretName?.test(name) === true;
  return pino(
    {
      level,
      base: fields ?? null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: {
        level: (label) => ({ level: label }),
        log: (fields) => cleaned(fields, isSecret, 0) as Record<string, unknown>,
      },
      serializers: { err: (error) => error, error: (error) => error },
      hooks: {
        logMethod(args, method) {
          const texts = args.map((arg) => (typeof arg === "string" ? withoutSecrets(arg) : arg));
          return method.apply(this, texts as Parameters<typeof method>);
        },
      },
    },
    destination ?? standardOutput(format),
  );
}

/** A reader that stops does not stop the program. */
function standardOutput(format: LogFormat): DestinationStream {
  const stream = pino.destination({ fd: 1, sync: true });
  stream.on("error", () => undefined);
  const isTerminal = Boolean(process.stdout.isTTY);
  if (format === "json" || (format === "auto" && !isTerminal)) return stream;
  return readable((text) => void stream.write(text), { colours: isTerminal && !process.env.NO_COLOR });
}

function cleaned(value: unknown, isSecret: (name: string) => boolean, depth: number): unknown {
  if (typeof value === "string") return withoutSecrets(value);
  if (typeof value === "bigint") return value.toString();
  if (typeof value !== "object" || value === null) return value;
  if (depth >= MAX_DEPTH) return "[too deep]";
  if (value instanceof Date) return value.toISOString();
  if (value instanceof Uint8Array) return `${value.byteLength} bytes`;
  if (value instanceof Error) return cleaned(errorFields(value), isSecret, depth);
  if (Array.isArray(value)) return value.map((item) => cleaned(item, isSecret, depth + 1));
  if (value instanceof Map || value instanceof Set) return cleaned([...value], isSecret, depth);
  const entries = Object.entries(value).map(([name, inner]) => [
    name,
    isSecret(name) ? CENSORED : cleaned(inner, isSecret, depth + 1),
  ]);
  return Object.fromEntries(entries);
}

function errorFields(error: Error): object {
  const { name, message, stack, cause } = error;
  const said = Object.entries(error).filter(
    ([field, value]) => ERROR_FIELDS.includes(field) && (typeof value === "string" || typeof value === "number"),
  );
  const shownCause = cause instanceof Error || typeof cause === "string" ? { cause } : {};
  return { type: name, message, ...Object.fromEntries(said), stack, ...shownCause };
}
