import { errorText } from "@sallyport/async";

/** Structured logging as the wire uses it; a pino logger fits. Fields never hold secrets, tokens or key material. */
export interface Logger {
  debug(fields: object, msg: string): void;
  info(fields: object, msg: string): void;
  warn(fields: object, msg: string): void;
  error(fields: object, msg: string): void;
}

const drop = (): void => {};

/** Says nothing: for programs that bring no logger. */
export const silentLogger: Logger = { debug: drop, info: drop, warn: drop, error: drop };

/** A claim of the other end, as log lines and events show it: at most `max` characters. */
export function shownText(text: string, max = 100): string {
  // A character may be two code units, of which none is shown without the other.
  return text.length <= max
    ? text
    : `${text
        .slice(0, max - 1)
        .toWellFormed()
        .replace(/\uFFFD$/, "")}…`;
}

/** Lines of one message that are written in each minute; further ones are counted. */
export interface LineBounds {
  /** With the same reason: a frequent one must not hide a rare one. */
  readonly perReason: number;
  /** Of all reasons: an unauthenticated client may invent as many as it likes. */
  readonly perMessage: number;
}

export const lineBounds: LineBounds = { perReason: 5, perMessage: 20 };

type Level = "info" | "warn" | "error";

interface Lines {
  readonly level: Level;
  readonly byReason: Map<string, number>;
  written: number;
  leftOut: number;
}

const WINDOW_MS = 60_000;
/** Characters of a text in a line: a few claims and what is said about them. */
const MAX_TEXT = 500;

/**
 * A log for events that any client can cause. It writes a few lines of each message per minute, then one that counts those left out
 * (docs/router/observability.md, "The log"); it writes the latter at level `debug`, which has no limit. It cuts long texts on every level.
 * Each long-lived owner, such as a listener or a service, needs its own. A log that is bounded already is returned as it is.
 */
export function boundedLog(log: Logger, bounds: LineBounds = lineBounds): Logger {
  return log instanceof BoundedLog ? log : new BoundedLog(log, bounds);
}

class BoundedLog implements Logger {
  readonly #log: Logger;
  readonly #bounds: LineBounds;
  /** Of this minute, by message: the program's own words, so there are few. */
  readonly #lines = new Map<string, Lines>();

  constructor(log: Logger, bounds: LineBounds) {
    this.#log = log;
    this.#bounds = bounds;
  }

  debug(fields: object, msg: string): void {
    this.#log.debug(cut(fields), msg);
  }

  info(fields: object, msg: string): void {
    this.#write("info", fields, msg);
  }

  warn(fields: object, msg: string): void {
    this.#write("warn", fields, msg);
  }

  error(fields: object, msg: string): void {
    this.#write("error", fields, msg);
  }

  #write(level: Level, said: object, msg: string): void {
    const fields = cut(said);
    const lines = this.#linesOf(level, msg);
    const reason = reasonIn(fields);
    const alike = reason === undefined ? 0 : (lines.byReason.get(reason) ?? 0);
    if (lines.written >= this.#bounds.perMessage || alike >= this.#bounds.perReason) {
      lines.leftOut++;
      this.#log.debug(fields, msg);
      return;
    }
    lines.written++;
    if (reason !== undefined) lines.byReason.set(reason, alike + 1);
    this.#log[level](fields, msg);
  }

  #linesOf(level: Level, msg: string): Lines {
    let lines = this.#lines.get(msg);
    if (lines === undefined) {
      // The first line since a minute of silence begins the next minute.
      if (this.#lines.size === 0) setTimeout(() => this.#minuteOver(), WINDOW_MS).unref();
      lines = { level, byReason: new Map(), written: 0, leftOut: 0 };
      this.#lines.set(msg, lines);
    }
    return lines;
  }

  #minuteOver(): void {
    for (const [line, { level, leftOut }] of this.#lines) {
      if (leftOut > 0)
        this.#log[level]({ line, leftOut, seconds: WINDOW_MS / 1000 }, "more lines of the kind were left out");
    }
    this.#lines.clear();
  }
}

/** Long texts in the fields, and of errors among them, are cut. */
function cut(fields: object): object {
  const entries = Object.entries(fields);
  if (!entries.some(([, value]) => isLong(value))) return fields;
  return Object.fromEntries(entries.map(([name, value]) => [name, isLong(value) ? shortened(value) : value]));
}

function isLong(value: unknown): value is string | Error {
  return (value instanceof Error ? value.message : typeof value === "string" ? value : "").length > MAX_TEXT;
}

function shortened(value: string | Error): string | object {
  if (typeof value === "string") return shownText(value, MAX_TEXT);
  const { name, message, ...rest } = value;
  return { ...rest, name, message: shownText(message, MAX_TEXT) };
}

/** The part of the fields by which lines are alike: the reason, and the identity where it is known. */
function reasonIn(
  fields: Partial<Record<"code" | "reason" | "error" | "err" | "identityId", unknown>>,
): string | undefined {
  const { code, reason, error, err, identityId } = fields;
  const said = reason ?? error ?? (err === undefined ? undefined : errorText(err));
  const parts = [identityId, code, said].filter((part) => part !== undefined);
  return parts.length === 0 ? undefined : parts.join(" ");
}
