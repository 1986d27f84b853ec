/** The keeper of a cluster, from the side of the program that started it. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import type { KeeperOptions } from "./main.ts";
import { listen, type Upward } from "./protocol.ts";

export interface Ready {
  readonly kubeconfig: string;
  /** Of all that the cluster writes. */
  readonly folder: string;
  readonly slot: number;
}

export class KeeperProcess {
  /** Rejects with the words of what failed when the cluster does not become ready; nothing is left then. */
  readonly ready: Promise<Ready>;
  /** Milliseconds from the beginning at which each stage was reached. */
  readonly stages = new Map<string, number>();
  readonly #child: ChildProcess;
  #words = "";

  constructor(options: KeeperOptions, onStage: (stage: string, ms: number) => void = () => {}) {
    const child = spawn(process.execPath, [join(import.meta.dirname, "main.ts"), JSON.stringify(options)], {
      stdio: ["pipe", "pipe", "pipe"],
      // What ends the test from the keyboard ends the keeper by its input, in good order.
      detached: true,
    });
    this.#child = child;
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      this.#words = (this.#words + text).slice(-4000);
    });
    child.stdin.on("error", () => {});
    this.ready = new Promise((resolve, reject) => {
      const fail = (why: string): void => {
        reject(new Error(`${why}\n${this.#words}`.trim()));
      };
      void listen<Upward>(child.stdout, (message) => {
        if ("ready" in message) resolve(message.ready);
        else if ("failed" in message) fail(`the cluster failed: ${message.failed}`);
        else {
          this.stages.set(message.stage, message.ms);
          onStage(message.stage, message.ms);
        }
      });
      child.once("error", (error) => fail(`the keeper of the cluster could not be started: ${error.message}`));
      child.once("exit", (code, signal) => fail(`the keeper of the cluster ended with ${signal ?? code}`));
    });
  }

  /** Resolves when nothing is left. @throws Error when something could not be removed */
  async end(): Promise<void> {
    if (this.#hasEnded) return;
    const closed = once(this.#child, "close");
    this.#child.stdin?.end();
    const [code] = (await closed) as [number | null];
    if (code !== 0) throw new Error(`the keeper of the cluster ended with ${code}: ${this.#words.trim()}`);
  }

  get #hasEnded(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }
}
