import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createWriteStream, type WriteStream } from "node:fs";
import { connect } from "node:net";
import { createInterface } from "node:readline";
import { Listeners, pause } from "@sallyport/async";

/** How long is waited for what comes within a second or two on a quiet machine. */
const PATIENCE_MS = 120_000;
/** A router waits 20 s for its circuits, and then stops within 10 s. */
const STOP_MS = 35_000;
const LAST_LINES_MS = 1_000;

export interface ProgramOptions {
  /** Name in messages and of the log file. */
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** File that gets everything the program prints. */
  readonly logFile?: string;
}

/** A program of the network under test: started, watched, and always stopped. */
export class Program {
  readonly name: string;
  /** The last lines it printed, oldest first; what a failed test shows. */
  readonly tail: string[] = [];
  readonly #child: ChildProcess;
  readonly #log: WriteStream | undefined;
  readonly #watchers = new Listeners<[line: string]>();
  readonly #exited: Promise<number | null>;
  #isSignalled = false;

  constructor(options: ProgramOptions) {
    this.name = options.name;
    this.#log = options.logFile === undefined ? undefined : createWriteStream(options.logFile, { flags: "a" });
    this.#child = spawn(options.command, options.args, {
      stdio: ["ignore", "pipe", "pipe"],
      env: { ...process.env, ...options.env },
      ...(options.cwd !== undefined && { cwd: options.cwd }),
    });
    this.#exited = new Promise((resolve) => {
      this.#child.once("exit", (code) => {
        // Its last lines may still be unread. What it has left behind may hold its output open.
        const timer = setTimeout(resolve, LAST_LINES_MS, code);
        this.#child.once("close", () => {
          clearTimeout(timer);
          resolve(code);
        });
      });
      this.#child.once("error", (error) => {
        this.#take(`could not be started: ${error.message}`);
        resolve(null);
      });
    });
    for (const stream of [this.#child.stdout, this.#child.stderr]) {
      if (stream !== null) createInterface({ input: stream }).on("line", (line) => this.#take(line));
    }
    running.add(this);
    void this.#exited.then(() => running.delete(this));
  }

  get pid(): number {
    return this.#child.pid ?? -1;
  }

  get isRunning(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null;
  }

  /** The exit code, when its last lines were read; null when it was ended by a signal. */
  get exited(): Promise<number | null> {
    return this.#exited;
  }

  /** Resolves with the first line, printed from now on or among the last ones, that matches; rejects when the program ends first. */
  async line(pattern: RegExp, timeoutMs = PATIENCE_MS): Promise<string> {
    const seen = this.tail.find((line) => pattern.test(line));
    return seen ?? (await this.nextLine(pattern, timeoutMs));
  }

  /** The same for lines printed from now on only. */
  async nextLine(pattern: RegExp, timeoutMs = PATIENCE_MS): Promise<string> {
    return await this.#until(`the line ${pattern}`, timeoutMs, (found) => {
      const watch = (line: string): void => {
        if (pattern.test(line)) found(line);
      };
      return this.#watchers.add(watch);
    });
  }

  /** Resolves when `probe` says true; it is asked again and again until then. Rejects when the program ends first. */
  async ready(what: string, probe: () => Promise<boolean>, timeoutMs = PATIENCE_MS): Promise<void> {
    await this.#until(what, timeoutMs, (found) => {
      let stopped = false;
      const ask = async (): Promise<void> => {
        while (!stopped) {
          if (await probe().catch(() => false)) return found("");
          await pause(50);
        }
      };
      void ask();
      return () => {
        stopped = true;
      };
    });
  }

  signal(signal: NodeJS.Signals): void {
    this.#isSignalled = true;
    this.#child.kill(signal);
  }

  /** Asks it to stop, and ends it if it has not within the time limit; resolves with its exit code. */
  async stop(timeoutMs = STOP_MS): Promise<number | null> {
    return await this.end("SIGTERM", timeoutMs);
  }

  /** Ends it by one signal: most programs end at once when a second one asks them to stop. Kills it after the time limit; resolves with its exit code. */
  async end(signal: NodeJS.Signals, timeoutMs = STOP_MS): Promise<number | null> {
    if (this.isRunning) this.signal(signal);
    else if (!this.#isSignalled && this.#child.exitCode !== 0) this.#tellOfEnd();
    const timer = setTimeout(() => this.#child.kill("SIGKILL"), timeoutMs);
    const code = await this.#exited;
    clearTimeout(timer);
    this.#log?.end();
    return code;
  }

  /** What then fails looks like a lost connection: the reason is in what it said last. */
  #tellOfEnd(): void {
    const { exitCode, signalCode } = this.#child;
    // A Go program begins with the reason, and then tells where all of its threads are.
    const reason = this.tail.findIndex((line) => /^(panic|fatal error):/.test(line));
    const words = reason < 0 ? this.tail.slice(-20) : this.tail.slice(reason, reason + 40);
    console.warn(`${this.name} ended before it was stopped (${exitCode ?? signalCode}):\n${words.join("\n")}`);
  }

  #take(line: string): void {
    this.tail.push(line);
    if (this.tail.length > 2_000) this.tail.shift();
    this.#log?.write(`${line}\n`);
    this.#watchers.emit(line);
  }

  async #until(what: string, timeoutMs: number, watch: (found: (line: string) => void) => () => void): Promise<string> {
    let unwatch = (): void => {};
    let timer: NodeJS.Timeout | undefined;
    try {
      return await new Promise<string>((resolve, reject) => {
        const fail = (why: string): void =>
          reject(new Error(`${this.name}: ${why} while waiting for ${what}\n${this.tail.slice(-12).join("\n")}`));
        timer = setTimeout(() => fail(`nothing within ${timeoutMs} ms`), timeoutMs);
        void this.#exited.then((code) => fail(`ended with exit code ${code}`));
        const stop = watch(resolve);
        unwatch = () => void stop();
      });
    } finally {
      clearTimeout(timer);
      // What waits for the end of the program would keep it until then.
      timer = undefined;
      unwatch();
    }
  }
}

const running = new Set<Program>();
// Whatever ends this process, the programs that it started end with it.
process.once("exit", () => {
  for (const program of running) program.signal("SIGKILL");
});

/** True when something accepts connections at this port of this machine. */
export async function accepts(port: number, host = "127.0.0.1"): Promise<boolean> {
  const socket = connect({ port, host });
  try {
    await once(socket, "connect");
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}
