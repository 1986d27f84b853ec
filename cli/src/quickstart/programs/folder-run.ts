/** One run in a folder: its lock, the programs that it starts, and their end. */
import { join } from "node:path";
import { makeFolder } from "@sallyport/program/make-folder";
import type { CommandContext } from "../../context.ts";
import { InterruptedError } from "../../errors.ts";
import { visible } from "../../terminal/visible.ts";
import { stopEarlier } from "./earlier-program.ts";
import { checkOwnFolder, lockFolder } from "./folder-lock.ts";
import type { RunOptions } from "./run-to-end.ts";
import { stopSignals } from "./stop-signals.ts";
import type { SupervisedProgram } from "./supervised-program.ts";

export interface FolderOptions {
  readonly folder: string;
  readonly mode: number;
  /** The file that a run makes before all others. */
  readonly firstFile: string;
  /** What a user is told whose signal came too early. */
  readonly unfinished: string;
}

export interface FolderRun {
  /** Its signal is that of the user, who stops this run. */
  readonly context: CommandContext;
  /** For programs that prepare the folder, one after the other. */
  readonly setup: RunOptions;
  readonly say: (line: string) => void;
  /** Stops the program in the end. `more` is what the user reads behind the news that it has ended. */
  readonly watch: (program: SupervisedProgram, more?: string) => void;
  /** Called in the end, after the programs have been stopped. */
  readonly atEnd: (close: () => void) => void;
}

/**
 * Makes the folder, and works in it until `work` ends. A signal stops that.
 *
 * @throws CommandError, or what `work` throws
 */
export async function runInFolder(
  { folder, mode, firstFile, unfinished }: FolderOptions,
  context: CommandContext,
  work: (run: FolderRun) => Promise<void>,
): Promise<void> {
  await makeFolder(folder, mode);
  const unlock = await lockFolder(folder);
  const programs: SupervisedProgram[] = [];
  const closing: (() => void)[] = [];
  const { stop, end } = stopSignals(() => {
    for (const program of programs) program.kill();
  });
  const say = (line: string): void => void context.stdout.write(`${visible(line)}\n`);
  const watch = (program: SupervisedProgram, more = ""): void => {
    programs.push(program);
    program.onRestart.add((reason, retryMs) =>
      say(`the ${program.name} ended (${reason}) and starts again in ${retryMs / 1_000} s${more}`),
    );
  };
  const setup = { env: context.env, signal: stop, pidFile: join(folder, "setup.pid") };
  try {
    await checkOwnFolder(folder, firstFile);
    // What it has begun, this run finishes: two at a time would write the same files.
    await stopEarlier(setup.pidFile, stop);
    const atEnd = (close: () => void): void => void closing.push(close);
    await work({ context: { ...context, signal: stop }, setup, say, watch, atEnd });
    say("stopping; again to stop at once");
  } catch (error) {
    if (!stop.aborted) throw error;
    throw new InterruptedError(unfinished, error);
  } finally {
    for (const program of programs.toReversed()) await program.stop();
    for (const close of closing) close();
    await unlock();
    end();
  }
}
