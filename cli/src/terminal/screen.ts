/** What an output stream can show. */
import type { CommandContext, OutputStream } from "../context.ts";

/** Colours are for terminals, and only where the user has not turned them off (https://no-color.org). */
export function hasColours(stream: OutputStream, env: CommandContext["env"]): boolean {
  return stream.isTTY === true && !env.NO_COLOR && env.TERM !== "dumb";
}

/** Columns of the terminal; undefined where lines may have any length. */
export function widthOf(stream: OutputStream): number | undefined {
  return stream.isTTY === true && stream.columns !== undefined && stream.columns > 0 ? stream.columns : undefined;
}

export function bold(text: string, isColoured: boolean): string {
  return isColoured ? `\u001b[1m${text}\u001b[22m` : text;
}
