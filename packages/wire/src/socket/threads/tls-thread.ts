import { Worker } from "node:worker_threads";
import { Backoff } from "@sallyport/async";
import { HandshakeError } from "../../errors.ts";
import type { Logger } from "../../log.ts";
import { type Batch, Exchange } from "./exchange.ts";
import { type Instruction, Op, type ThreadReport, type ThreadSettings } from "./messages.ts";
import { ThreadSocket } from "./thread-socket.ts";

/** Packed programs have it beside them (scripts/pack.ts). */
const FILE = new URL(import.meta.url.endsWith(".ts") ? "./tls-worker.ts" : "./tls-worker.js", import.meta.url);
const FIRST_PAUSE_MS = 100;
const MAX_PAUSE_MS = 10_000;
/** A thread that ran so long has recovered. */
const RECOVERED_MS = 60_000;
/** A thread that is told to close has so long to end by itself. */
const CLOSE_MS = 1_000;

export interface TlsThreadOptions {
  /** For logs. */
  readonly number: number;
  /** What it is started with, asked for again at every start. */
  settings(): ThreadSettings;
  onSocket(user: string, socket: ThreadSocket): void;
  readonly log: Logger;
}

/** The main thread's side of one thread: its connections, and its being started again when it dies. */
export class TlsThread {
  readonly #o: TlsThreadOptions;
  readonly #sockets = new Map<number, ThreadSocket>();
  #worker: Worker | undefined;
  #exchange: Exchange<ThreadReport, Instruction> | undefined;
  #isClosed = false;
  readonly #backoff = new Backoff({ firstMs: FIRST_PAUSE_MS, maxMs: MAX_PAUSE_MS });
  #restart: NodeJS.Timeout | undefined;

  constructor(options: TlsThreadOptions) {
    this.#o = options;
  }

  /** Connections it serves. */
  get connections(): number {
    return this.#sockets.size;
  }

  /** Resolves when it listens. @throws Error what listening throws there, or why it ended */
  start(): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const worker = new Worker(FILE, { workerData: this.#o.settings(), execArgv: [] });
    let failure: Error | undefined;
    let listensSince: number | undefined;
    const exchange = new Exchange<ThreadReport, Instruction>((batch, transfer) => worker.postMessage(batch, transfer), {
      data: (connection, bytes) => this.#sockets.get(connection)?.arrived(bytes),
      op: (op, connection, count) => this.#told(op, connection, count),
      note: (report) => {
        if (report.kind === "listening") {
          listensSince = performance.now();
          resolve();
        } else {
          this.#reported(report, exchange);
        }
      },
    });
    this.#worker = worker;
    this.#exchange = exchange;
    worker.on("message", (batch: Batch<ThreadReport>) => exchange.receive(batch));
    worker.on("error", (error) => {
      failure = error instanceof Error ? error : new Error(String(error));
    });
    worker.on("exit", (code) => {
      const reason =
        failure ?? new HandshakeError("THREAD_ENDED", `a thread for TLS ended with exit code ${code}, start another`);
      this.#worker = undefined;
      this.#exchange = undefined;
      reject(reason);
      for (const socket of this.#sockets.values()) socket.gone(reason);
      this.#sockets.clear();
      if (listensSince !== undefined && !this.#isClosed) this.#ended(reason, performance.now() - listensSince);
    });
    return promise;
  }

  tell(instruction: Instruction): void {
    this.#exchange?.note(instruction);
  }

  /** Cuts its connections, and ends it. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#restart);
    const worker = this.#worker;
    if (worker === undefined) return;
    const exited = new Promise<void>((resolve) => worker.once("exit", () => resolve()));
    this.tell({ kind: "close" });
    const late = setTimeout(() => void worker.terminate(), CLOSE_MS);
    await exited;
    clearTimeout(late);
  }

  #ended(reason: Error, ranMs: number): void {
    if (ranMs > RECOVERED_MS) this.#backoff.reset();
    const restartMs = this.#backoff.next();
    this.#o.log.error(
      { thread: this.#o.number, err: reason, restartMs },
      "a thread for TLS ended and its connections with it; it is started again",
    );
    this.#restartIn(restartMs);
  }

  #restartIn(delayMs: number): void {
    this.#restart = setTimeout(() => {
      this.start().then(
        () => this.#o.log.info({ thread: this.#o.number }, "a thread for TLS was started again"),
        (error: unknown) => {
          if (this.#isClosed) return;
          this.#o.log.error({ thread: this.#o.number, err: error }, "a thread for TLS could not be started again");
          this.#restartIn(this.#backoff.next());
        },
      );
    }, delayMs);
  }

  #told(op: Op, connection: number, count: number): void {
    const socket = this.#sockets.get(connection);
    if (op === Op.taken) socket?.taken(count);
    else if (op === Op.end) socket?.ended();
    else if (op === Op.finished) socket?.finished();
  }

  #reported(report: Exclude<ThreadReport, { kind: "listening" }>, exchange: Exchange<ThreadReport, Instruction>): void {
    if (report.kind === "log") {
      this.#o.log[report.level]({ thread: this.#o.number, ...report.fields }, report.msg);
    } else if (report.kind === "closed") {
      this.#sockets.get(report.connection)?.gone(report.error);
      this.#sockets.delete(report.connection);
    } else {
      const socket = new ThreadSocket(report, exchange);
      this.#sockets.set(report.connection, socket);
      socket.on("error", (error) =>
        this.#o.log.debug({ thread: this.#o.number, reason: error.message }, "connection failed"),
      );
      this.#o.onSocket(report.user, socket);
    }
  }
}
