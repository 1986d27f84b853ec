import { type FileHandle, open } from "node:fs/promises";
import { errorText, pause } from "@sallyport/async";
import { type Channel, encodeControl, type Logger, mgmtPb } from "@sallyport/wire";
import { decodedFields, observe, tracedMessage, traceTime } from "./message-trace.ts";

export interface TraceFileOptions {
  readonly path: string;
  readonly routerId: string;
  readonly log: Logger;
  /** Bytes that may wait for the disk, before one more record; 1 MiB when absent. */
  readonly maxWaiting?: number;
}

const RecordType = { ChannelState: 0, Message: 1 } as const;
const PREFIX = 8;
const MAX_WAITING = 1024 * 1024;
/** After a write that failed nothing is written for so long; what comes then is lost. */
const PAUSE_MS = 1_000;

/**
 * Writes the messages of all channels to a file, decoded, for debugging (docs/router/observability.md, "Traces"). It never
 * holds up the router: when the disk is slow or full, records are left out and counted in the log.
 */
export class TraceFile {
  readonly #o: TraceFileOptions;
  readonly #file: FileHandle;
  #waiting: Buffer[] = [];
  #waitingBytes = 0;
  /** Length of the whole records in the file. */
  #length = 0;
  #lost = 0;
  #writing: Promise<void> | undefined;
  #isClosed = false;

  private constructor(options: TraceFileOptions, file: FileHandle) {
    this.#o = options;
    this.#file = file;
  }

  /** Records what passes a channel from now on, that it is there, and its end. */
  follow(name: string, channel: Channel): void {
    if (this.#isClosed) return;
    const { address } = channel.peer;
    this.#state(name, true, address);
    const stop = observe(channel, (message) => {
      if (this.#isFull) this.#lost++;
      else this.#record(RecordType.Message, tracedMessage(this.#o.routerId, name, message, decodedFields(message)));
    });
    channel.onClose(() => {
      stop();
      this.#state(name, false, address);
    });
  }

  /** @throws Error as opening gives it, for example `ENOENT` */
  static async open(options: TraceFileOptions): Promise<TraceFile> {
    return new TraceFile(options, await open(options.path, "w", 0o600));
  }

  /** Writes what waits, and ends the file. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#writing;
    await this.#write();
    await this.#file.close();
  }

  get #isFull(): boolean {
    return this.#waitingBytes >= (this.#o.maxWaiting ?? MAX_WAITING);
  }

  #state(channel: string, connected: boolean, remoteAddress: string): void {
    const fields = { timestamp: traceTime(), identity: this.#o.routerId, channel, connected, remoteAddress };
    this.#record(RecordType.ChannelState, encodeControl(mgmtPb.ChannelStateSchema, fields));
  }

  #record(type: number, body: Buffer): void {
    if (this.#isClosed) return;
    if (this.#isFull) {
      this.#lost++;
      return;
    }
    const prefix = Buffer.alloc(PREFIX);
    prefix.writeInt32LE(type, 0);
    prefix.writeInt32LE(body.length, 4);
    this.#waiting.push(prefix, body);
    this.#waitingBytes += PREFIX + body.length;
    this.#writing ??= this.#writeAll();
  }

  async #writeAll(): Promise<void> {
    // What one turn of the event loop brings leaves in one write.
    await new Promise((resolve) => setImmediate(resolve));
    while (this.#waiting.length > 0 && !this.#isClosed) {
      if (!(await this.#write())) await pause(PAUSE_MS, undefined, { ref: false });
    }
    this.#writing = undefined;
  }

  /** Whole records or nothing: what was written of a record that failed is cut off again. */
  async #write(): Promise<boolean> {
    const bytes = Buffer.concat(this.#waiting);
    if (bytes.length === 0) return true;
    const records = this.#waiting.length / 2;
    this.#waiting = [];
    this.#waitingBytes = 0;
    try {
      for (let written = 0; written < bytes.length; ) {
        const { bytesWritten } = await this.#file.write(bytes, written, bytes.length - written, this.#length + written);
        written += bytesWritten;
      }
      this.#length += bytes.length;
      if (this.#lost > 0) this.#o.log.warn({ path: this.#o.path, records: this.#lost }, "trace records were left out");
      this.#lost = 0;
      return true;
    } catch (error) {
      this.#lost += records;
      const reason = errorText(error);
      this.#o.log.warn({ path: this.#o.path, records: this.#lost, reason }, "trace records cannot be written");
      await this.#file.truncate(this.#length).catch(() => {});
      return false;
    }
  }
}
