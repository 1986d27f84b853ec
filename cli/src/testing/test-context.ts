import { PassThrough } from "node:stream";
import type { CommandContext } from "../context.ts";

export interface TestContext extends CommandContext {
  readonly output: () => string;
  readonly errors: () => string;
}

/** A process without a terminal, whose output is kept. */
export function testContext(
  env: Readonly<Record<string, string>> = {},
  terminal?: { readonly columns: number },
): TestContext {
  const kept = { output: "", errors: "" };
  const stream = (which: keyof typeof kept) => ({
    ...(terminal !== undefined && { isTTY: true, columns: terminal.columns }),
    write: (text: string | Uint8Array) => {
      kept[which] += Buffer.from(text).toString("utf8");
    },
  });
  const stdin = new PassThrough();
  stdin.end();
  return {
    env,
    stdin: stdin as unknown as NodeJS.ReadStream,
    stdout: stream("output"),
    stderr: stream("errors"),
    signal: new AbortController().signal,
    output: () => kept.output,
    errors: () => kept.errors,
  };
}
