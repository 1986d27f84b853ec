#!/usr/bin/env node
import { errorText } from "@sallyport/async";
import { productVersion } from "@sallyport/program/build-info";
import type { CommandContext } from "./context.ts";
import { becomeDaemon, isDaemon } from "./daemons.ts";
import { CommandError, ExitStatus, InterruptedError, QuietEnd } from "./errors.ts";
import { runProgram } from "./program.ts";
import { visible } from "./terminal/visible.ts";

/** Runs one command line to its end and answers the exit status. An error becomes one line on standard error. */
export async function main(args: readonly string[], context: CommandContext): Promise<number> {
  try {
    const [first, ...words] = args;
    if (first === "__complete") {
      const { complete } = await import("./completion/complete.ts");
      await complete(words, context);
      return ExitStatus.Done;
    }
    // A command's file has its help.
    const line = first === "help" && words.length > 0 ? [...words, "--help"] : args;
    if (isDaemon(line[0])) becomeDaemon(line[0], line.slice(1), process.argv[1] ?? "", context);
    return await runProgram(line, context, productVersion(import.meta.url));
  } catch (error) {
    const isTold = error instanceof InterruptedError;
    if (context.signal.aborted && !isTold) return ExitStatus.Interrupted;
    if (error instanceof QuietEnd) return error.status;
    context.stderr.write(`sallyport: ${visible(errorText(error))}\n`);
    if (context.env.SALLYPORT_DEBUG) context.stderr.write(`${(error as Error).stack}\n`);
    return await statusOf(error);
  }
}

async function statusOf(error: unknown): Promise<number> {
  if (error instanceof CommandError) return error.status;
  // Only commands that call a controller have loaded it.
  const { ApiError } = await import("@sallyport/api/client");
  if (!(error instanceof ApiError)) return ExitStatus.Failed;
  return error.status === 404 ? ExitStatus.NotFound : error.status === 401 ? ExitStatus.LoggedOut : ExitStatus.Failed;
}

if (import.meta.main) {
  const { stdin, stdout, stderr, env } = process;
  for (const stream of [stdout, stderr]) {
    stream.on("error", (error: NodeJS.ErrnoException) => {
      // The reader has what it wanted (`get … | head`).
      if (error.code === "EPIPE") process.exit(ExitStatus.Done);
      throw error;
    });
  }
  const stop = new AbortController();
  process.once("SIGINT", () => stop.abort());
  const context = { env, stdin, stdout, stderr, signal: stop.signal };
  // Not awaited: packed, the files of commands import this one, and would wait for its end.
  void main(process.argv.slice(2), context).then((status) => {
    process.exitCode = status;
  });
}
