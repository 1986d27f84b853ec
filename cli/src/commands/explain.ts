import type { CommandContext } from "../context.ts";
import { UsageError, wordHint } from "../errors.ts";
import { typeText } from "../kinds/field-text.ts";
import { kindOf, wordsOf } from "../kinds/find-kind.ts";
import { FIELDS } from "../kinds/generated/fields.ts";
import { KINDS } from "../kinds/generated/kinds.ts";
import type { Field, Kind } from "../kinds/kind.ts";
import { table } from "../output/table.ts";
import { bold, hasColours, widthOf } from "../terminal/screen.ts";
import type { Configure } from "./configure.ts";

const EXAMPLES = `
Examples:
  sallyport explain
  sallyport explain service-policy
  sallyport explain auth-policy.primary
  sallyport explain identity.type
`;

export const configureExplain: Configure = (command, context) => {
  command
    .description("Describes the kinds of entities and their fields. Needs no network.")
    .argument("[kind]", "KIND or KIND.FIELD; all kinds when absent")
    .addHelpText("after", EXAMPLES)
    .action(async (asked: string | undefined) => {
      context.stdout.write(asked === undefined ? await kindList(context) : await explanation(asked, context));
    });
};

async function explanation(asked: string, context: CommandContext): Promise<string> {
  const [word = "", ...path] = asked.split(".");
  const kind = kindOf(word);
  return path.length === 0 ? await kindText(kind, context) : await fieldText(kind, path.join("."), context);
}

function tableOptions({ stdout, env }: CommandContext) {
  return { width: widthOf(stdout), heading: (line: string) => bold(line, hasColours(stdout, env)) };
}

async function kindList(context: CommandContext): Promise<string> {
  const rows = KINDS.map((kind) => {
    const { name, aliases, actions, summary } = kind;
    const changes = (["create", "patch", "delete"] as const).filter((action) => actions.includes(action));
    return [name, aliases.join(","), ["get", ...changes].join(","), summary];
  });
  return await table(["KIND", "ALSO", "ACTIONS", "WHAT"], rows, tableOptions(context));
}

async function kindText(kind: Kind, context: CommandContext): Promise<string> {
  const words = wordsOf(kind).slice(1).join(", ");
  const head = `${kind.name} (${words}): ${kind.summary}\n${kind.path}\n\n`;
  return head + (await fieldTable(FIELDS[kind.name] ?? [], context));
}

/** One field, or all below an object. @throws UsageError with the nearest name */
async function fieldText(kind: Kind, path: string, context: CommandContext): Promise<string> {
  const fields = FIELDS[kind.name] ?? [];
  const field = fields.find(({ name }) => name === path);
  if (field !== undefined) return `${kind.name}.${path}\n${await details(field)}`;
  const below = fields.filter(({ name }) => name.startsWith(`${path}.`));
  if (below.length > 0) return await fieldTable(below, context);
  const known = fields.map(({ name }) => name);
  const hint = wordHint(path, known, `'sallyport explain ${kind.name}' lists them`);
  throw new UsageError(`${kind.name} has no field '${path}': ${hint}`);
}

async function fieldTable(fields: readonly Field[], context: CommandContext): Promise<string> {
  const rows = fields.map((field) => [
    field.name,
    typeText(field),
    field.creation ?? "-",
    field.isChangeable === true ? "yes" : "-",
    field.isShown === true ? "yes" : "-",
  ]);
  return await table(["FIELD", "TYPE", "CREATE", "CHANGE", "GET"], rows, tableOptions(context));
}

async function details(field: Field): Promise<string> {
  const { creation, isChangeable, isShown, standard, only } = field;
  const rows = [
    ["Type:", typeText(field)],
    ...(only === undefined ? [] : [["Only for:", only.map((type) => `typeId ${type}`).join(", ")]]),
    ["Create:", creation ?? "not taken"],
    ...(creation === "optional" && standard !== undefined ? [["Otherwise:", JSON.stringify(standard)]] : []),
    ["Change:", isChangeable === true ? "yes" : "no"],
    ["Get:", isShown === true ? "shown" : "never shown"],
  ];
  return await table(["", ""], rows, { hasHeading: false });
}
