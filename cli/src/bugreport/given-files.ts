/** Files and logs of this machine that go into a report. */
import { execFile } from "node:child_process";
import { constants, open } from "node:fs/promises";
import { CommandError } from "../errors.ts";

/** Of a log the end counts. */
const MAX_BYTES = 1024 * 1024;
const JOURNAL_LINES = 5_000;
const JOURNAL_TIMEOUT_MS = 15_000;

export interface GivenFile {
  readonly text: string;
  /** The beginning is missing. */
  readonly isCut: boolean;
}

/** The end of a file, from the beginning of a line. @throws CommandError when it cannot be read, or is no file */
export async function endOfFile(file: string): Promise<GivenFile> {
  try {
    // Otherwise a pipe without a writer would never open.
    const handle = await open(file, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      const stat = await handle.stat();
      if (!stat.isFile()) throw new CommandError(`cannot read ${file}: it is no regular file`);
      const from = Math.max(0, stat.size - MAX_BYTES);
      const buffer = Buffer.alloc(Math.min(stat.size, MAX_BYTES));
      const { bytesRead } = await handle.read(buffer, 0, buffer.length, from);
      return cut(buffer.subarray(0, bytesRead), from > 0);
    } finally {
      await handle.close();
    }
  } catch (error) {
    if (error instanceof CommandError) throw error;
    throw new CommandError(`cannot read ${file}: ${(error as Error).message}`, undefined, { cause: error });
  }
}

function cut(bytes: Buffer, isCut: boolean): GivenFile {
  const start = isCut ? bytes.indexOf("\n") + 1 : 0;
  return { text: bytes.subarray(start).toString("utf8"), isCut };
}

/** What the journal of systemd has of the programs of a network; undefined where there is none, or nothing in it. */
export async function journal(scope: "system" | "user", signal: AbortSignal): Promise<GivenFile | undefined> {
  const own = scope === "user" ? ["--user"] : [];
  const args = [...own, "--no-pager", "--quiet", "--output=short-iso", `--lines=${JOURNAL_LINES}`, "--unit=sallyport*"];
  const output = await new Promise<Buffer | undefined>((resolve) => {
    const options = { encoding: "buffer", timeout: JOURNAL_TIMEOUT_MS, maxBuffer: 64 * MAX_BYTES, signal } as const;
    execFile("journalctl", args, options, (error, stdout) => resolve(error === null ? stdout : undefined));
  });
  signal.throwIfAborted();
  if (output === undefined || output.length === 0) return undefined;
  return cut(output.subarray(-MAX_BYTES), output.length > MAX_BYTES);
}
