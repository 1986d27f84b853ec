/** One finding in a configuration file. Lines and columns count from 1; absent when the value did not come from a file. */
export interface ConfigProblem {
  /** Where in the document, e.g. `link.dialers[0].split`; empty for the document itself. */
  readonly path: string;
  readonly line?: number;
  readonly column?: number;
  /** What would have been right, e.g. `an integer from 1 to 10000`. */
  readonly expected: string;
  /** What is there, shortened, e.g. `"many"`; never the content of a secret. */
  readonly found: string;
}

/** Where something stands in a file, counted from 1. */
export interface Place {
  readonly line: number;
  readonly column: number;
}

/** `router.yml:12:7 text`; what of the place is not known is left out. */
export function atPlace(text: string, file?: string, place?: Place): string {
  const position = place === undefined ? undefined : `${place.line}:${place.column}`;
  const where = [file, position].filter((part) => part !== undefined && part !== "").join(":");
  return where === "" ? text : `${where} ${text}`;
}

/** `router.yml:12:7 link.dialers[0].split: expected true or false, found "maybe"` */
export function formatProblem(problem: ConfigProblem, file?: string): string {
  const { line, column = 1, expected, found } = problem;
  const path = problem.path === "" ? "the document" : problem.path;
  return atPlace(
    `${path}: expected ${expected}, found ${found}`,
    file,
    line === undefined ? undefined : { line, column },
  );
}

/** The file cannot be used; `problems` holds every reason at once, in the order of the file. */
export class RouterConfigError extends Error {
  override readonly name = "RouterConfigError";
  readonly code = "ROUTER_CONFIG_INVALID";
  readonly problems: readonly ConfigProblem[];
  readonly file: string | undefined;

  constructor(problems: readonly ConfigProblem[], file?: string) {
    const count = problems.length === 1 ? "1 error" : `${problems.length} errors`;
    super(
      [
        `${file ?? "the router configuration"} has ${count}:`,
        ...problems.map((p) => `  ${formatProblem(p, file)}`),
      ].join("\n"),
    );
    this.problems = problems;
    this.file = file;
  }
}
