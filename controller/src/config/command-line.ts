import { parseArgs } from "node:util";

/** A command line that says nothing we can do. The message says what is wrong with it. */
export class UsageError extends Error {
  override name = "UsageError";
}

export interface InitCommand {
  readonly command: "init";
  readonly dir: string;
  readonly host: string;
  readonly apiPort: number;
  readonly ctrlPort: number;
  readonly databaseUrl?: string;
}

export interface RunCommand {
  readonly command: "run";
  readonly file: string;
}

export type Command = InitCommand | RunCommand | { readonly command: "version" } | { readonly command: "help" };

const DEFAULT_PORT = 1280;

export const USAGE = `Usage:
  sallyport-controller init --dir DIR [--host HOST] [--api-port PORT] [--ctrl-port PORT] [--database-url URL]
      Makes a new network in DIR: keys, certificates, database, administrator, and a commented DIR/controller.yml.
      What is there already stays as it is.
        --host HOST         name or address under which clients and routers reach the controller (default: localhost)
        --api-port PORT     port of the HTTP APIs (default: ${DEFAULT_PORT})
        --ctrl-port PORT    port of the control channel (default: that of the API; one port serves both)
        --database-url URL  a PostgreSQL of yours, 15 or newer (default: an embedded one in DIR/database)
      The administrator's name and password come from SALLYPORT_ADMIN_USERNAME (default: admin) and
      SALLYPORT_ADMIN_PASSWORD; without a password one is made and printed once.
  sallyport-controller run FILE
      Runs the controller with the configuration FILE until SIGINT or SIGTERM.
  sallyport-controller --version | --help

Exit status: 0 done; 1 failed; 2 wrong usage; 3 unusable configuration; 4 another controller holds the database.
`;

/** Reads the arguments after the program's name. @throws UsageError */
export function parseCommandLine(args: readonly string[]): Command {
  const [command, ...rest] = args;
  if (command === undefined || command === "help" || args.includes("--help") || args.includes("-h"))
    return { command: "help" };
  if (command === "version" || command === "--version" || command === "-v") return { command: "version" };
  if (command === "run") return run(rest);
  if (command === "init") return init(rest);
  throw new UsageError(`unknown command ${command}: expected init, run, --version or --help`);
}

function run(args: readonly string[]): RunCommand {
  const [file, ...more] = args;
  if (file === undefined || file.startsWith("-") || more.length > 0) {
    throw new UsageError("run needs exactly one configuration file: sallyport-controller run controller.yml");
  }
  return { command: "run", file };
}

function init(args: readonly string[]): InitCommand {
  const { dir, host, "api-port": api, "ctrl-port": ctrl, "database-url": databaseUrl } = options(args);
  if (!dir) throw new UsageError("init needs a folder: --dir DIR");
  const apiPort = port("--api-port", api, DEFAULT_PORT);
  return {
    command: "init",
    dir,
    host: hostOf(host ?? "localhost"),
    apiPort,
    ctrlPort: port("--ctrl-port", ctrl, apiPort),
    ...(databaseUrl === undefined ? {} : { databaseUrl: urlOf(databaseUrl) }),
  };
}

function options(args: readonly string[]) {
  const text = { type: "string" } as const;
  try {
    const names = { dir: text, host: text, "api-port": text, "ctrl-port": text, "database-url": text };
    return parseArgs({ args: [...args], options: names, allowPositionals: false, strict: true }).values;
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
}

function port(option: string, text: string | undefined, fallback: number): number {
  if (text === undefined) return fallback;
  const value = Number(text);
  if (!/^\d+$/.test(text) || value < 1 || value > 65_535)
    throw new UsageError(`${option} must be a port, 1 to 65535, found ${text}`);
  return value;
}

function hostOf(text: string): string {
  const host = text.replace(/^\[(.*)\]$/, "$1");
  if (!/^[0-9A-Za-z.:_-]+$/.test(host))
    throw new UsageError(`--host must be a host name or an IP address, found ${text}`);
  return host;
}

function urlOf(text: string): string {
  if (!/^postgres(ql)?:\/\//.test(text) || !URL.canParse(text)) {
    throw new UsageError("--database-url must have the form postgres://user:password@host:port/database");
  }
  return text;
}
