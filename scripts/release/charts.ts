import { existsSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { type Entry, file } from "@sallyport/program/archive/entry";
import { parseDocument } from "yaml";
import { filesBelow } from "./program-package.ts";
import { withImagesOf } from "./versions.ts";

/** A chart that cannot be packed as it is. */
export class ChartError extends Error {
  override name = "ChartError";
}

/**
 * The files of a chart as `helm package` would take them, below a folder of its name.
 *
 * @param own version of the repository
 * @param version of the chart and of what it installs
 * @throws ChartError, VersionError
 */
export function chartEntries(folder: string, own: string, version: string): Entry[] {
  const name = basename(folder);
  const ignored = ignoredBy(join(folder, ".helmignore"));
  return filesBelow(folder)
    .filter((path) => !ignored(path))
    .map((path) => {
      const content = readFileSync(join(folder, path), "utf8");
      if (path !== "Chart.yaml") return file(join("/", name, path), withImagesOf(content, own, version));
      return file(join("/", name, path), chartOf(content, name, own, version));
    });
}

function chartOf(text: string, name: string, own: string, version: string): string {
  const chart = parseDocument(text);
  for (const [key, expected] of [
    ["name", name],
    ["version", own],
    ["appVersion", own],
  ] as const) {
    if (chart.get(key) !== expected)
      throw new ChartError(`${name}/Chart.yaml: ${key} must be ${expected}, found ${String(chart.get(key))}`);
  }
  chart.set("version", version);
  chart.set("appVersion", version);
  return chart.toString();
}

/** Names of files and folders that a `.helmignore` lists, with `*` in them, `/` before those at the top; no more than that is done here. */
function ignoredBy(path: string): (path: string) => boolean {
  const lines = existsSync(path) ? readFileSync(path, "utf8").split("\n") : [];
  const names = lines.map((line) => line.trim()).filter((line) => line !== "" && !line.startsWith("#"));
  const unknown = names.find((name) => /[?![\]]|.\/./.test(name));
  if (unknown !== undefined) throw new ChartError(`${path}: the pattern ${unknown} is not done here; list names`);
  const patterns = names.map((name) => {
    const escaped = name.replaceAll("/", "").replaceAll(/[.+^${}()|\\]/g, "\\$&");
    return { isAtTop: name.startsWith("/"), name: new RegExp(`^${escaped.replaceAll("*", ".*")}$`) };
  });
  return (file) =>
    file
      .split("/")
      .some((part, depth) => patterns.some(({ isAtTop, name }) => name.test(part) && !(isAtTop && depth > 0)));
}
