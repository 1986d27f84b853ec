#!/usr/bin/env node
import { ApiError } from "@sallyport/api/client";
import { errorText } from "@sallyport/async";
import { productVersion } from "@sallyport/program/build-info";
import type { CommandContext } from "./context.ts";
import { CommandError, ExitStatus } from "./errors.ts";
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
    return await runProgram(args, context, productVersion(import.meta.url));
  } catch (error) {
    if (context.signal.aborted) return INTERRUPTED;
    context.stderr.write(`sallyport: ${visible(errorText(error))}\n`);
    if (context.env.SALLYPORT_DEBUG) context.stderr.write(`${(error as Error).stack}\n`);
    return statusOf(error);
  }
}

/** As shells count the signal. */
const INTERRUPTED = 130;

function statusOf(error: unknown): number {
  if (error instanceof CommandError) return error.status;
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
  process.exitCode = await main(process.argv.slice(2), { env, stdin, stdout, stderr, signal: stop.signal });
}
