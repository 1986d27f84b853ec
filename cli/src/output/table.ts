/** Tables of text. */

import { visible } from "../terminal/visible.ts";
import { measureOf, type TextMeasure } from "./text-width.ts";

const GAP = "  ";
/** A column is not made narrower than this. */
const MIN_WIDTH = 8;

export interface TableOptions {
  /** Of the terminal; undefined: lines have any length. */
  readonly width?: number | undefined;
  /** Marks the headings. */
  readonly heading?: (line: string) => string;
  readonly hasHeading?: boolean;
}

/**
 * Lines of a table. On a terminal that is too narrow the widest columns are shortened, the first one only as far as what differs in it still looks different:
 * there are the names.
 */
export async function table(
  headings: readonly string[],
  rows: readonly (readonly string[])[],
  { width, heading = (line) => line, hasHeading = true }: TableOptions = {},
): Promise<string> {
  const cells = rows.map((row) => row.map(visible));
  const measure = await measureOf(cells.flat());
  const widths = fitted(
    headings.map((name, column) =>
      cells.reduce(
        (widest, row) => Math.max(widest, measure.width(row[column] ?? "")),
        hasHeading ? measure.width(name) : 0,
      ),
    ),
    headings.map((_, column) => (column === 0 && width !== undefined ? distinctWidth(cells, measure) : MIN_WIDTH)),
    width,
  );
  const line = (row: readonly string[]): string =>
    row
      .map((cell, column) => measure.padded(measure.shortened(cell, widths[column] ?? 0), widths[column] ?? 0))
      .join(GAP)
      .trimEnd();
  const lines = cells.map(line);
  return [...(hasHeading ? [heading(line(headings))] : []), ...lines].map((each) => `${each}\n`).join("");
}

/** The narrowest width at which no two different texts of the first column look the same. */
function distinctWidth(cells: readonly (readonly string[])[], measure: TextMeasure): number {
  const texts = [...new Set(cells.map(([first = ""]) => first))];
  let width = MIN_WIDTH;
  while (new Set(texts.map((text) => measure.shortened(text, width))).size < texts.length) width++;
  return width;
}

/** Takes from the widest columns what is too much. */
function fitted(natural: readonly number[], least: readonly number[], width: number | undefined): number[] {
  const widths = [...natural];
  if (width === undefined) return widths;
  let excess = widths.reduce((sum, each) => sum + each, GAP.length * (widths.length - 1)) - width;
  while (excess > 0) {
    const widest = Math.max(...widths.filter((each, column) => each > (least[column] ?? MIN_WIDTH)));
    if (widest === Number.NEGATIVE_INFINITY) break;
    const column = widths.findLastIndex((each, index) => each === widest && each > (least[index] ?? MIN_WIDTH));
    widths[column] = widest - 1;
    excess--;
  }
  return widths;
}
