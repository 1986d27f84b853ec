/** What `-o` can ask for. */
import { nearestName } from "@sallyport/config-file/nearest-name";
import { withoutLinks } from "../entities/entity.ts";
import { UsageError } from "../errors.ts";
import { visible, visibleJson, visibleLines } from "../terminal/visible.ts";

const NAMES = ["table", "wide", "json", "yaml", "name", "jsonpath"] as const;

export type Format = { readonly kind: "table"; readonly isWide: boolean } | { readonly kind: "name" } | DocumentFormat;

/** What is shown as a document; tables and names are made from lists of entities. */
export type DocumentFormat =
  | { readonly kind: "json" }
  | { readonly kind: "yaml" }
  /** A query of RFC 9535. */
  | { readonly kind: "jsonpath"; readonly query: string };

export const FORMAT_HELP = "table, wide, json, yaml, name or jsonpath=QUERY";

/** @throws UsageError with the nearest name */
export function formatOf(text: string): Format {
  const [name = "", ...rest] = text.split("=");
  if (name === "jsonpath") return { kind: "jsonpath", query: queryOf(rest.join("=")) };
  if (rest.length > 0 || !NAMES.some((each) => each === name)) {
    const nearest = nearestName(name, NAMES);
    throw new UsageError(
      `unknown output '${text}': expected ${FORMAT_HELP}${nearest === undefined ? "" : `; did you mean '${nearest}'?`}`,
    );
  }
  if (name === "table" || name === "wide") return { kind: "table", isWide: name === "wide" };
  return { kind: name as "json" };
}

/** Users of kubectl write `{.items}`, and some leave out the `$`. */
function queryOf(text: string): string {
  const bare = /^\{(.*)\}$/.exec(text)?.[1] ?? text;
  if (bare === "") throw new UsageError("-o jsonpath needs a query: -o 'jsonpath=$.id'");
  return bare.startsWith("$") ? bare : `$${/^[.[]/.test(bare) ? "" : "."}${bare}`;
}

/** A value as text, ending in a line feed. On a terminal the texts that a query finds have escapes, too. @throws UsageError for a query that cannot be read */
export async function documentText(value: unknown, format: DocumentFormat, isTerminal: boolean): Promise<string> {
  const shown = withoutLinks(value);
  switch (format.kind) {
    case "json":
      return `${visibleJson(JSON.stringify(shown, undefined, 2) ?? "null")}\n`;
    case "yaml":
      return await yamlText(shown);
    case "jsonpath": {
      const text = await queryText(shown, format.query);
      return isTerminal ? visibleLines(text) : text;
    }
  }
}

/** YAML that is safe on a terminal and reads back as the same value. */
export async function yamlText(value: unknown): Promise<string> {
  const { Document, visit, Scalar } = await import("yaml");
  // Texts that YAML 1.1 reads as something else, such as `no`, are in quotation marks: tools of clusters read that.
  const document = new Document(value, { aliasDuplicateObjects: false, compat: "yaml-1.1" });
  visit(document, {
    Scalar(_key, node) {
      // Between double quotation marks there are escapes.
      if (typeof node.value === "string" && visibleLines(node.value) !== node.value) node.type = Scalar.QUOTE_DOUBLE;
    },
  });
  return visibleJson(document.toString({ lineWidth: 0 }));
}

async function queryText(value: unknown, query: string): Promise<string> {
  const { query: find } = await import("jsonpath-rfc9535");
  let found: readonly unknown[];
  try {
    found = find(value as Parameters<typeof find>[0], query);
  } catch (error) {
    throw new UsageError(`the query '${query}' cannot be read: ${visible((error as Error).message).slice(0, 200)}`);
  }
  return found.map((each) => `${typeof each === "string" ? each : visibleJson(JSON.stringify(each))}\n`).join("");
}
