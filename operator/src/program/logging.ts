import { type DestinationStream, type Logger, pino } from "pino";
import { CENSORED, withoutSecrets } from "./secret-texts.ts";
import type { LogLevel } from "./settings.ts";

/** Names of fields whose values are never shown, wherever they stand. */
const SECRET_NAME =
  /^(.*password|.*token|.*jwt|.*pem|.*privatekey|data|stringData|authorization|(set-)?cookie|zt-session|svc-session)$/i;
const MAX_DEPTH = 5;

/** One JSON object per line, without secrets. */
export function createLogger(level: LogLevel, destination?: DestinationStream): Logger {
  const options = {
    level,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: {
      level: (label: string) => ({ level: label }),
      log: (fields: object) => cleaned(fields, 0) as Record<string, unknown>,
    },
    serializers: { err: (error: unknown) => error, error: (error: unknown) => error },
  };
  return destination === undefined ? pino(options) : pino(options, destination);
}

function cleaned(value: unknown, depth: number): unknown {
  if (typeof value === "string") return withoutSecrets(value);
  if (typeof value !== "object" || value === null) return value;
  if (depth > MAX_DEPTH) return "[deeper]";
  if (value instanceof Error) return errorFields(value, depth);
  if (Array.isArray(value)) return value.map((item) => cleaned(item, depth + 1));
  return Object.fromEntries(
    Object.entries(value).map(([name, field]) => [name, SECRET_NAME.test(name) ? CENSORED : cleaned(field, depth + 1)]),
  );
}

/** What tells one error from another; whatever else a library hung onto it may be anything. */
function errorFields(error: Error, depth: number): object {
  const known = error as Error & { code?: unknown; status?: unknown; reason?: unknown; requestId?: unknown };
  const { name, message, stack, code, status, reason, requestId, cause } = known;
  const plain = { code, status, reason, requestId };
  const given = Object.entries(plain).filter(([, value]) => typeof value === "string" || typeof value === "number");
  return {
    type: name,
    message: withoutSecrets(message),
    ...Object.fromEntries(given.map(([field, value]) => [field, cleaned(value, depth + 1)])),
    stack: withoutSecrets(stack ?? ""),
    ...(cause instanceof Error ? { cause: cleaned(cause, depth + 1) } : {}),
  };
}
