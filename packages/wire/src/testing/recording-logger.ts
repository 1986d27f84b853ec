import type { Logger } from "../log.ts";

export interface LogEntry {
  readonly level: "debug" | "info" | "warn" | "error";
  readonly fields: Record<string, unknown>;
  readonly msg: string;
}

/** Keeps what is logged, for tests that ask for it. */
export class RecordingLogger implements Logger {
  readonly entries: LogEntry[] = [];

  debug(fields: object, msg: string): void {
    this.#add("debug", fields, msg);
  }
  info(fields: object, msg: string): void {
    this.#add("info", fields, msg);
  }
  warn(fields: object, msg: string): void {
    this.#add("warn", fields, msg);
  }
  error(fields: object, msg: string): void {
    this.#add("error", fields, msg);
  }

  #add(level: LogEntry["level"], fields: object, msg: string): void {
    this.entries.push({ level, fields: { ...fields }, msg });
  }
}
