import { type ChildProcess, spawn } from "node:child_process";
import { fileURLToPath } from "node:url";

const program = fileURLToPath(new URL("../main.ts", import.meta.url));

/** What the program printed, and how it ended. */
export interface ProgramEnd {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

/** The program `sallyport-router` as a process of its own. */
export class RouterProgram {
  static readonly #running = new Set<RouterProgram>();
  readonly child: ChildProcess;
  readonly ended: Promise<ProgramEnd>;
  #out = "";
  #err = "";

  private constructor(child: ChildProcess) {
    this.child = child;
    child.stdout?.on("data", (chunk) => (this.#out += String(chunk)));
    child.stderr?.on("data", (chunk) => (this.#err += String(chunk)));
    RouterProgram.#running.add(this);
    this.ended = new Promise((resolve) => {
      child.once("close", (code) => {
        RouterProgram.#running.delete(this);
        resolve({ code, out: this.#out, err: this.#err });
      });
    });
  }

  static start(o: { cwd: string; env?: Readonly<Record<string, string>> }, ...args: string[]): RouterProgram {
    const env = { ...process.env, ...o.env };
    return new RouterProgram(
      spawn(process.execPath, [program, ...args], { cwd: o.cwd, env, stdio: ["ignore", "pipe", "pipe"] }),
    );
  }

  /** Ends those that a failed test has left. */
  static async endAll(): Promise<void> {
    for (const each of [...RouterProgram.#running]) {
      each.child.kill("SIGKILL");
      await each.ended;
    }
  }

  /** Resolves when it has printed this; rejects when it ends without. */
  printed(text: string): Promise<void> {
    return new Promise((resolve, reject) => {
      const look = (): void => {
        if (this.#out.includes(text)) resolve();
      };
      this.child.stdout?.on("data", look);
      look();
      void this.ended.then(({ code, out, err }) =>
        reject(new Error(`the router ended with ${code} before it said "${text}"\n${out}${err}`)),
      );
    });
  }
}
