import { parseArgs } from "node:util";
import type { KeyType } from "../pki/material.ts";
import { ADMIN_USAGE, type AdminCommand, parseAdminCommand } from "./admin-command-line.ts";
import { UsageError } from "./command.ts";
import { type CaFiles, caFiles } from "./imported-ca.ts";
import { PKI_USAGE, type PkiCommand, parsePkiCommand } from "./pki-command-line.ts";

export { UsageError };

export interface InitCommand {
  readonly command: "init";
  readonly place: NewFolder | GivenFile;
  /** Files of an authority of the operator's own. */
  readonly imported?: CaFiles | undefined;
  /** Of the served key; EC when absent. */
  readonly keyType?: KeyType | undefined;
}

/** A configuration that is still to be written, in a folder. */
export interface NewFolder {
  readonly dir: string;
  readonly host: string;
  readonly apiPort: number;
  readonly ctrlPort: number;
  readonly databaseUrl?: string;
}

/** A configuration that another program keeps. */
export interface GivenFile {
  readonly file: string;
}

export interface RunCommand {
  readonly command: "run";
  readonly file: string;
}

export interface BackupCommand {
  readonly command: "backup";
  /** The configuration of the controller. */
  readonly file: string;
  /** Where to write. */
  readonly target: string;
}

export interface RestoreCommand {
  readonly command: "restore";
  readonly file: string;
  /** The backup. */
  readonly source: string;
}

export type Command =
  | InitCommand
  | RunCommand
  | PkiCommand
  | AdminCommand
  | BackupCommand
  | RestoreCommand
  | { readonly command: "version" }
  | { readonly command: "help" };

const DEFAULT_PORT = 1280;

export const USAGE = `Usage:
  sallyport-controller init --dir DIR [--host HOST] [--api-port PORT] [--ctrl-port PORT] [--database-url URL]
      Makes a new network in DIR: keys, certificates, database, administrator, and a commented DIR/controller.yml.
      Existing parts stay unchanged.
        --host HOST         name or address under which clients and routers reach the controller (default: localhost)
        --api-port PORT     port of the HTTP APIs (default: ${DEFAULT_PORT})
        --ctrl-port PORT    port of the control channel (default: that of the API; one port serves both)
        --database-url URL  your own PostgreSQL, 15 or newer (default: an embedded one in DIR/database)
        --key-type ec|rsa   type of the key that serves the API and signs enrollment tokens (default: ec, P-256);
                            rsa (2048 bits) is for C SDKs from before 2023, which verify no other tokens
        --ca-cert PEM, --ca-key PEM   files of your own CA: a root, or an intermediate followed by its chain up to the root
      The administrator's name and password come from SALLYPORT_ADMIN_USERNAME (default: admin) and
      SALLYPORT_ADMIN_PASSWORD, or from the files that SALLYPORT_ADMIN_USERNAME_FILE and SALLYPORT_ADMIN_PASSWORD_FILE
      name. Without a password, init makes one and prints it once.
  sallyport-controller init --config FILE [--key-type ec|rsa] [--ca-cert PEM --ca-key PEM]
      The same for an existing configuration FILE, which init only reads.
  sallyport-controller run FILE
      Runs the controller with the configuration FILE until SIGINT or SIGTERM.
  sallyport-controller backup FILE --to BACKUP
      Writes the whole database to the new file BACKUP. The controller may run. BACKUP does not contain the secret key.
  sallyport-controller restore FILE --from BACKUP
      Fills the empty database of the configuration FILE from BACKUP.
${ADMIN_USAGE}${PKI_USAGE}  sallyport-controller --version | --help

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
  if (command === "pki") return parsePkiCommand(rest);
  if (command === "admin") return parseAdminCommand(rest);
  if (command === "backup") return backup(rest);
  if (command === "restore") return restore(rest);
  throw new UsageError(
    `unknown command ${command}: expected init, run, admin, pki, backup, restore, --version or --help`,
  );
}

function run(args: readonly string[]): RunCommand {
  const [file, ...more] = args;
  if (file === undefined || file.startsWith("-") || more.length > 0) {
    throw new UsageError("run needs exactly one configuration file: sallyport-controller run controller.yml");
  }
  return { command: "run", file };
}

function backup(args: readonly string[]): BackupCommand {
  return { command: "backup", ...fileAnd(args, "backup", "to", "target") };
}

function restore(args: readonly string[]): RestoreCommand {
  return { command: "restore", ...fileAnd(args, "restore", "from", "source") };
}

/** A configuration file and one more file behind an option. */
function fileAnd<K extends string>(args: readonly string[], command: string, option: string, name: K) {
  const usage = `${command} needs a configuration file and a backup: sallyport-controller ${command} controller.yml --${option} BACKUP`;
  try {
    const { values, positionals } = parseArgs({
      args: [...args],
      options: { [option]: { type: "string" } },
      allowPositionals: true,
      strict: true,
    });
    const [file, ...more] = positionals;
    const other = values[option];
    if (file === undefined || more.length > 0 || typeof other !== "string" || other === "") throw new UsageError(usage);
    return { file, [name]: other } as { readonly file: string } & { readonly [N in K]: string };
  } catch (error) {
    throw error instanceof UsageError ? error : new UsageError(`${(error as Error).message}: ${usage}`);
  }
}

function init(args: readonly string[]): InitCommand {
  const given = options(args);
  const imported = caFiles(given["ca-cert"], given["ca-key"]);
  const keyType = keyTypeOf(given["key-type"]);
  return {
    command: "init",
    place: placeOf(given),
    imported,
    keyType,
  };
}

function keyTypeOf(text: string | undefined): KeyType | undefined {
  if (text === undefined || text === "ec" || text === "rsa") return text;
  throw new UsageError(`--key-type must be ec or rsa, found ${text}`);
}

/** What only a configuration that is still to be written can take. */
const OF_A_NEW_FOLDER = ["dir", "host", "api-port", "ctrl-port", "database-url"] as const;

function placeOf(given: ReturnType<typeof options>): NewFolder | GivenFile {
  const { dir, config, host, "api-port": api, "ctrl-port": ctrl, "database-url": databaseUrl } = given;
  if (config) {
    const other = OF_A_NEW_FOLDER.find((name) => given[name] !== undefined);
    if (other !== undefined) throw new UsageError(`--${other} can't stand beside --config: the file says it`);
    return { file: config };
  }
  if (!dir) throw new UsageError("init needs a folder, --dir DIR, or a configuration that is there, --config FILE");
  const apiPort = port("--api-port", api, DEFAULT_PORT);
  return {
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
    const names = {
      dir: text,
      config: text,
      host: text,
      "api-port": text,
      "ctrl-port": text,
      "database-url": text,
      "ca-cert": text,
      "ca-key": text,
      "key-type": text,
    };
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
