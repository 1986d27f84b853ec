/** One thing that is wrong, or looks wrong, with a configuration file. */
export interface ConfigProblem {
  /** Keys from the top, joined by dots: `network.smart.rerouteCap`; empty for the file itself. */
  readonly path: string;
  /** From 1. */
  readonly line: number;
  readonly column: number;
  readonly expected: string;
  /** What stands there; never the text of a secret. */
  readonly found: string;
}

/** `file:line:column: path: expected …, found …` */
export function describeProblem(file: string, problem: ConfigProblem): string {
  const where = problem.path === "" ? "" : `${problem.path}: `;
  return `${file}:${problem.line}:${problem.column}: ${where}expected ${problem.expected}, found ${problem.found}`;
}

/** A configuration file that cannot be used, with everything that is wrong with it. */
export class ConfigError extends Error {
  override name = "ConfigError";
  readonly file: string;
  readonly problems: readonly ConfigProblem[];

  constructor(file: string, problems: readonly ConfigProblem[]) {
    super(problems.map((problem) => describeProblem(file, problem)).join("\n"));
    this.file = file;
    this.problems = problems;
  }
}
