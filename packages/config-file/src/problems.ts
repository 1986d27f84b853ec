/** Keys and list indexes from the top of a file. */
export type Path = readonly (string | number)[];

/** `["link", "dialers", 0, "split"]` is `link.dialers[0].split`. */
export function formatPath(path: Path): string {
  return path.map((part, i) => (typeof part === "number" ? `[${part}]` : i === 0 ? part : `.${part}`)).join("");
}

/** A position in a file; line and column count from 1. */
export interface Place {
  readonly line: number;
  readonly column: number;
}

/** One thing that is wrong, or looks wrong, with a configuration. Line and column are absent when the value did not come from a file. */
export interface ConfigProblem {
  /** The key, for example `link.dialers[0].split`; empty for the file itself. */
  readonly path: string;
  readonly line?: number;
  readonly column?: number;
  /** What would have been right, for example `an integer from 1 to 10000`. */
  readonly expected: string;
  /** The value in the file, shortened, for example `"many"`; never the text of a secret. */
  readonly found: string;
  /** The program goes on without the key. */
  readonly isIgnored?: true;
}

/** `router.yml:12:7: text`, without the parts that are not known. */
export function atPlace(text: string, file?: string, place?: Place): string {
  const where = [file, place && `${place.line}:${place.column}`].filter((part) => part !== undefined && part !== "");
  return [...where, ` ${text}`].join(":").trimStart();
}

/** `router.yml:12:7: link.dialers[0].split: expected true or false, found "maybe"` */
export function formatProblem({ path, line, column = 1, ...problem }: ConfigProblem, file?: string): string {
  const { expected, found, isIgnored } = problem;
  const ignored = isIgnored === true ? ", which is ignored" : "";
  const text = `${path === "" ? "" : `${path}: `}expected ${expected}, found ${found}${ignored}`;
  return atPlace(text, file, line === undefined ? undefined : { line, column });
}

/** A configuration that cannot be used, with every problem in the order of the file. The message has a line for each. */
export class ConfigError extends Error {
  override readonly name = "ConfigError";
  readonly file: string | undefined;
  readonly problems: readonly ConfigProblem[];

  constructor(file: string | undefined, problems: readonly ConfigProblem[]) {
    super(problems.map((problem) => formatProblem(problem, file)).join("\n"));
    this.file = file;
    this.problems = problems;
  }
}
