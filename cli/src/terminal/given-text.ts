/** Texts that a user gives in a file or on the standard input. */
import { open } from "node:fs/promises";
import { text as textOf } from "node:stream/consumers";
import type { CommandContext } from "../context.ts";
import { CommandError } from "../errors.ts";

/** Far more than any request may have. */
const MAX_REQUEST = 4 * 1024 * 1024;

/** The text of a file; `-` is the standard input. @throws CommandError when it cannot be read or is too long */
export async function givenText(file: string, { stdin }: CommandContext, maxBytes = MAX_REQUEST): Promise<string> {
  if (file === "-") {
    let text = "";
    for await (const chunk of stdin.setEncoding("utf8")) {
      text += String(chunk);
      if (text.length > maxBytes) throw tooLong("the standard input", maxBytes);
    }
    return text;
  }
  try {
    const handle = await open(file);
    try {
      const text = await textOf(handle.createReadStream({ end: maxBytes, autoClose: false }));
      if (text.length > maxBytes) throw tooLong(file, maxBytes);
      return text;
    } finally {
      await handle.close();
    }
  } catch (error) {
    if (error instanceof CommandError) throw error;
    throw new CommandError(`cannot read ${file}: ${(error as Error).message}`);
  }
}

/** Its first line, such as a password or a token. @throws CommandError when it is empty */
export async function givenLine(file: string, context: CommandContext): Promise<string> {
  const [line = ""] = (await givenText(file, context)).split(/\r?\n/, 1);
  if (line !== "") return line;
  throw new CommandError(`${file === "-" ? "the standard input" : file} is empty: expected one line`);
}

function tooLong(what: string, maxBytes: number): CommandError {
  return new CommandError(`${what} has more than ${maxBytes} bytes`);
}
