import { randomInt } from "node:crypto";
import { createInterface } from "node:readline/promises";
import { Writable } from "node:stream";
import type { ReadStream } from "node:tty";

/** No password was given, or not the same one twice. */
export class NoPasswordError extends Error {
  override name = "NoPasswordError";
}

const MAX_LINE_LENGTH = 4_096;

/**
 * A new password: typed twice and not shown where `input` is a terminal, otherwise the first line of it.
 * @param prompt takes the text to show to the user
 * @throws NoPasswordError
 */
export async function askPassword(
  input: ReadStream | NodeJS.ReadableStream,
  prompt: (text: string) => void,
): Promise<string> {
  if (!("isTTY" in input) || !input.isTTY) return firstLine(input);
  const hidden = createInterface({
    input,
    output: new Writable({ write: (_chunk, _encoding, done) => done() }),
    terminal: true,
  });
  hidden.once("SIGINT", () => hidden.close());
  const lines = hidden[Symbol.asyncIterator]();
  const ask = async (text: string) => {
    prompt(text);
    const { value } = (await lines.next()) as { value?: string };
    prompt("\n");
    return value ?? "";
  };
  try {
    const password = await ask("New password: ");
    if (password === "") throw new NoPasswordError("no password was typed: nothing was changed");
    if ((await ask("The same again: ")) !== password) {
      throw new NoPasswordError("the two passwords differ: nothing was changed");
    }
    return password;
  } finally {
    hidden.close();
  }
}

async function firstLine(input: NodeJS.ReadableStream): Promise<string> {
  let text = "";
  for await (const chunk of input) {
    text += String(chunk);
    if (text.includes("\n") || text.length > MAX_LINE_LENGTH) break;
  }
  const line = (text.split("\n", 1)[0] ?? "").replace(/\r$/, "");
  if (line === "") throw new NoPasswordError("standard input holds no password: expected one line, or use --generate");
  return line;
}

const LENGTH = 20;
// Without letters and digits that look alike.
const ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnpqrstuvwxyz23456789";

/** A password of 20 characters, 116 bits of chance, which is easy to copy by hand. */
export function generatedPassword(): string {
  return Array.from({ length: LENGTH }, () => ALPHABET.charAt(randomInt(ALPHABET.length))).join("");
}
