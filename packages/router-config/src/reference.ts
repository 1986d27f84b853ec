import { formatDuration, type SchemaNode } from "@sallyport/config-file";
import { routerConfigSchema } from "./schema.ts";
import { xgressKeys } from "./sections/listeners.ts";
import { meaningOf } from "./shape.ts";
import { WITHOUT_EFFECT } from "./without-effect.ts";

interface KeyRow {
  readonly key: string;
  readonly what: string;
  readonly standard: string;
}

export { idleReason } from "./without-effect.ts";

const XGRESS = new Set(Object.keys(xgressKeys));

/** The names of all keys, as on the page. */
export function configKeys(): string[] {
  const { rows, flow } = allRows();
  return [...rows, ...flow].map(({ key }) => key);
}

function allRows(): { rows: KeyRow[]; flow: KeyRow[] } {
  const rows: KeyRow[] = [];
  walk(routerConfigSchema as unknown as SchemaNode, "", "required", rows);
  const flow: KeyRow[] = [];
  for (const [key, node] of Object.entries(xgressKeys)) walk(node as unknown as SchemaNode, key, "required", flow);
  return { rows, flow };
}

/** Every key of the file with its meaning, kind, bounds and default, as a Markdown page made from the schema. */
export function configReference(): string {
  const { rows, flow } = allRows();
  const sections = Map.groupBy(rows, (row) => /^\w+/.exec(row.key)?.[0] ?? "");
  const parts = [...sections].map(([name, list]) => `## ${name}\n\n${table(list)}`);
  return `# Keys of the router's configuration file

Generated from the schema in \`packages/router-config\` by \`npm run generate\`; do not edit.
How they work together is in [router.md](../router.md). A key without a default may be left out unless it is *required* where its section is
present. \`[]\` stands for each entry of a list, \`listeners[edge]\` for each of that binding.

${parts.join("\n\n")}

## Flow control

Under \`options\` of every entry of \`listeners\` and \`dialers\`.

${table(flow)}

## Keys without effect

These keys are accepted, so that files of other programs load. \`check\` and each start name them in a warning. Options of another tunneler \`mode\`
are reported, too.

${withoutEffect()}
`;
}

function withoutEffect(): string {
  const lines = Object.entries(WITHOUT_EFFECT).map(([key, reason]) => `| \`${key}\` | ${reason} |`);
  return ["| Key | Why |", "|---|---|", ...lines].join("\n");
}

function table(rows: readonly KeyRow[]): string {
  const safe = (text: string) => text.replaceAll(/[|<]/g, "\\$&");
  const lines = rows.map(
    ({ key, what, standard }) => `| \`${key}\` | ${safe(meaningOf(key))} | ${safe(what)} | ${standard} |`,
  );
  return ["| Key | Meaning | Value | Default |", "|---|---|---|---|", ...lines].join("\n");
}

function walk(node: SchemaNode, key: string, standard: string, rows: KeyRow[]): void {
  const { def } = node._zod;
  switch (def.type) {
    case "optional":
      if (def.innerType !== undefined) walk(def.innerType, key, "", rows);
      return;
    case "default":
    case "prefault":
      if (def.innerType !== undefined) walk(def.innerType, key, showDefault(def.defaultValue, def.innerType), rows);
      return;
    case "pipe":
      if (def.in !== undefined) walk(def.in, key, standard, rows);
      return;
    case "array":
      if (def.element !== undefined) walk(def.element, `${key}[]`, "", rows);
      return;
    case "union":
      for (const option of def.options ?? []) walk(option, key.replace(/\[\]$/, `[${bindingOf(option)}]`), "", rows);
      return;
    case "object":
      for (const [name, child] of Object.entries(def.shape ?? {})) {
        const isFlow = XGRESS.has(name) && /(listeners|dialers).*options$/.test(key) && !key.startsWith("link");
        const isBinding = name === "binding" && child._zod.def.type === "literal";
        if (!isFlow && !isBinding) walk(child, key === "" ? name : `${key}.${name}`, "required", rows);
      }
      return;
    case "record":
      rows.push({ key, what: "a mapping", standard });
      return;
    case "transform":
      rows.push({ key, what: node.description ?? "", standard });
      return;
    case "unknown":
      rows.push({ key, what: "anything", standard });
      return;
    default:
      return;
  }
}

function bindingOf(option: SchemaNode): string {
  const shape = option._zod.def.in?._zod.def.shape ?? option._zod.def.shape;
  return String(shape?.binding?._zod.def.values?.[0] ?? "");
}

function showDefault(value: unknown, inner: SchemaNode): string {
  if (typeof value === "number" && /^a duration/.test(inner.description ?? "")) return `\`${formatDuration(value)}\``;
  if (Array.isArray(value)) return value.length === 0 ? "" : `\`[${value.join(", ")}]\``;
  return typeof value === "object" ? "" : `\`${String(value)}\``;
}
