/** The names of services in /etc/hosts, which the tunneler writes and does not remove. */
import { readFile, writeFile } from "node:fs/promises";

export const HOSTS_FILE = "/etc/hosts";
/** At the end of the tunneler's lines. */
const MARK = "# NetFoundry";

/** Removes the tunneler's lines for these names, with addresses of an earlier run. The file stays the same one: containers mount it. */
export async function removeNames(names: readonly string[], file = HOSTS_FILE): Promise<void> {
  const text = await readFile(file, "utf8");
  const lines = text.split("\n").filter((line) => !isOf(line, names));
  if (lines.length < text.split("\n").length) await writeFile(file, lines.join("\n"));
}

function isOf(line: string, names: readonly string[]): boolean {
  const [, name, mark] = line.split("\t");
  return mark === MARK && name !== undefined && names.some((each) => each.toLowerCase() === name);
}
