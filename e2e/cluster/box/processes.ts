/** The processes of a cluster, each with a log of its own. */
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { closeSync, openSync, readFileSync } from "node:fs";
import { promisify } from "node:util";
import type { BoxLayout, Component } from "./box-plan.ts";

export class Processes {
  readonly #box: BoxLayout;
  readonly #running = new Map<string, ChildProcess>();
  readonly #known = new Map<string, Component>();
  /** Rejects when one ends before it is stopped. */
  readonly failure: Promise<never>;
  #fail: (error: Error) => void = () => {};

  constructor(box: BoxLayout) {
    this.#box = box;
    this.failure = new Promise((_, reject) => {
      this.#fail = reject;
    });
    this.failure.catch(() => {});
  }

  start(component: Component): void {
    this.#known.set(component.name, component);
    const file = this.#box.file("logs", `${component.name}.log`);
    const log = openSync(file, "a");
    const child = spawn(component.command, component.args, { stdio: ["ignore", log, log] });
    closeSync(log);
    this.#running.set(component.name, child);
    const ended = (how: string): void => {
      if (this.#running.get(component.name) !== child) return;
      this.#running.delete(component.name);
      const tail = readFileSync(file, "utf8").trimEnd().split("\n").slice(-10).join("\n");
      this.#fail(new Error(`${component.name} ${how}; the end of its log:\n${tail}`));
    };
    child.once("error", (error) => ended(`could not be started: ${error.message}`));
    child.once("exit", (code, signal) =>
      ended(signal === null ? `ended with exit code ${code}` : `ended by ${signal}`),
    );
  }

  /** As a crash: it is not asked. Resolves when it is gone. */
  async stop(name: string): Promise<void> {
    const child = this.#running.get(name);
    if (child === undefined) throw new Error(`${name} does not run; these do: ${[...this.#running.keys()].join(", ")}`);
    this.#running.delete(name);
    const gone = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGKILL");
    await gone;
  }

  startAgain(name: string): void {
    const component = this.#known.get(name);
    if (component === undefined)
      throw new Error(`no component ${name}; there are ${[...this.#known.keys()].join(", ")}`);
    if (this.#running.has(name)) throw new Error(`${name} runs already`);
    this.start(component);
  }
}

const execute = promisify(execFile);

/** Runs a program to its end. @throws Error with its words */
export async function run(command: string, ...args: string[]): Promise<string> {
  try {
    return (await execute(command, args)).stdout;
  } catch (error) {
    const words = error instanceof Error && "stderr" in error ? String(error.stderr).trim() : "";
    throw new Error(`${command} ${args.join(" ")} failed: ${words || String(error)}`, { cause: error });
  }
}
