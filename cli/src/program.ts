/** The command line of `sallyport`: its commands, each in a file that is loaded when it is used. */
import { Command, CommanderError } from "commander";
import { COMMANDS } from "./command-table.ts";
import type { CommandContext } from "./context.ts";
import { DAEMONS } from "./daemons.ts";
import { ExitStatus } from "./errors.ts";
import { bold, hasColours, widthOf } from "./terminal/screen.ts";
import { visible } from "./terminal/visible.ts";

const EPILOGUE = `
Kinds are written in singular or plural (service-policy, service-policies, sp); 'sallyport explain' lists them.
'sallyport COMMAND --help' has examples.

Environment:
  SALLYPORT_NETWORK     network to use in place of the current one
  SALLYPORT_CONFIG_DIR  folder of the logins; $XDG_CONFIG_HOME/sallyport or ~/.config/sallyport
  NO_COLOR              no colours on a terminal

Exit status:
  0  done
  1  failed, or refused by the controller; diff: something differs
  2  wrong command line; diff: it failed
  3  no such entity
  4  not logged in, or the login was refused
  5  the controller cannot be reached
  6  another administrator changed the same field meanwhile

Examples:
  sallyport login https://ctrl.example.org:1280 -u admin
  sallyport get identities
  sallyport describe service web
`;

/**
 * Reads a command line and does what it says.
 *
 * @param args without program and script
 * @returns the exit status
 * @throws what the command throws
 */
export async function runProgram(args: readonly string[], context: CommandContext, version: string): Promise<number> {
  const program = programOf(context, version, args);
  try {
    await program.parseAsync(args, { from: "user" });
    return ExitStatus.Done;
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    // Help that was asked for ends with 0; without a command it is what is wrong.
    return error.exitCode === 0 ? ExitStatus.Done : ExitStatus.Usage;
  }
}

/** The program with its commands; each adds its arguments and options when it is used. */
export function programOf(context: CommandContext, version: string, args: readonly string[]): Command {
  const program = new Command("sallyport");
  const { stdout, stderr, env } = context;
  program
    .description("Administers Sallyport and OpenZiti networks.")
    .usage("COMMAND [ARGUMENTS]")
    .version(`sallyport ${version}`, "-V, --version", "print the version")
    .helpOption("-h, --help", "print this text")
    .helpCommand("help [COMMAND]", "print the help of a command")
    .addHelpText("after", EPILOGUE)
    .showSuggestionAfterError()
    .exitOverride()
    .configureOutput({
      writeOut: (text) => void stdout.write(text),
      writeErr: (text) => void stderr.write(text),
      outputError: (text, write) => write(errorLine(text, "sallyport")),
      getOutHelpWidth: () => widthOf(stdout) ?? 100,
      getErrHelpWidth: () => widthOf(stderr) ?? 100,
      getOutHasColors: () => hasColours(stdout, env),
      getErrHasColors: () => hasColours(stderr, env),
    })
    .configureHelp({ styleTitle: (title) => bold(title, hasColours(stdout, env)) });
  for (const { name, group, summary, load } of COMMANDS) {
    const command = program.command(name).summary(summary).helpGroup(group).helpOption("-h, --help", "print this text");
    command.configureOutput({ outputError: (text, write) => write(errorLine(text, `sallyport ${name}`)) });
    program.hook("preSubcommand", async (_program, chosen) => {
      if (chosen === command) await (await load())(command, context, args);
    });
  }
  // They never come to their turn here: main.ts becomes them.
  for (const { name, summary } of DAEMONS) program.command(name).summary(summary).helpGroup("Programs of a network:");
  return program;
}

/** Commander says what is wrong, and on a second line what may be meant. */
function errorLine(text: string, command: string): string {
  const line = text
    .trim()
    .replace(/^error: /, "")
    .replace(/\.?\n\(D(.*)\)$/, ": d$1");
  return `sallyport: ${visible(line)}; see '${command} --help'\n`;
}
