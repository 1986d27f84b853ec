import { type FileHandle, open, readdir, rename, stat, unlink } from "node:fs/promises";
import { basename, dirname, extname, join } from "node:path";
import type { Writable } from "node:stream";
import { errorText, pause } from "@sallyport/async";
import type { Logger } from "@sallyport/wire";
import type { EventOutput } from "./dispatcher.ts";

/** Lines are counted; this bounds the memory of large ones. */
const MAX_BYTES = 64 * 1024 * 1024;
const LOG_EVERY_MS = 10_000;

/** Lines on their way to something slow. Full: the newest are dropped, counted, and from time to time the log says how many. */
class LineBuffer {
  readonly #name: string;
  readonly #limit: number;
  readonly #log: Logger;
  #lines: string[] = [];
  #bytes = 0;
  #dropped = 0;
  #unreported = 0;
  #reportedAt = Number.NEGATIVE_INFINITY;

  constructor(options: { readonly name: string; readonly limit: number; readonly log: Logger }) {
    this.#name = options.name;
    this.#limit = options.limit;
    this.#log = options.log;
  }

  get size(): number {
    return this.#lines.length;
  }

  /** Events lost since the start. */
  get dropped(): number {
    return this.#dropped;
  }

  push(line: string): void {
    if (this.#lines.length >= this.#limit || this.#bytes + line.length > MAX_BYTES) {
      this.drop(1, "the buffer is full");
      return;
    }
    this.#lines.push(line);
    this.#bytes += line.length;
  }

  /** Everything that waits, as one text of whole lines; how many lines it holds. */
  take(): { text: string; count: number } {
    const lines = this.#lines;
    this.#lines = [];
    this.#bytes = 0;
    return { text: lines.length === 0 ? "" : `${lines.join("\n")}\n`, count: lines.length };
  }

  /** Counts events as lost. */
  drop(count: number, reason: string): void {
    this.#dropped += count;
    this.#unreported += count;
    const now = performance.now();
    if (now - this.#reportedAt < LOG_EVERY_MS) return;
    this.#reportedAt = now;
    this.#log.warn(
      { output: this.#name, dropped: this.#unreported, total: this.#dropped, reason },
      "events were dropped",
    );
    this.#unreported = 0;
  }
}

/** Writes events to a stream, one JSON object per line, as fast as it takes them. */
export class StreamOutput implements EventOutput {
  readonly name: string;
  readonly #stream: Writable;
  readonly #buffer: LineBuffer;
  #isScheduled = false;
  #isClosed = false;

  constructor(options: {
    readonly name: string;
    readonly stream: Writable;
    /** Events that may wait. */
    readonly bufferSize: number;
    readonly log: Logger;
  }) {
    this.name = options.name;
    this.#stream = options.stream;
    this.#buffer = new LineBuffer({ name: options.name, limit: options.bufferSize, log: options.log });
  }

  /** Events lost since the start. */
  get dropped(): number {
    return this.#buffer.dropped;
  }

  write(_namespace: string, json: string): void {
    if (this.#isClosed) return;
    if (this.#stream.destroyed || this.#stream.writableEnded) {
      this.#buffer.drop(1, "the stream has ended");
      return;
    }
    this.#buffer.push(json);
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(() => this.#flush());
  }

  async close(): Promise<void> {
    if (!this.#stream.writableNeedDrain) this.#flush();
    this.#isClosed = true;
  }

  #flush(): void {
    if (this.#stream.writableNeedDrain) {
      this.#stream.once("drain", () => this.#flush());
      return;
    }
    this.#isScheduled = false;
    const { text } = this.#buffer.take();
    if (text !== "" && !this.#stream.destroyed) this.#stream.write(text);
  }
}

interface FileOutputOptions {
  readonly path: string;
  /** Size at which a new file is begun. */
  readonly maxBytes: number;
  /** Older files that stay; 0 keeps all. */
  readonly maxBackups: number;
  /** Events that may wait. */
  readonly bufferSize: number;
  readonly log: Logger;
}

/** Wait after a failed write, so that a full disk is not tried a thousand times a second. */
const RETRY_MS = 1_000;
/** How often the file is compared with what its path names: another program may have moved it away. */
const LOOK_MS = 1_000;
const LINE_FEED = 0x0a;

/**
 * Appends events to a file, one JSON object per line, and begins a new file when it is full; the old one gets the time into its name.
 * Lines are whole, whatever happens: after a write that failed half-way the next one starts on a line of its own.
 */
export class FileOutput implements EventOutput {
  readonly name: string;
  readonly #options: FileOutputOptions;
  readonly #buffer: LineBuffer;
  readonly #ended = new AbortController();
  #file: FileHandle | undefined;
  #size = 0;
  #inode = 0;
  #lookedAt = 0;
  #isTorn = false;
  #writing: Promise<void> | undefined;
  /** The time in the name of the last backup: the next one is later, whatever the clock says. */
  #backedUpAt = 0;

  constructor(options: FileOutputOptions) {
    this.#options = options;
    this.name = `file ${options.path}`;
    this.#buffer = new LineBuffer({ name: this.name, limit: options.bufferSize, log: options.log });
  }

  /** Events lost since the start. */
  get dropped(): number {
    return this.#buffer.dropped;
  }

  write(_namespace: string, json: string): void {
    if (this.#ended.signal.aborted) return;
    this.#buffer.push(json);
    this.#writing ??= this.#drain().finally(() => {
      this.#writing = undefined;
    });
  }

  /** Resolves when everything written so far is in the file, or lost. */
  async flushed(): Promise<void> {
    await this.#writing;
  }

  /** Writes what waits, once, and closes the file. */
  async close(): Promise<void> {
    this.#ended.abort();
    await this.#writing;
    await this.#file?.close();
    this.#file = undefined;
  }

  async #drain(): Promise<void> {
    // What comes in the same turn goes out in one write.
    await new Promise((resolve) => setImmediate(resolve));
    while (this.#buffer.size > 0) {
      const { text, count } = this.#buffer.take();
      try {
        await this.#append(text);
      } catch (err) {
        this.#buffer.drop(count, errorText(err));
        await this.#forget();
        if (this.#ended.signal.aborted) return;
        await pause(RETRY_MS, this.#ended.signal);
      }
    }
  }

  async #append(text: string): Promise<void> {
    await this.#look();
    const bytes = Buffer.from(this.#isTorn ? `\n${text}` : text, "utf8");
    if (this.#size > 0 && this.#size + bytes.length > this.#options.maxBytes) await this.#rotate();
    const file = this.#file ?? (await this.#open());
    for (let at = 0; at < bytes.length; ) {
      const { bytesWritten } = await file.write(bytes, at);
      at += bytesWritten;
      this.#size += bytesWritten;
    }
    this.#isTorn = false;
  }

  async #open(): Promise<FileHandle> {
    const file = await open(this.#options.path, "a+", 0o600);
    this.#file = file;
    const { size, ino } = await file.stat();
    this.#size = size;
    this.#inode = ino;
    // The last writer may have been stopped in the middle of a line.
    const { buffer, bytesRead } = await file.read(Buffer.alloc(1), 0, 1, Math.max(0, size - 1));
    this.#isTorn = bytesRead === 1 && buffer[0] !== LINE_FEED;
    return file;
  }

  /** Notices that the path names another file, or none, by now. */
  async #look(): Promise<void> {
    if (this.#file === undefined) {
      await this.#open();
      return;
    }
    const now = performance.now();
    if (now - this.#lookedAt < LOOK_MS) return;
    this.#lookedAt = now;
    const named = await stat(this.#options.path).catch(() => undefined);
    if (named?.ino === this.#inode) return;
    await this.#forget();
    await this.#open();
  }

  async #rotate(): Promise<void> {
    await this.#forget();
    const { path } = this.#options;
    await rename(path, await this.#backupName());
    await this.#prune();
    await this.#open();
  }

  /** `events.json` becomes `events-2026-01-02T03-04-05.678.json`. */
  async #backupName(): Promise<string> {
    const { stem, extension, folder } = this.#parts();
    for (let at = Math.max(Date.now(), this.#backedUpAt + 1); ; at++) {
      const time = new Date(at).toISOString().slice(0, -1).replaceAll(":", "-");
      const name = join(folder, `${stem}-${time}${extension}`);
      if ((await stat(name).catch(() => undefined)) !== undefined) continue;
      this.#backedUpAt = at;
      return name;
    }
  }

  async #prune(): Promise<void> {
    const { maxBackups, log } = this.#options;
    if (maxBackups === 0) return;
    const { stem, extension, folder } = this.#parts();
    const isBackup = (name: string) =>
      name.startsWith(`${stem}-`) &&
      name.endsWith(extension) &&
      /^\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d{3}$/.test(name.slice(stem.length + 1, name.length - extension.length));
    try {
      const backups = (await readdir(folder)).filter(isBackup).sort();
      for (const name of backups.slice(0, Math.max(0, backups.length - maxBackups))) await unlink(join(folder, name));
    } catch (err) {
      log.warn({ output: this.name, err }, "old event files could not be removed");
    }
  }

  #parts(): { folder: string; stem: string; extension: string } {
    const { path } = this.#options;
    const extension = extname(path);
    return { folder: dirname(path), stem: basename(path, extension), extension };
  }

  async #forget(): Promise<void> {
    const file = this.#file;
    this.#file = undefined;
    this.#size = 0;
    await file?.close().catch(() => {});
  }
}
