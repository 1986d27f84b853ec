/** README.md of a chart: prose that is written by hand, and a table of the values that is not. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import { type JsonSchema, schemaProblems } from "./chart-schema.ts";
import { ChartError, type ChartValue, valuesOf } from "./chart-values.ts";

const BEGIN = "<!-- Generated from values.yaml by `npm run generate`, down to the end mark; do not edit. -->";
const END = "<!-- End of the generated part. -->";

interface ChartFile {
  readonly name: string;
  readonly description: string;
  readonly version: string;
  readonly appVersion: string;
  readonly kubeVersion: string;
}

/**
 * README.md of the chart in a folder, as it has to be: what stands there, with the table of today.
 *
 * @param version of the repository, which is that of each chart
 * @throws ChartError when values.yaml, values.schema.json and Chart.yaml do not agree
 */
export function chartReadme(folder: string, version: string): string {
  const read = (name: string) => readFileSync(join(folder, name), "utf8");
  const chart = parse(read("Chart.yaml")) as ChartFile;
  const values = valuesOf(chart.name, read("values.yaml"));
  const problems = [
    ...versionProblems(chart, version),
    ...schemaProblems(JSON.parse(read("values.schema.json")) as JsonSchema, values),
  ];
  if (problems.length > 0) throw new ChartError(chart.name, problems);
  return withTable(proseOf(folder) ?? `# ${chart.name}\n\n${chart.description}\n`, valuesTable(values));
}

function versionProblems(chart: ChartFile, expected: string): string[] {
  return (["version", "appVersion"] as const)
    .filter((name) => chart[name] !== expected)
    .map((name) => `Chart.yaml: ${name} is ${chart[name]}, expected that of package.json, ${expected}`);
}

function proseOf(folder: string): string | undefined {
  try {
    return readFileSync(join(folder, "README.md"), "utf8");
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
    throw error;
  }
}

/** Puts the table between its marks, or below a heading at the end where there are none yet. */
export function withTable(page: string, table: string): string {
  const part = `${BEGIN}\n${table}${END}`;
  const [from, to] = [page.indexOf(BEGIN), page.indexOf(END)];
  if (from < 0 || to < from) return `${page.trimEnd()}\n\n## Values\n\n${part}\n`;
  return `${page.slice(0, from)}${part}${page.slice(to + END.length)}`;
}

export function valuesTable(values: readonly ChartValue[]): string {
  const rows = values.map(({ path, meaning, standard }) => {
    const text = standard === undefined ? "" : `\`${JSON.stringify(standard)}\``;
    return `| \`${path}\` | ${cell(text)} | ${cell(meaning)} |\n`;
  });
  return `| Value | Default | Meaning |\n|---|---|---|\n${rows.join("")}`;
}

const cell = (text: string): string => text.replaceAll("|", "\\|");
