import type { Logger } from "@sallyport/wire";

/** What every command works with. */
export interface CommandContext {
  readonly env: NodeJS.ProcessEnv;
  /** Takes what the user is told, one line at a time. */
  readonly say: (line: string) => void;
  readonly log: Logger;
}

/** Exit statuses, as `--help` lists them. */
export const ExitStatus = { Done: 0, Failed: 1, Usage: 2, Configuration: 3, Held: 4 } as const;

/** A command line that says nothing we can do. The message says what is wrong with it. */
export class UsageError extends Error {
  override name = "UsageError";
}
