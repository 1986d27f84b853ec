import { rename, writeFile } from "node:fs/promises";
import { resolve } from "node:path";
import { errorText } from "@sallyport/async";
import type { Logger } from "@sallyport/wire";
import { Profiler } from "@sallyport/wire/agent/runtime";

export interface ProfilesOptions {
  readonly cpu?: { readonly path: string } | undefined;
  readonly memory?: { readonly path: string; readonly intervalMs: number } | undefined;
  readonly baseDir: string;
  readonly log: Logger;
}

/**
 * Profiles of the process from its start, for debugging (docs/router/observability.md, "Profiles"): of the CPU until it is
 * ended, of memory again and again into the same file, which is whole at any time. What goes wrong is logged and harms nothing else.
 */
export class Profiles {
  readonly #o: ProfilesOptions;
  readonly #profiler = new Profiler();
  #timer: NodeJS.Timeout | undefined;
  #isCpuRunning = false;
  #writing: Promise<void> | undefined;

  private constructor(options: ProfilesOptions) {
    this.#o = options;
  }

  static async start(options: ProfilesOptions): Promise<Profiles> {
    const profiles = new Profiles(options);
    await profiles.#start();
    return profiles;
  }

  /** Ends the CPU profile and writes it; without effect when it has ended. */
  async endCpu(): Promise<void> {
    if (!this.#isCpuRunning || this.#o.cpu === undefined) return;
    this.#isCpuRunning = false;
    await this.#write(this.#o.cpu.path, "cpu", () => this.#profiler.stopCpu());
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.endCpu();
    await this.#writing;
    if (this.#o.memory !== undefined) await this.#writeMemory();
    this.#profiler.close();
  }

  async #start(): Promise<void> {
    const { cpu, memory, log } = this.#o;
    try {
      if (cpu !== undefined) {
        await this.#profiler.startCpu();
        this.#isCpuRunning = true;
        log.info({ path: cpu.path }, "profiling the CPU until SIGUSR2 or the stop");
      }
      if (memory !== undefined) {
        await this.#profiler.startHeap();
        this.#timer = setInterval(() => {
          this.#writing ??= this.#writeMemory().finally(() => {
            this.#writing = undefined;
          });
        }, memory.intervalMs).unref();
        log.info({ path: memory.path, intervalMs: memory.intervalMs }, "profiling memory");
      }
    } catch (err) {
      log.error({ err }, "profiles cannot be taken");
    }
  }

  async #writeMemory(): Promise<void> {
    const { memory } = this.#o;
    if (memory === undefined) return;
    await this.#write(memory.path, "memory", () => this.#profiler.heap());
  }

  async #write(path: string, kind: string, take: () => Promise<unknown>): Promise<void> {
    const file = resolve(this.#o.baseDir, path);
    try {
      const text = JSON.stringify(await take());
      await writeFile(`${file}.new`, text, { mode: 0o600 });
      await rename(`${file}.new`, file);
      this.#o.log.debug({ path: file, kind }, "a profile was written");
    } catch (error) {
      this.#o.log.error({ path: file, kind, reason: errorText(error) }, "a profile cannot be written");
    }
  }
}
