/** What a shell may offer behind a command line that is not finished. */
import type { Command, Option } from "commander";
import { COMMANDS } from "../command-table.ts";
import type { CommandContext } from "../context.ts";
import { DAEMONS } from "../daemons.ts";
import { wordsOf } from "../kinds/find-kind.ts";
import { KINDS } from "../kinds/generated/kinds.ts";
import { programOf } from "../program.ts";
import { visible } from "../terminal/visible.ts";
import { type Candidate, FILES, type Offer } from "./candidate.ts";
import type { FieldsOf } from "./option-values.ts";
import { unquoted } from "./shell-words.ts";

/**
 * Prints what the last word may become: a line each, with a description behind a tab; `:files` where any file may be meant.
 *
 * @param typed words behind `sallyport`; the last one is not finished, and may be empty
 */
export async function complete(typed: readonly string[], context: CommandContext): Promise<void> {
  const words = context.env.SALLYPORT_COMPLETE === "bash" ? typed.map(unquoted) : typed;
  const begin = words.at(-1) ?? "";
  const offer = await offerFor(words, context);
  if (offer === FILES) {
    context.stdout.write(":files\n");
    return;
  }
  const fitting = offer.filter(({ text }) => text.startsWith(begin));
  const lines = fitting.map(({ text, description = "" }) => `${visible(text)}\t${visible(description)}`.trimEnd());
  context.stdout.write(lines.map((line) => `${line}\n`).join(""));
}

async function offerFor(words: readonly string[], context: CommandContext): Promise<Offer> {
  const [first = "", ...rest] = words;
  const begin = words.at(-1) ?? "";
  if (rest.length === 0 || (first === "help" && rest.length === 1)) return commands();
  const entry = COMMANDS.find(({ name }) => name === first);
  if (entry === undefined) return DAEMONS.some(({ name }) => name === first) ? FILES : [];
  const program = programOf(context, "", words);
  const own = program.commands.find((each) => each.name() === first);
  if (own === undefined) return [];
  await (await entry.load())(own, context, words.slice(0, -1));
  const { command, given, value, network } = read(own, rest.slice(0, -1));
  const asked = { network, begin };
  // Both may ask a controller; commands and options need none of that.
  if (value !== undefined) {
    const { optionOffer } = await import("./option-values.ts");
    return await optionOffer(value, fieldsOf(first, command), asked, context);
  }
  if (begin.startsWith("-")) return options(command);
  const list = command.registeredArguments;
  // The kind of `create` and `patch` is a command below; of the others it is their first argument.
  const place = command === own ? given : given.slice(1);
  const argument = list[place.length] ?? (list.at(-1)?.variadic === true ? list.at(-1) : undefined);
  if (argument === undefined && command.commands.length > 0) return below(command);
  if (argument === undefined) return [];
  const { argumentOffer } = await import("./argument-values.ts");
  return await argumentOffer({ command: first, argument: argument.name(), given }, asked, context);
}

function commands(): Candidate[] {
  return [
    ...COMMANDS.map(({ name, summary }) => ({ text: name, description: summary })),
    ...DAEMONS.map(({ name, summary }) => ({ text: name, description: summary })),
    { text: "help", description: "print the help of a command" },
  ];
}

function below({ commands: found }: Command): Candidate[] {
  return found.map((each) => ({ text: each.name(), description: each.summary() }));
}

function options(command: Command): Candidate[] {
  const found = command.options.flatMap(({ long, hidden, description }) =>
    long === undefined || hidden ? [] : [{ text: long, description }],
  );
  return [...found, { text: "--help", description: "print the help" }];
}

interface ReadLine {
  /** The command, or one below it. */
  readonly command: Command;
  readonly given: readonly string[];
  /** The option whose value the open word is. */
  readonly value: Option | undefined;
  readonly network: string | undefined;
}

/** What the finished words say. */
function read(own: Command, words: readonly string[]): ReadLine {
  let command = own;
  const given: string[] = [];
  let value: Option | undefined;
  let network: string | undefined;
  for (const word of words) {
    if (value !== undefined) {
      if (value.long === "--network") network = word;
      value = undefined;
      continue;
    }
    const option = word.startsWith("-") ? optionNamed(command, own, word) : undefined;
    if (option !== undefined && option.isBoolean() === false && !word.includes("=")) value = option;
    if (word.startsWith("-")) continue;
    const next = given.length === 0 ? command.commands.find((each) => each.name() === word) : undefined;
    if (next !== undefined) command = next;
    given.push(word);
  }
  return { command, given, value, network };
}

function optionNamed(command: Command, own: Command, word: string): Option | undefined {
  // The options of a kind are on the command below, which may still be to come.
  return [command, own, ...own.commands]
    .flatMap(({ options: all }) => all)
    .find(({ long, short }) => [long, short].includes(word));
}

function fieldsOf(first: string, command: Command): FieldsOf | undefined {
  if (first !== "create" && first !== "patch") return undefined;
  const kind = KINDS.find((each) => wordsOf(each).includes(command.name().toLowerCase()));
  return kind === undefined ? undefined : { kind, purpose: first };
}
