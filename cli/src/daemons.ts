/** The programs that run a network, under one name: `sallyport controller …` is `sallyport-controller …`. */
import { accessSync, closeSync, constants, existsSync, openSync, readSync, realpathSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";
import type { CommandContext } from "./context.ts";
import { CommandError } from "./errors.ts";

export const DAEMONS = [
  { name: "controller", summary: "set up and run a controller" },
  { name: "router", summary: "enroll and run an edge router" },
  { name: "tunnel", summary: "connect programs that do not use the SDK" },
  { name: "operator", summary: "run networks on Kubernetes" },
] as const;

export type Daemon = (typeof DAEMONS)[number]["name"];

export function isDaemon(word: string | undefined): word is Daemon {
  return DAEMONS.some(({ name }) => name === word);
}

/**
 * The command line that starts the program.
 *
 * @param start the file by which this program was started
 * @throws CommandError when it is not installed
 */
export function daemonCommand(
  name: Daemon,
  start: string,
  env: CommandContext["env"],
): readonly [command: string, ...args: string[]] {
  const file = daemonFile(name, start, env);
  if (file === undefined) {
    throw new CommandError(
      `sallyport-${name} is not installed: install the package @sallyport/${name} beside this one, or put sallyport-${name} on the PATH`,
    );
  }
  return commandOf(file);
}

/** The command line that starts a program's file: a file for Node is started with this one. */
export function commandOf(file: string): readonly [command: string, ...args: string[]] {
  const flags = nodeFlags(file);
  return flags === undefined ? [file] : [process.execPath, ...flags, file];
}

/**
 * Becomes the program: its process id, exit status and signals are those of this one. Does not return.
 *
 * @param args all that follows its name
 * @param start the file by which this program was started
 * @throws CommandError when it is not installed
 */
export function becomeDaemon(name: Daemon, args: readonly string[], start: string, { env }: CommandContext): never {
  const [command, ...first] = daemonCommand(name, start, env);
  if (process.execve === undefined)
    throw new CommandError(`this system cannot do that: start sallyport-${name} itself`);
  const variables = Object.entries(env).flatMap(([key, value]) => (value === undefined ? [] : [[key, value] as const]));
  process.execve(command, [command, ...first, ...args], Object.fromEntries(variables));
  throw new CommandError(`${command} could not be started`);
}

/** The program's file: beside this program, where packages and this repository have it, or on the PATH. */
export function daemonFile(name: Daemon, start: string, env: CommandContext["env"]): string | undefined {
  const program = `sallyport-${name}`;
  const real = dirname(realpathSync(start));
  const source = name === "tunnel" ? "packages/tunnel" : name;
  const places = [
    join(dirname(start), program),
    join(real, "..", "..", name, "lib", "main.js"),
    join(real, "..", "..", source, "src", "main.ts"),
  ];
  const onPath = (env.PATH ?? "").split(delimiter).flatMap((folder) => (folder === "" ? [] : [join(folder, program)]));
  return places.find((file) => existsSync(file)) ?? onPath.find(isExecutable);
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** The flags of its first line when it is for Node, which is then this Node; undefined for any other program. */
function nodeFlags(file: string): string[] | undefined {
  const head = Buffer.alloc(512);
  const descriptor = openSync(file, "r");
  try {
    readSync(descriptor, head);
  } finally {
    closeSync(descriptor);
  }
  const [line = ""] = head.toString("utf8").split("\n", 1);
  const flags = /^#!\S*\/env (?:-S )?node( .*)?$/.exec(line);
  return flags === null ? undefined : (flags[1] ?? "").split(" ").filter((flag) => flag !== "");
}
