/** What a chart says of its values in values.yaml: the default of each, and in the comment above it what it means. */
import { isMap, isScalar, type Pair, parseDocument, type YAMLMap } from "yaml";

export interface ChartValue {
  /** `image.tag`. */
  readonly path: string;
  readonly meaning: string;
  /** Undefined: the values below it have one each, and come behind it. */
  readonly standard?: unknown;
}

/** The files of a chart do not say the same; the message has a line for each difference. */
export class ChartError extends Error {
  override readonly name = "ChartError";

  constructor(chart: string, problems: readonly string[]) {
    super(problems.map((problem) => `helm/${chart}: ${problem}`).join("\n"));
  }
}

/**
 * All values in the order of the file.
 *
 * @throws ChartError for values without a comment
 */
export function valuesOf(chart: string, text: string): ChartValue[] {
  const document = parseDocument(text);
  const root = document.contents;
  if (!isMap(root)) throw new ChartError(chart, ["values.yaml: expected a map"]);
  const values = below(root, [], document.commentBefore ?? undefined);
  const silent = values.filter(({ meaning, standard }) => meaning === "" && standard !== undefined);
  if (silent.length > 0)
    throw new ChartError(
      chart,
      silent.map(({ path }) => `values.yaml: ${path} has no comment above it that says what it means`),
    );
  return values.filter(({ meaning }) => meaning !== "");
}

function below(map: YAMLMap, parents: readonly string[], head?: string): ChartValue[] {
  return map.items.flatMap((pair: Pair, index) => {
    if (!isScalar(pair.key)) throw new TypeError(`below ${parents.join(".")}: expected a text as key`);
    const path = [...parents, String(pair.key.value)];
    const { value } = pair;
    // The parser gives the comment of a map's first key to the map, and that of the first map to the file where no blank line stands between.
    const first = index === 0 ? (map.commentBefore ?? head) : undefined;
    const meaning = lastParagraph(pair.key.commentBefore ?? first ?? "");
    if (!isMap(value) || value.items.length === 0 || !hasComments(value))
      return [{ path: path.join("."), meaning, standard: toJson(value) }];
    return [{ path: path.join("."), meaning }, ...below(value, path)];
  });
}

/** Above the first value may stand what is said of the file. */
const lastParagraph = (comment: string): string =>
  (
    comment
      .trim()
      .split(/\n\s*\n/)
      .at(-1) ?? ""
  )
    .split(/\s*\n\s*/)
    .map((line) => line.trim())
    .join(" ");

const hasComments = (map: YAMLMap): boolean =>
  map.commentBefore != null ||
  map.items.some(
    ({ key, value }) => (isScalar(key) && key.commentBefore != null) || (isMap(value) && hasComments(value)),
  );

const toJson = (node: unknown): unknown => JSON.parse(JSON.stringify(node ?? null)) as unknown;
