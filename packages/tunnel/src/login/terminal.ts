import { createInterface } from "node:readline/promises";
import { SerialQueue } from "@sallyport/async";
import { AuthenticationError, type OneTimeCodeQuery } from "@sallyport/sdk";

/** The user of this program: can be told things and, at a terminal, asked. */
export interface User {
  /** Without a terminal no user can be asked. */
  readonly isThere: boolean;
  /** Shows a line. */
  tell(line: string): void;
  /** @throws AuthenticationError `SECOND_FACTOR_REQUIRED` when the input ends, or the signal's reason */
  ask(question: string, signal: AbortSignal): Promise<string>;
}

/** What a provider says must not move the cursor, change the title of a terminal, or turn the direction of the text. */
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

const NO_ANSWER = "the input ended before a one-time code was entered";

/** The user of a terminal. Lines go to the standard error: the standard output has the log. */
export class TerminalUser implements User {
  readonly #input: NodeJS.ReadStream;
  readonly #output: NodeJS.WritableStream;
  /** Of several identities, one asks after the other. */
  readonly #questions = new SerialQueue();

  constructor(input: NodeJS.ReadStream = process.stdin, output: NodeJS.WritableStream = process.stderr) {
    this.#input = input;
    this.#output = output;
  }

  get isThere(): boolean {
    return this.#input.isTTY === true;
  }

  tell(line: string): void {
    this.#output.write(`${printable(line)}\n`);
  }

  async ask(question: string, signal: AbortSignal): Promise<string> {
    return await this.#questions.run(async () => {
      signal.throwIfAborted();
      // Without editing of its own the terminal keeps its keys: Ctrl-C ends the program as always.
      const lines = createInterface({ input: this.#input, output: this.#output, terminal: false });
      const ended = Promise.withResolvers<never>();
      lines.once("close", () => ended.reject(new AuthenticationError("SECOND_FACTOR_REQUIRED", NO_ANSWER)));
      try {
        return (await Promise.race([lines.question(`${printable(question)} `, { signal }), ended.promise])).trim();
      } finally {
        lines.close();
      }
    });
  }
}

export function printable(text: string): string {
  return text.replaceAll(UNPRINTABLE, "");
}

/** Asks for one-time codes of an identity. @throws AuthenticationError `SECOND_FACTOR_REQUIRED` without a terminal */
export function oneTimeCodeOf(
  user: User,
  file: string,
  signal: AbortSignal,
): (query: OneTimeCodeQuery) => Promise<string> {
  return async ({ isRepeated }) => {
    if (!user.isThere) {
      const text = `the network asks for a one-time code for ${file}, and there is no terminal to ask for it: start the tunneler in one, or give the identity an authentication policy without one-time codes`;
      throw new AuthenticationError("SECOND_FACTOR_REQUIRED", text);
    }
    let wrong = isRepeated ? "This code was wrong. " : "";
    for (;;) {
      const code = await user.ask(`${wrong}One-time code for ${file}:`, signal);
      // An empty line is no attempt: the controller counts them.
      if (code !== "") return code;
      wrong = "";
    }
  };
}
