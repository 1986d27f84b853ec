/** Programs that do one thing and end. */
import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { text } from "node:stream/consumers";
import { CommandError } from "../../errors.ts";
import { markOf, markText } from "./process-mark.ts";

export interface RunOptions {
  readonly env: NodeJS.ProcessEnv;
  readonly signal: AbortSignal;
  readonly cwd?: string;
  /** Says which process it is, so that the next run stops it when this one is killed. */
  readonly pidFile: string;
}

/**
 * Runs a program and answers what it printed.
 *
 * @throws CommandError with the program's own message when it fails, or the signal's reason
 */
export async function runToEnd(
  [command, ...args]: readonly [string, ...string[]],
  { env, signal, cwd, pidFile }: RunOptions,
): Promise<string> {
  signal.throwIfAborted();
  const child = spawn(command, args, { env, stdio: ["ignore", "pipe", "pipe"], ...(cwd !== undefined && { cwd }) });
  if (child.pid !== undefined) writeFileSync(pidFile, markText(markOf(child.pid)), { mode: 0o600 });
  const stop = (): void => void child.kill("SIGTERM");
  signal.addEventListener("abort", stop, { once: true });
  const { promise: ended, resolve, reject } = Promise.withResolvers<number | null>();
  child.once("error", reject);
  child.once("close", resolve);
  try {
    const [output, errors, code] = await Promise.all([text(child.stdout), text(child.stderr), ended]);
    signal.throwIfAborted();
    if (code === 0) return output;
    throw new CommandError(messageOf(errors) || `${command} ended with status ${code}`);
  } finally {
    signal.removeEventListener("abort", stop);
    await rm(pidFile, { force: true });
  }
}

/** What it said last, without its name, and without the lines of its log. */
function messageOf(errors: string): string {
  const lines = errors.split("\n").filter((line) => line.trim() !== "" && !line.startsWith("{"));
  return (lines.at(-1) ?? "").replace(/^sallyport-\w+: /, "");
}
