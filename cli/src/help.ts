/** The texts that `--help` prints, for the reference. */
import type { Command } from "commander";
import { COMMANDS } from "./command-table.ts";
import type { CommandContext } from "./context.ts";
import { programOf } from "./program.ts";

const WIDTH = 100;

/** The help of the program and of each command, as `--help` prints it, for the reference. */
export async function helpTexts(): Promise<readonly { readonly name: string; readonly help: string }[]> {
  const { stdin, stdout, stderr } = process;
  const context: CommandContext = { env: {}, stdin, stdout, stderr, signal: new AbortController().signal };
  const program = programOf(context, "0.0.0", []);
  const texts = [{ name: "sallyport", help: helpOf(program) }];
  for (const entry of COMMANDS) {
    const command = program.commands.find((each) => each.name() === entry.name);
    if (command === undefined) continue;
    await (await entry.load())(command, context, []);
    texts.push({ name: `sallyport ${entry.name}`, help: helpOf(command) });
    for (const below of command.commands)
      texts.push({ name: `sallyport ${entry.name} ${below.name()}`, help: helpOf(below) });
  }
  return texts;
}

function helpOf(command: Command): string {
  let text = "";
  command.configureOutput({
    writeOut: (part) => {
      text += part;
    },
    getOutHelpWidth: () => WIDTH,
    getOutHasColors: () => false,
  });
  command.outputHelp();
  return text;
}
