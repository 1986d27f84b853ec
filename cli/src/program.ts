/** The command line of `sallyport`: its commands, each in a file that is loaded when it is used. */
import { Command, CommanderError } from "commander";
import type { CommandContext } from "./context.ts";
import { ExitStatus } from "./errors.ts";
import { bold, hasColours, widthOf } from "./output/screen.ts";
import { visible } from "./output/visible.ts";

/** Adds arguments, options and the action to a command. */
export type Configure = (command: Command, context: CommandContext, words: readonly string[]) => void | Promise<void>;

interface Entry {
  readonly name: string;
  readonly group: string;
  readonly summary: string;
  readonly load: () => Promise<Configure>;
}

const NETWORKS = "Networks:";
const ENTITIES = "Entities:";
const OTHERS = "Others:";

const ENTRIES: readonly Entry[] = [
  {
    name: "login",
    group: NETWORKS,
    summary: "log in to a network",
    load: async () => (await import("./commands/login.ts")).configureLogin,
  },
  {
    name: "logout",
    group: NETWORKS,
    summary: "end the session and forget the network",
    load: async () => (await import("./commands/logout.ts")).configureLogout,
  },
  {
    name: "networks",
    group: NETWORKS,
    summary: "list the saved networks, choose the current one",
    load: async () => (await import("./commands/networks.ts")).configureNetworks,
  },
  {
    name: "whoami",
    group: NETWORKS,
    summary: "show the network, the identity and its session",
    load: async () => (await import("./commands/whoami.ts")).configureWhoami,
  },
  {
    name: "get",
    group: ENTITIES,
    summary: "list entities, or show some by name",
    load: async () => (await import("./commands/get.ts")).configureGet,
  },
  {
    name: "describe",
    group: ENTITIES,
    summary: "show all of an entity with what belongs to it",
    load: async () => (await import("./commands/describe.ts")).configureDescribe,
  },
  {
    name: "explain",
    group: ENTITIES,
    summary: "describe kinds and their fields",
    load: async () => (await import("./commands/explain.ts")).configureExplain,
  },
  {
    name: "api",
    group: OTHERS,
    summary: "call any operation of the APIs",
    load: async () => (await import("./commands/api.ts")).configureApi,
  },
  {
    name: "version",
    group: OTHERS,
    summary: "show the versions of this program and of the controller",
    load: async () => (await import("./commands/version.ts")).configureVersion,
  },
];

const EPILOGUE = `
Kinds are written in singular or plural (service-policy, service-policies, sp); 'sallyport explain' lists them.
'sallyport COMMAND --help' has examples.

Environment:
  SALLYPORT_NETWORK     network to use in place of the current one
  SALLYPORT_CONFIG_DIR  folder of the logins; $XDG_CONFIG_HOME/sallyport or ~/.config/sallyport
  NO_COLOR              no colours on a terminal

Exit status:
  0  done
  1  failed, or refused by the controller
  2  wrong command line
  3  no such entity
  4  not logged in, or the login was refused
  5  the controller cannot be reached
  6  another administrator changed the entity meanwhile

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

/** The help of the program and of each command, as `--help` prints it, for the reference. */
export async function helpTexts(
  context: CommandContext,
): Promise<readonly { readonly name: string; readonly help: string }[]> {
  const program = programOf(context, "0.0.0", []);
  const texts = [{ name: "sallyport", help: helpOf(program) }];
  for (const entry of ENTRIES) {
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
    getOutHelpWidth: () => 100,
    getOutHasColors: () => false,
  });
  command.outputHelp();
  return text;
}

function programOf(context: CommandContext, version: string, args: readonly string[]): Command {
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
  for (const { name, group, summary, load } of ENTRIES) {
    const command = program.command(name).summary(summary).helpGroup(group).helpOption("-h, --help", "print this text");
    command.configureOutput({ outputError: (text, write) => write(errorLine(text, `sallyport ${name}`)) });
    program.hook("preSubcommand", async (_program, chosen) => {
      if (chosen === command) await (await load())(command, context, args);
    });
  }
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
