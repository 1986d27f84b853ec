/** What a program said last, for the message that says why it ended. */
import { open } from "node:fs/promises";

const READ_BYTES = 16_384;
const WORTH_TELLING = ["warn", "error"];

/**
 * The last warnings and errors of a log file in words, the newest last; empty where it has none.
 *
 * @param from where the lines of this run begin
 */
export async function lastWords(file: string, from: number, count = 3): Promise<string> {
  const handle = await open(file).catch(() => undefined);
  if (handle === undefined) return "";
  try {
    const { size } = await handle.stat();
    const start = Math.max(from, size - READ_BYTES);
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(READ_BYTES), 0, READ_BYTES, start);
    const lines = buffer.toString("utf8", 0, bytesRead).split("\n");
    return lines.flatMap(wordsOf).slice(-count).join("; ");
  } finally {
    await handle.close();
  }
}

/** A line in JSON is one of the log; any other is a message of the program itself. */
function wordsOf(line: string): string[] {
  if (line.trim() === "") return [];
  try {
    const { level, msg, error, err } = JSON.parse(line) as Record<string, unknown>;
    if (!WORTH_TELLING.includes(String(level))) return [];
    const cause = ((error ?? err) as { message?: unknown } | undefined)?.message;
    return [typeof cause === "string" && cause !== msg ? `${String(msg)}: ${cause}` : String(msg)];
  } catch {
    return [line.replace(/^sallyport-\w+: /, "")];
  }
}
