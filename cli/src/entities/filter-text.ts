/** A text of a filter, in quotation marks (docs/api.md, "Filters"). */
export function quoted(text: string): string {
  return `"${text.replaceAll(/[\\"]/g, "\\$&")}"`;
}
