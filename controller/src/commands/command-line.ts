/** The command line of the program: what each command takes, and how it is read. */
import { parseArgs } from "node:util";
import { parseDatabaseUrl, REPLICA_OPTIONS, type ReplicaOptions } from "@sallyport/controller-config";
import type { Logger } from "@sallyport/wire";
import type { KeyType } from "../pki/material.ts";

/** What every command works with. */
export interface CommandContext {
  readonly env: NodeJS.ProcessEnv;
  /** Takes what the user is told, one line at a time. */
  readonly say: (line: string) => void;
  readonly log: Logger;
}

/** Exit statuses, as `--help` lists them. */
export const ExitStatus = { Done: 0, Failed: 1, Usage: 2, Configuration: 3, Held: 4 } as const;

/** A command line that cannot be followed. The message says what is wrong with it. */
export class UsageError extends Error {
  override name = "UsageError";
}

/** Files of the operator's own authority. */
export interface CaFiles {
  readonly certFile: string;
  readonly keyFile: string;
}

export interface InitCommand {
  readonly command: "init";
  readonly place: NewFolder | GivenFile;
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
  readonly databaseUrl?: string | undefined;
}

/** A configuration that another program keeps. */
export interface GivenFile {
  readonly file: string;
}

/** `sallyport-controller admin reset …` */
export interface AdminCommand {
  readonly command: "admin";
  readonly action: "reset";
  readonly file: string;
  readonly identity?: string | undefined;
  readonly username?: string | undefined;
  readonly isGenerated: boolean;
  readonly hasOwnPolicy: boolean;
}

/** `sallyport-controller pki …` */
export type PkiCommand = { readonly command: "pki"; readonly file: string } & (
  | { readonly action: "status" }
  | { readonly action: "rotate"; readonly newKeys: boolean; readonly imported?: CaFiles | undefined }
  | { readonly action: "rotate-tokens"; readonly atOnce: boolean }
  | { readonly action: "retire"; readonly isForced: boolean }
);

export interface RunCommand {
  readonly command: "run";
  readonly file: string;
  readonly replica: ReplicaOptions;
  /** Set where the process is one of several workers, which `run` starts itself. */
  readonly worker?: number;
}

export type ControllerCommand =
  | InitCommand
  | PkiCommand
  | AdminCommand
  | RunCommand
  | { readonly command: "backup" | "restore"; readonly file: string; readonly backup: string }
  | { readonly command: "version" | "help" };

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
  sallyport-controller run FILE [--replica-id ID] [--replica-api-advertise HOST:PORT] [--replica-ctrl-advertise HOST:PORT]
                                [--replica-api-bind HOST:PORT] [--replica-ctrl-bind HOST:PORT] [--replica-metrics-bind HOST:PORT]
                                [--replica-workers N]
      Runs the controller with the configuration FILE until SIGINT or SIGTERM.
      The options go before the section replica of FILE. Each is an environment variable, too: SALLYPORT_REPLICA_ID.
  sallyport-controller backup FILE --to BACKUP
      Writes the whole database to the new file BACKUP, in a folder that exists. The controller may run.
      BACKUP does not contain the secret key.
  sallyport-controller restore FILE --from BACKUP
      Fills the database of the configuration FILE from BACKUP. The database must be empty, or hold an unused network.
      The secret key of the configuration must be that of the backup's network.
  sallyport-controller admin reset FILE [--identity NAME] [--username NAME] [--generate] [--own-policy]
      Restores access for an administrator: sets a new password, enables the identity, removes MFA, ends API sessions.
      The controller may run. The command asks for the password, or reads one line if standard input is not a terminal.
        --identity NAME     id, name or user name of the administrator (default: the default one)
        --username NAME     a new user name
        --generate          generate a password and print it once
        --own-policy        assign a separate auth policy that only requires the password
  sallyport-controller pki status FILE
      Shows which authorities the network trusts, and how many certificates of a former one are in use.
  sallyport-controller pki rotate FILE [--new-keys] [--ca-cert PEM --ca-key PEM]
      Replaces root and signing CA. The former ones stay trusted until all their certificates were renewed.
      The controller may run; it applies the change at once.
        --new-keys          replace the controller's own keys, too; enrollment tokens are then signed again
        --ca-cert PEM --ca-key PEM   rotate to your own authority, as with init
  sallyport-controller pki rotate FILE --retire [--force]
      Ends the trust in the former authority; with --force even if its certificates are in use.
  sallyport-controller pki rotate FILE --tokens [--at-once]
      Makes a new key for tokens. It signs 15 minutes later, and every session goes on.
        --at-once           for a key that others may know: the new key signs now, no earlier token counts, and all logins by OIDC end
  sallyport-controller --version | --help

Exit status: 0 done; 1 failed; 2 wrong usage; 3 unusable configuration; 4 the database belongs to another controller,
which runs or is of a newer version.
`;

/** Reads the arguments after the program's name. @throws UsageError */
export function parseCommandLine(args: readonly string[]): ControllerCommand {
  const [command, ...rest] = args;
  if (command === undefined || args.includes("--help") || args.includes("-h")) return { command: "help" };
  switch (command) {
    case "help":
      return { command };
    case "version":
    case "--version":
    case "-v":
      return { command: "version" };
    case "run":
      return run(rest);
    case "init":
      return init(rest);
    case "pki":
      return pki(rest);
    case "admin":
      return admin(rest);
    case "backup":
      return backup(command, "to", rest);
    case "restore":
      return backup(command, "from", rest);
    default:
      throw new UsageError(
        `unknown command ${command}: expected init, run, admin, pki, backup, restore, --version or --help`,
      );
  }
}

const TEXT = { type: "string" } as const;
const FLAG = { type: "boolean" } as const;

type Options = Readonly<Record<string, typeof TEXT | typeof FLAG>>;

/** The options and other arguments of a command. `hint` goes behind the message. @throws UsageError */
function parsed<T extends Options>(args: readonly string[], options: T, allowPositionals = true, hint = "") {
  try {
    return parseArgs({ args: [...args], options, allowPositionals, strict: true });
  } catch (error) {
    throw new UsageError((error as Error).message + hint);
  }
}

function onlyFile([file, ...more]: readonly string[], command: string): string {
  if (file !== undefined && more.length === 0) return file;
  throw new UsageError(
    `${command} needs exactly one configuration file: sallyport-controller ${command} controller.yml`,
  );
}

function run(args: readonly string[]): ControllerCommand {
  const options = Object.fromEntries([...REPLICA_OPTIONS, "worker"].map((name) => [name, TEXT]));
  const { values, positionals } = parsed(args, options);
  const { worker: text, ...replica } = values as Readonly<Record<string, string>>;
  const worker = text === undefined ? {} : { worker: workerNumber(text) };
  return { command: "run", file: onlyFile(positionals, "run"), replica, ...worker };
}

function workerNumber(text: string): number {
  if (/^[1-9]\d?$/.test(text)) return Number(text);
  throw new UsageError(`--worker must be the number of a worker, found ${text}`);
}

function backup(command: "backup" | "restore", option: "to" | "from", args: readonly string[]): ControllerCommand {
  const usage = `${command} needs a configuration file and a backup: sallyport-controller ${command} controller.yml --${option} BACKUP`;
  const { values, positionals } = parsed(args, { [option]: TEXT }, true, `: ${usage}`);
  const [file, ...more] = positionals;
  const other = values[option];
  if (file === undefined || more.length > 0 || typeof other !== "string" || other === "") throw new UsageError(usage);
  return { command, file, backup: other };
}

function init(args: readonly string[]): InitCommand {
  const names = { dir: TEXT, config: TEXT, host: TEXT, "api-port": TEXT, "ctrl-port": TEXT, "database-url": TEXT };
  const options = { ...names, "ca-cert": TEXT, "ca-key": TEXT, "key-type": TEXT };
  const { values } = parsed(args, options, false);
  const imported = caFiles(values["ca-cert"], values["ca-key"]);
  const keyType = values["key-type"];
  if (keyType !== undefined && keyType !== "ec" && keyType !== "rsa") {
    throw new UsageError(`--key-type must be ec or rsa, found ${keyType}`);
  }
  return { command: "init", place: placeOf(values), imported, keyType };
}

/** Options that only a configuration that is still to be written can take. */
const OF_A_NEW_FOLDER = ["dir", "host", "api-port", "ctrl-port", "database-url"] as const;

function placeOf(
  given: Readonly<Partial<Record<(typeof OF_A_NEW_FOLDER)[number] | "config", string>>>,
): NewFolder | GivenFile {
  const { dir, config, host = "localhost", "api-port": api, "ctrl-port": ctrl, "database-url": databaseUrl } = given;
  if (config) {
    const other = OF_A_NEW_FOLDER.find((name) => given[name] !== undefined);
    if (other !== undefined) throw new UsageError(`--${other} can't stand beside --config: the file says it`);
    return { file: config };
  }
  if (!dir) throw new UsageError("init needs a folder, --dir DIR, or a configuration that is there, --config FILE");
  const apiPort = port("--api-port", api, DEFAULT_PORT);
  return {
    dir,
    host: hostOf(host),
    apiPort,
    ctrlPort: port("--ctrl-port", ctrl, apiPort),
    databaseUrl: urlOf(databaseUrl),
  };
}

function port(option: string, text: string | undefined, fallback: number): number {
  if (text === undefined) return fallback;
  const value = Number(text);
  if (/^\d+$/.test(text) && value >= 1 && value <= 65_535) return value;
  throw new UsageError(`${option} must be a port, 1 to 65535, found ${text}`);
}

function hostOf(text: string): string {
  const host = text.replace(/^\[(.*)\]$/, "$1");
  if (/^[0-9A-Za-z.:_-]+$/.test(host)) return host;
  throw new UsageError(`--host must be a host name or an IP address, found ${text}`);
}

function urlOf(text: string | undefined): string | undefined {
  if (text === undefined) return undefined;
  try {
    parseDatabaseUrl(text);
    return text;
  } catch (error) {
    throw new UsageError(`--database-url must be ${(error as Error).message}`);
  }
}

function admin([action, ...args]: readonly string[]): AdminCommand {
  if (action !== "reset") throw new UsageError(`admin needs an action: expected reset, found ${action ?? "nothing"}`);
  const options = { identity: TEXT, username: TEXT, generate: FLAG, "own-policy": FLAG };
  const { values, positionals } = parsed(args, options);
  const file = onlyFile(positionals, "admin reset");
  const { identity, username, generate: isGenerated = false, "own-policy": hasOwnPolicy = false } = values;
  if (identity === "") throw new UsageError("--identity needs an id, a name or a user name");
  const length = username === undefined ? 4 : [...username].length;
  if (length < 4 || length > 100) throw new UsageError(`--username must have 4 to 100 characters, it has ${length}`);
  return { command: "admin", action, file, isGenerated, hasOwnPolicy, identity, username };
}

function pki([action, ...args]: readonly string[]): PkiCommand {
  if (action !== "status" && action !== "rotate") {
    throw new UsageError(`pki needs an action: expected status or rotate, found ${action ?? "nothing"}`);
  }
  const options = {
    "ca-cert": TEXT,
    "ca-key": TEXT,
    "new-keys": FLAG,
    retire: FLAG,
    force: FLAG,
    tokens: FLAG,
    "at-once": FLAG,
  };
  const { values, positionals } = parsed(args, options);
  const file = onlyFile(positionals, `pki ${action}`);
  const {
    "new-keys": newKeys = false,
    retire = false,
    force = false,
    tokens = false,
    "at-once": atOnce = false,
  } = values;
  const imported = caFiles(values["ca-cert"], values["ca-key"]);
  const forRotation = newKeys || imported !== undefined;
  if (action === "status") {
    if (forRotation || retire || force || tokens || atOnce) throw new UsageError("pki status takes no options");
    return { command: "pki", action, file };
  }
  if (tokens) {
    if (forRotation || retire || force) throw new UsageError("--tokens takes no other option but --at-once");
    return { command: "pki", action: "rotate-tokens", file, atOnce };
  }
  if (atOnce) throw new UsageError("--at-once belongs to --tokens");
  if (!retire) {
    if (force) throw new UsageError("--force belongs to --retire");
    return { command: "pki", action: "rotate", file, newKeys, imported };
  }
  if (forRotation) throw new UsageError("--retire ends a rotation: it takes no other option but --force");
  return { command: "pki", action: "retire", file, isForced: force };
}

/** Both files of an authority, or none. */
function caFiles(certFile: string | undefined, keyFile: string | undefined): CaFiles | undefined {
  if (certFile === undefined && keyFile === undefined) return undefined;
  if (!certFile || !keyFile) throw new UsageError("--ca-cert and --ca-key belong together");
  return { certFile, keyFile };
}
