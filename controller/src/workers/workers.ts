import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { Backoff, pause } from "@sallyport/async";
import type { Logger } from "@sallyport/wire";
import { type FromWorker, silenceOf, type ToWorker } from "./worker-link.ts";

/** A worker that ends is started again after this time, and later each further time, unless it has run for a while. */
const RESTART = { firstMs: 500, maxMs: 30_000, healthyMs: 60_000 };
/** A worker that says nothing for this time hangs. */
const SILENT_MS = 10_000;

interface WorkersParts {
  readonly names: readonly string[];
  /** Starts the process of a worker, with a channel to it. */
  readonly spawn: (index: number) => ChildProcess;
  /** A worker that takes longer to stop is killed. */
  readonly stopMs: number;
  /** A worker that says nothing for so long is killed; default 10 s. */
  readonly silentMs?: number;
  readonly restart?: ConstructorParameters<typeof Backoff>[0];
  readonly log: Logger;
}

/** How a process ended. */
interface End {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** Starts processes, starts those that end or hang again, and stops all of them. */
export class Workers {
  readonly #parts: WorkersParts;
  readonly #running = new Map<string, ChildProcess>();
  readonly #kept: Promise<void>[] = [];
  readonly #stopping = new AbortController();

  constructor(parts: WorkersParts) {
    this.#parts = parts;
  }

  /**
   * Starts one, and then the others: what is wrong with the configuration or the database is said once.
   * @returns the exit status of a worker that ended before it was ready; undefined: all are ready, or were stopped meanwhile
   */
  async start(): Promise<number | undefined> {
    const { names } = this.#parts;
    const first = await this.#begin(0);
    if (this.#stopping.signal.aborted) return undefined;
    const ends = first === undefined ? await Promise.all(names.slice(1).map((_, at) => this.#begin(at + 1))) : [first];
    const early = ends.find((end) => end !== undefined);
    if (early === undefined || this.#stopping.signal.aborted) return undefined;
    return early.code ?? 1;
  }

  signal(signal: NodeJS.Signals): void {
    for (const child of this.#running.values()) child.kill(signal);
  }

  /** Resolves when all have ended. @returns whether all ended in order */
  async stop(): Promise<boolean> {
    const { stopMs, log } = this.#parts;
    this.#stopping.abort();
    const running = [...this.#running];
    const ends = running.map(([, child]) => endOf(child));
    for (const [, child] of running) {
      // Its end is enough: one that has no channel any more is about to end.
      if (child.connected) child.send("stop" satisfies ToWorker, () => undefined);
    }
    const timer = setTimeout(() => {
      log.error({ workers: [...this.#running.keys()] }, "workers did not stop in time: killing them");
      this.signal("SIGKILL");
    }, stopMs);
    const all = await Promise.all(ends);
    clearTimeout(timer);
    await Promise.all(this.#kept);
    return all.every(({ code }) => code === 0);
  }

  /** Starts a worker that was not there. Once it is ready, it is kept running. @returns how it ended if it was not ready before */
  async #begin(index: number): Promise<End | undefined> {
    const child = this.#spawn(index);
    const end = await readyOrEnd(child);
    if (end !== undefined) return end;
    this.#kept.push(this.#keep(index, child));
    return undefined;
  }

  async #keep(index: number, first: ChildProcess): Promise<void> {
    const { names, restart = RESTART, log } = this.#parts;
    const { signal: stopping } = this.#stopping;
    const backoff = new Backoff(restart);
    for (let child = first; ; child = this.#spawn(index)) {
      const end = await endOf(child);
      if (stopping.aborted) return;
      const restartMs = backoff.next();
      log.error({ worker: names[index], ...end, restartMs }, "a worker has ended: starting it again");
      await pause(restartMs, stopping);
      if (stopping.aborted) return;
    }
  }

  #spawn(index: number): ChildProcess {
    const { names, spawn, silentMs = SILENT_MS, log } = this.#parts;
    const name = names[index] ?? "";
    const child = spawn(index);
    this.#running.set(name, child);
    void endOf(child).then(() => this.#running.delete(name));
    void silenceOf(child, silentMs).then(() => {
      // One that is told to stop has its own limit.
      if (this.#stopping.signal.aborted) return;
      log.error({ worker: name, silentMs }, "a worker hangs: killing it");
      child.kill("SIGKILL");
    });
    child.on("error", (error) => log.error({ worker: name, error }, "a worker could not be started or reached"));
    return child;
  }
}

async function endOf(child: ChildProcess): Promise<End> {
  const { exitCode: code, signalCode: signal } = child;
  if (code !== null || signal !== null || child.pid === undefined) return { code: code ?? null, signal };
  const [exitCode, signalCode] = await once(child, "exit");
  return { code: exitCode, signal: signalCode };
}

async function readyOrEnd(child: ChildProcess): Promise<End | undefined> {
  const ready = new Promise<undefined>((resolve) => {
    child.on("message", (message) => {
      if (message === ("ready" satisfies FromWorker)) resolve(undefined);
    });
  });
  return Promise.race([ready, endOf(child)]);
}
