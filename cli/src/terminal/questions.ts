/** Questions to the user of a terminal. They go to the standard error: the standard output has the result. */
import { createInterface } from "node:readline/promises";
import { Writable } from "node:stream";
import type { CommandContext } from "../context.ts";
import { UsageError } from "../errors.ts";
import { visible } from "./visible.ts";

/** Whether there is a user to ask. */
export function canAsk({ stdin }: CommandContext): boolean {
  return stdin.isTTY === true;
}

/** One line of the user. @throws UsageError when the input ends */
export async function ask(question: string, context: CommandContext): Promise<string> {
  return await readLine(question, context, false);
}

/** One line that is not shown while it is typed. @throws UsageError when the input ends */
export async function askSecret(question: string, context: CommandContext): Promise<string> {
  try {
    return await readLine(question, context, true);
  } finally {
    context.stderr.write("\n");
  }
}

/** True only for `y` and `yes`. */
export async function confirm(question: string, context: CommandContext): Promise<boolean> {
  return /^y(es)?$/i.test((await ask(`${question} [y/N] `, context)).trim());
}

async function readLine(
  question: string,
  { stdin, stderr, signal }: CommandContext,
  isHidden: boolean,
): Promise<string> {
  signal.throwIfAborted();
  stderr.write(visible(question));
  const nothing = new Writable({ write: (_chunk, _encoding, done) => done() });
  // Without editing of its own the terminal keeps its keys, but it also shows what is typed.
  const lines = createInterface({ input: stdin, output: nothing, terminal: isHidden });
  const ended = Promise.withResolvers<never>();
  lines.once("close", () => ended.reject(new UsageError("the input ended before the question was answered")));
  lines.once("SIGINT", () => process.kill(process.pid, "SIGINT"));
  try {
    return await Promise.race([lines.question("", { signal }), ended.promise]);
  } finally {
    // The rejection that comes with the end has no reader any more.
    ended.promise.catch(() => undefined);
    lines.close();
  }
}
