/** What the log shows, from most to least. */
export const LOG_LEVELS = ["debug", "info", "warn", "error"] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** How the log is written: lines of JSON, lines for people, or the latter on a terminal only. */
export const LOG_FORMATS = ["auto", "json", "text"] as const;
export type LogFormat = (typeof LOG_FORMATS)[number];

/** What an environment variable says cannot be used. The message names the variable and the values that can. */
export class LogSettingError extends Error {
  override name = "LogSettingError";
}

export interface LogSettings {
  readonly level: LogLevel;
  readonly format: LogFormat;
}

/**
 * The settings of a log from `SALLYPORT_LOG_LEVEL` (default `info`) and `SALLYPORT_LOG_FORMAT` (default `auto`).
 * @param options.verbose `debug`, whatever the environment says
 * @throws LogSettingError
 */
export function logSettings(
  env: Readonly<Record<string, string | undefined>>,
  { verbose = false }: { readonly verbose?: boolean } = {},
): LogSettings {
  const level = oneOf("SALLYPORT_LOG_LEVEL", LOG_LEVELS, env) ?? "info";
  return { level: verbose ? "debug" : level, format: oneOf("SALLYPORT_LOG_FORMAT", LOG_FORMATS, env) ?? "auto" };
}

function oneOf<T extends string>(
  variable: string,
  values: readonly T[],
  env: Readonly<Record<string, string | undefined>>,
): T | undefined {
  const text = env[variable];
  if (!text) return undefined;
  const found = values.find((value) => value === text);
  if (found === undefined)
    throw new LogSettingError(`${variable} must be one of ${values.join(", ")}, found ${JSON.stringify(text)}`);
  return found;
}
