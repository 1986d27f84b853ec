/** What may follow an option. */
import type { Option } from "commander";
import type { CommandContext } from "../context.ts";
import { optionName, type Purpose, settableFields } from "../fields/field-option.ts";
import { kindNamed } from "../kinds/find-kind.ts";
import type { Field, Kind } from "../kinds/kind.ts";
import { NetworkStore } from "../network/saved-network.ts";
import { FILES, type Offer } from "./candidate.ts";
import { type Asked, attributesLike, namesLike } from "./live-names.ts";

const FORMATS = ["table", "wide", "json", "yaml", "name", "jsonpath="];

/** The kind whose fields are options of the command. */
export interface FieldsOf {
  readonly kind: Kind;
  readonly purpose: Purpose;
}

export async function optionOffer(
  option: Option,
  fields: FieldsOf | undefined,
  asked: Asked,
  context: CommandContext,
): Promise<Offer> {
  const name = option.long?.slice(2) ?? "";
  if (name === "network") return (await new NetworkStore(context.env).names()).map((text) => ({ text }));
  if (option.argChoices !== undefined) return option.argChoices.map((text) => ({ text }));
  if (/<(file|dir)\b/.test(option.flags)) return FILES;
  if (name === "output") return FORMATS.map((text) => ({ text }));
  const field = fields && settableFields(fields.kind, fields.purpose).find((each) => optionName(each) === name);
  if (field !== undefined && fields !== undefined) return await fieldOffer(field, fields.kind, asked, context);
  return [];
}

async function fieldOffer(field: Field, kind: Kind, asked: Asked, context: CommandContext): Promise<Offer> {
  const { values, refersTo, isSelector, isList, type } = field;
  if (values !== undefined) return values.map((text) => ({ text }));
  // Of a list only the last entry is open.
  const [, before = "", begin = ""] =
    isList === true ? (/^(.*,)?(.*)$/s.exec(asked.begin) ?? []) : ["", "", asked.begin];
  const open = { ...asked, begin };
  const offer = (texts: readonly string[]): Offer => texts.map((text) => ({ text: `${before}${text}` }));
  if (isSelector === true && refersTo !== undefined) return offer(await selectors(refersTo, open, context));
  if (refersTo !== undefined && type !== "map") return offer(await namesLike(kindNamed(refersTo), open, context));
  if (field.name === "roleAttributes") return offer(await attributesLike(kind.name, open, context));
  return asked.begin.startsWith("@") ? FILES : [];
}

async function selectors(kind: string, asked: Asked, context: CommandContext): Promise<string[]> {
  const { begin } = asked;
  const bare = { ...asked, begin: begin.slice(1) };
  const names = async () => (await namesLike(kindNamed(kind), bare, context)).map((name) => `@${name}`);
  const attributes = async () => [
    ...("all".startsWith(bare.begin) ? ["#all"] : []),
    ...(await attributesLike(kind, bare, context)).map((attribute) => `#${attribute}`),
  ];
  if (begin.startsWith("@")) return await names();
  if (begin.startsWith("#")) return await attributes();
  return begin === "" ? [...(await attributes()), ...(await names())] : [];
}
