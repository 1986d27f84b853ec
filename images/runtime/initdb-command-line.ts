/** A command line of initdb, taken apart. */
export interface InitdbCommand {
  readonly program: string;
  readonly args: readonly string[];
  /** File that is read instead of standard input. */
  readonly input: string | undefined;
  /** File that is written instead of standard output. */
  readonly output: string | undefined;
  readonly errorsToOutput: boolean;
}

/** One piece: a redirection without or with its word, or a word of plain characters and such in double quotes. */
const PIECE = /[ \t]*(?:(2>&1)(?=[ \t]|$)|([<>])|((?:"[^"$`\\\n]*"|[\w@%+=:,./-])+)(?=[ \t]|$))/y;

/** @returns undefined for anything that initdb does not say: expansions, pipes, lists, other redirections, quotes of other kinds */
export function parseCommandLine(text: string): InitdbCommand | undefined {
  const words: string[] = [];
  const files: { "<"?: string; ">"?: string } = {};
  let errorsToOutput = false;
  let waiting: "<" | ">" | undefined;
  const line = text.trimEnd();
  PIECE.lastIndex = 0;
  while (PIECE.lastIndex < line.length) {
    const [, merge, redirection, word] = PIECE.exec(line) ?? [];
    if (word !== undefined) {
      const plain = word.replaceAll('"', "");
      if (waiting === undefined) words.push(plain);
      else files[waiting] = plain;
      waiting = undefined;
    } else if (waiting !== undefined) return undefined;
    else if (merge !== undefined) errorsToOutput = true;
    else if (redirection === "<" || redirection === ">") waiting = redirection;
    else return undefined;
  }
  const [program, ...args] = words;
  if (program === undefined || waiting !== undefined) return undefined;
  return { program, args, input: files["<"], output: files[">"], errorsToOutput };
}
