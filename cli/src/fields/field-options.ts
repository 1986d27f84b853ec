/** Adds options for fields to a command, and reads what the user gave. */
import { type Command, Option } from "commander";
import type { CommandContext } from "../context.ts";
import { UsageError } from "../errors.ts";
import { typeText } from "../kinds/field-text.ts";
import type { Field, Kind } from "../kinds/kind.ts";
import { standardOf } from "../kinds/standards.ts";
import { givenLine, givenText } from "../terminal/given-text.ts";
import { askSecret, canAsk } from "../terminal/questions.ts";
import { optionName, type Purpose, settableFields } from "./field-option.ts";
import { readValue } from "./read-value.ts";

/** Values by the names of fields. */
export type FieldValues = ReadonlyMap<string, unknown>;

/** Where an option without a value stands for a question. */
const ASK = "\u0000ask";

export function addFieldOptions(command: Command, kind: Kind, purpose: Purpose): void {
  for (const field of settableFields(kind, purpose)) {
    const name = optionName(field);
    const help = helpOf(kind, field, purpose);
    if (field.type === "boolean") {
      const { yes, no } = flagsOf(name);
      // The positive one first: otherwise commander takes it for set.
      const options = [
        new Option(yes, help).hideHelp(name.startsWith("no-")),
        new Option(no, help).hideHelp(!name.startsWith("no-")),
      ];
      for (const option of options) command.addOption(option);
      continue;
    }
    const option = new Option(`--${name} ${field.isSecret === true ? "[@file]" : "<value>"}`, help);
    command.addOption(
      option.preset(ASK).argParser((text: string, before: readonly string[] = []) => [...before, text]),
    );
  }
}

/** `--disabled` and `--no-disabled`; of a field such as `noTraversal` it is `--no-traversal` that sets it. */
function flagsOf(name: string): { readonly yes: string; readonly no: string } {
  const bare = name.replace(/^no-/, "");
  return { yes: `--${bare}`, no: `--no-${bare}` };
}

function helpOf(kind: Kind, field: Field, purpose: Purpose): string {
  const { creation, only, isSecret } = field;
  const isNeeded = purpose === "create" && creation === "required" && standardOf(kind, field) === undefined;
  const forTypes = only === undefined ? "" : ` (typeId ${only.join(", ")})`;
  const text = isSecret === true ? "secret: @FILE, @- for standard input; asked for without" : typeText(field);
  return `${text}${forTypes}${isNeeded && only === undefined ? "; needed" : ""}`;
}

/** @param options as the command read them @throws UsageError for a text that is no value of its field */
export async function fieldValues(
  kind: Kind,
  purpose: Purpose,
  options: Readonly<Record<string, unknown>>,
  context: CommandContext,
): Promise<FieldValues> {
  const values = new Map<string, unknown>();
  for (const field of settableFields(kind, purpose)) {
    const name = optionName(field);
    const given = options[camelCase(field.type === "boolean" ? name.replace(/^no-/, "") : name)];
    if (typeof given === "boolean") values.set(field.name, name.startsWith("no-") ? !given : given);
    if (!Array.isArray(given)) continue;
    const texts: string[] = [];
    for (const text of given as readonly string[]) {
      texts.push(field.isSecret === true ? await secret(field, text, context) : await fromFile(field, text, context));
    }
    values.set(field.name, await readValue(field, texts));
  }
  return values;
}

/** As commander calls an option. */
function camelCase(name: string): string {
  return name.replaceAll(/-(.)/g, (_dash, letter: string) => letter.toUpperCase());
}

/** `@FILE` stands for the content of a file, except where `@` begins the name of an entity. `@@` is an `@`. */
async function fromFile(field: Field, text: string, context: CommandContext): Promise<string> {
  const takesFile = field.refersTo === undefined && (field.isList !== true || field.type === "object");
  if (!takesFile || !text.startsWith("@")) return text;
  return text.startsWith("@@") ? text.slice(1) : await givenText(text.slice(1), context);
}

async function secret(field: Field, text: string, context: CommandContext): Promise<string> {
  const name = optionName(field);
  if (text === ASK) {
    if (canAsk(context)) return await askSecret(`${name}: `, context);
    throw new UsageError(`there is no terminal to ask for the ${name}: write --${name} @FILE`);
  }
  if (text.startsWith("@")) return await givenLine(text.slice(1), context);
  throw new UsageError(
    `--${name} is a secret, which other users could read here: write --${name} @FILE, or --${name} alone`,
  );
}
