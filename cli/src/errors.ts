/** What a command ends with, and the errors that say so. */
import { nearestName } from "@sallyport/config-file/nearest-name";

/** Exit statuses, as `sallyport --help` lists them. */
export const ExitStatus = {
  Done: 0,
  Failed: 1,
  Usage: 2,
  NotFound: 3,
  LoggedOut: 4,
  Unreachable: 5,
  Conflict: 6,
  /** As shells count the signal. */
  Interrupted: 130,
} as const;

export type ExitStatus = (typeof ExitStatus)[keyof typeof ExitStatus];

/** A command that cannot go on. The message is one line and says what to do. */
export class CommandError extends Error {
  override readonly name = "CommandError";
  readonly status: ExitStatus;

  constructor(message: string, status: ExitStatus = ExitStatus.Failed, options?: ErrorOptions) {
    super(message, options);
    this.status = status;
  }
}

/** A command line that cannot be followed. */
export class UsageError extends CommandError {
  constructor(message: string) {
    super(message, ExitStatus.Usage);
  }
}

/** A command that a signal has ended where its user has something to do. Others end without a word. */
export class InterruptedError extends CommandError {
  constructor(message: string, cause: unknown) {
    super(message, ExitStatus.Interrupted, { cause });
  }
}

/** A command that has printed all there is to say, and ends with another status than `Done`. */
export class QuietEnd extends CommandError {
  constructor(status: ExitStatus) {
    super("", status);
  }
}

/** What a message says after an unknown word: the nearest known one, or else `otherwise`. */
export function wordHint(word: string, known: readonly string[], otherwise: string): string {
  const nearest = nearestName(word, known);
  return nearest === undefined ? otherwise : `did you mean '${nearest}'?`;
}
