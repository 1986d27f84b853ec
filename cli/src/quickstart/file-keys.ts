/** Settings that a quick start changes in the files that the programs have written. Comments and other keys stay. */
import { readFile } from "node:fs/promises";
import { type Document, isMap, isScalar, parseDocument } from "yaml";
import { writeOwn } from "../network/own-files.ts";

type Path = readonly (string | number)[];

/** Sets values below keys that may be empty. A file that has them already is not written. */
export async function setKeys(file: string, values: readonly (readonly [Path, unknown])[]): Promise<void> {
  const before = await readFile(file, "utf8");
  const document = parseDocument(before);
  for (const [path, value] of values) setKey(document, path, value);
  const text = document.toString({ lineWidth: 0 });
  if (text !== before) await writeOwn(file, text);
}

function setKey(document: Document, path: Path, value: unknown): void {
  for (let length = 1; length < path.length; length++) {
    const above = path.slice(0, length);
    const node = document.getIn(above, true);
    if (typeof path[length] !== "string" || isMap(node)) continue;
    const map = document.createNode({});
    // Where there is no value yet, the comments that explain the keys belong to it.
    if (isScalar(node)) map.comment = node.comment ?? null;
    document.setIn(above, map);
  }
  document.setIn(path, value);
}
