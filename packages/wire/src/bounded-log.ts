import { errorText } from "@sallyport/async";
import type { Logger } from "./log.ts";
import { shownText } from "./shown-text.ts";

/** Lines of one message that are written in each minute; further ones are counted. */
export interface LineBounds {
  /** Of those with the same reason: a frequent one must not hide a rare one. */
  readonly perReason: number;
  /** Of all of them: a stranger may make up as many reasons as he likes. */
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
 * A log for what anybody who can connect may cause as often as he likes: of each message a few lines are written in each
 * minute, then one that says how many were left out (docs/router-observability.md, "The log"). Those are written at level
 * `debug`, whose lines all pass, since only an operator's wish makes them appear. Long texts are cut, on every level. It belongs to something that lasts, a listener or a service: each
 * has its own count. A log that is bounded already is given back as it is.
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

interface Reasons {
  readonly code?: unknown;
  readonly reason?: unknown;
  readonly error?: unknown;
  readonly err?: unknown;
  readonly identityId?: unknown;
}

/** Why the line is written, and for whom where that is somebody known: the part of its fields by which lines are alike. */
function reasonIn(fields: Reasons): string | undefined {
  const { code, reason, error, err, identityId } = fields;
  const said = reason ?? error ?? (err === undefined ? undefined : errorText(err));
  const parts = [identityId, code, said].filter((part) => part !== undefined);
  return parts.length === 0 ? undefined : parts.join(" ");
}
