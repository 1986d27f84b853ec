import { createInterface } from "node:readline/promises";
import { SerialQueue } from "@sallyport/async";
import { AuthenticationError, type OneTimeCodeQuery } from "@sallyport/sdk";

/** The user of this program: can be told things and, at a terminal, asked. */
export interface User {
  /** Without a terminal no user can be asked. */
  readonly isThere: boolean;
  /** Shows a line. */
  tell(line: string): void;
  /** @throws the signal's reason */
  ask(question: string, signal: AbortSignal): Promise<string>;
}

/** What a provider says must not move the cursor or change the title of a terminal. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are meant
const CONTROL_CHARACTERS = /[\u0000-\u001f\u007f-\u009f]/g;

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
      try {
        return (await lines.question(`${printable(question)} `, { signal })).trim();
      } finally {
        lines.close();
      }
    });
  }
}

function printable(text: string): string {
  return text.replaceAll(CONTROL_CHARACTERS, "");
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
    return await user.ask(`${isRepeated ? "Wrong. One-time" : "One-time"} code for ${file}:`, signal);
  };
}
