/** What a command has of its process, so that a test can give it others. */
export interface CommandContext {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly stdin: NodeJS.ReadStream;
  readonly stdout: OutputStream;
  readonly stderr: OutputStream;
  /** Aborts when the user interrupts the program. */
  readonly signal: AbortSignal;
}

/** A terminal, a pipe or a file. */
export interface OutputStream {
  readonly isTTY?: boolean;
  /** Width of the terminal. */
  readonly columns?: number;
  write(text: string | Uint8Array): unknown;
}
