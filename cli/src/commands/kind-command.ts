/** Commands with a kind, whose fields are options: `create service web --role-attributes a`. */
import type { Command } from "commander";
import { kindOf, kindsWith, wordsOf } from "../kinds/find-kind.ts";
import type { Action, Kind } from "../kinds/kind.ts";

/** Options of such commands that take a value, which is no kind. */
const WITH_VALUE = ["-n", "--network", "-o", "--output"];

/**
 * Adds the kind that the command line names as a command below.
 *
 * @param words the whole command line
 * @returns that command and its kind; undefined where the line names none: help and errors then list the kinds
 */
export function kindCommand(
  command: Command,
  action: Action,
  words: readonly string[],
): { readonly command: Command; readonly kind: Kind } | undefined {
  const kinds = kindsWith(action).map(({ name }) => name);
  command.addHelpText("after", `\nKinds: ${kinds.join(", ")}\n`);
  const word = kindWord(words.slice(1));
  const kind = kindsWith(action).find((each) => word !== undefined && wordsOf(each).includes(word.toLowerCase()));
  if (word === undefined || kind === undefined) {
    command
      .usage("KIND [NAME] [OPTIONS]")
      .argument("<kind>", `one of the kinds below; '${command.name()} KIND --help' lists its fields`)
      .argument("[words...]")
      .allowUnknownOption()
      .action((given: string) => {
        // It cannot be one of those.
        kindOf(given, action);
      });
    return undefined;
  }
  const below = command.command(word).helpOption("-h, --help", "print this text");
  return { command: below, kind };
}

function kindWord(words: readonly string[]): string | undefined {
  return words.find((word, at) => !word.startsWith("-") && !WITH_VALUE.includes(words[at - 1] ?? ""));
}
