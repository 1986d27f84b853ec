/** Programs that run as long as this one does, and are started again when they end. */
import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, openSync, statSync } from "node:fs";
import { copyFile, rm, truncate, writeFile } from "node:fs/promises";
import { abortable, Backoff, Listeners, pause } from "@sallyport/async";
import { CommandError } from "../../errors.ts";
import { STOP_MS, stopEarlier } from "./earlier-program.ts";
import { lastWords } from "./log-tail.ts";
import { markOf, markText } from "./process-mark.ts";

const READY_MS = 120_000;
const ASK_MS = 100;
/** A log that is longer begins again; the one before is kept beside it. */
const ROTATE_MS = 600_000;
const MAX_LOG_BYTES = 10 * 1024 * 1024;

export interface SupervisedOptions {
  /** In messages. */
  readonly name: string;
  readonly command: readonly [string, ...string[]];
  readonly env: NodeJS.ProcessEnv;
  readonly cwd: string;
  /** Gets what it prints. */
  readonly logFile: string;
  /** Says which process it is, so that the next run finds it when this one is killed. */
  readonly pidFile: string;
}

/** A program with a process group of its own: the Ctrl-C of a terminal reaches this process alone, which stops its programs in order. */
export class SupervisedProgram {
  /** Called when it ended by itself; it starts again after that time. */
  readonly onRestart = new Listeners<[reason: string, retryMs: number]>();
  readonly name: string;
  readonly #options: SupervisedOptions;
  readonly #backoff = new Backoff({ firstMs: 500, maxMs: 30_000, healthyMs: 60_000 });
  readonly #stop = new AbortController();
  #child: ChildProcess | undefined;
  #ended: Promise<string> = Promise.resolve("");
  #logStart = 0;

  private constructor(options: SupervisedOptions) {
    this.name = options.name;
    this.#options = options;
  }

  /** Starts it, after one of an earlier run that was killed has been stopped. */
  static async start(options: SupervisedOptions, stop: AbortSignal): Promise<SupervisedProgram> {
    await stopEarlier(options.pidFile, stop);
    const program = new SupervisedProgram(options);
    await rotate(options.logFile);
    await program.#launch();
    return program;
  }

  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /**
   * Resolves when `probe` says so; from then on the program is started again whenever it ends.
   *
   * @throws CommandError with its last words when it ends before, or takes too long; the signal's reason
   */
  async ready(probe: () => Promise<boolean>, stop: AbortSignal): Promise<void> {
    const { name, logFile } = this.#options;
    const deadline = performance.now() + READY_MS;
    let reason: string | undefined;
    void this.#ended.then((why) => {
      reason = why;
    });
    while (
      !(await abortable(
        probe().catch(() => false),
        stop,
      ))
    ) {
      if (reason !== undefined) {
        throw new CommandError(`the ${name} ended: ${(await this.#words()) || reason}; its log is ${logFile}`);
      }
      if (performance.now() > deadline) {
        throw new CommandError(
          `the ${name} is not ready after ${READY_MS / 1_000} s: ${(await this.#words()) || "it said nothing"}; its log is ${logFile}`,
        );
      }
      await pause(ASK_MS, stop);
      stop.throwIfAborted();
    }
    void this.#keep();
    void this.#rotateLogs();
  }

  /** Asks it to stop, and ends it if it has not within the time limit. */
  async stop(): Promise<void> {
    this.#stop.abort();
    const child = this.#child;
    if (child === undefined) return;
    child.kill("SIGTERM");
    const limit = setTimeout(() => child.kill("SIGKILL"), STOP_MS);
    await this.#ended;
    clearTimeout(limit);
    await rm(this.#options.pidFile, { force: true });
  }

  /** Ends it at once. */
  kill(): void {
    this.#stop.abort();
    this.#child?.kill("SIGKILL");
  }

  async #launch(): Promise<void> {
    const { command, env, cwd, logFile, pidFile } = this.#options;
    const [file, ...args] = command;
    const log = openSync(logFile, "a", 0o600);
    try {
      this.#logStart = statSync(logFile).size;
      const child = spawn(file, args, { env, cwd, stdio: ["ignore", log, log], detached: true });
      this.#child = child;
      this.#ended = new Promise((resolve) => {
        child.once("error", (error) => resolve(error.message));
        child.once("exit", (code, signal) => resolve(signal === null ? `status ${code}` : `signal ${signal}`));
      });
      if (child.pid !== undefined) await writeFile(pidFile, markText(markOf(child.pid)), { mode: 0o600 });
    } finally {
      closeSync(log);
    }
  }

  async #keep(): Promise<void> {
    for (;;) {
      const reason = await this.#ended;
      if (this.#stop.signal.aborted) return;
      const retryMs = this.#backoff.next();
      // A killed program had no time to say why.
      const words = reason.startsWith("signal") ? "" : await this.#words();
      this.onRestart.emit(words || reason, retryMs);
      await pause(retryMs, this.#stop.signal);
      if (this.#stop.signal.aborted) return;
      await this.#launch();
    }
  }

  async #rotateLogs(): Promise<void> {
    const { logFile } = this.#options;
    while (!this.#stop.signal.aborted) {
      await pause(ROTATE_MS, this.#stop.signal);
      // A full disk must not end the network: the next time may succeed.
      await rotate(logFile).catch(() => undefined);
    }
  }

  async #words(): Promise<string> {
    return await lastWords(this.#options.logFile, this.#logStart);
  }
}

async function rotate(logFile: string): Promise<void> {
  const size = statSync(logFile, { throwIfNoEntry: false })?.size ?? 0;
  if (size <= MAX_LOG_BYTES) return;
  // The program keeps the file open, and writes behind its end, wherever that is.
  await copyFile(logFile, `${logFile}.1`);
  await truncate(logFile);
}
