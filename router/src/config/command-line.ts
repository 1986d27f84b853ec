import { parseArgs } from "node:util";
import { errorText } from "@sallyport/async";
import type { NewConfig, TunnelMode } from "./create-config.ts";
import type { KeyAlgorithm } from "./enroll.ts";

/** What the program was asked to do. */
export type RouterCommand =
  | { readonly name: "run"; readonly file: string; readonly extend: boolean; readonly verbose: boolean }
  | { readonly name: "check"; readonly file: string }
  | {
      readonly name: "enroll";
      readonly file: string;
      readonly jwtFile: string | undefined;
      /** Do nothing where there are valid certificates. */
      readonly ifNeeded: boolean;
      readonly expectId: string | undefined;
      readonly configuredEndpoints: boolean;
      readonly algorithm: KeyAlgorithm | undefined;
      readonly verbose: boolean;
    }
  | { readonly name: "extend"; readonly file: string; readonly verbose: boolean }
  | ({ readonly name: "create-config" } & NewConfig)
  | {
      readonly name: "status";
      readonly pid: number | undefined;
      /** Socket of the router's agent. */
      readonly socket: string | undefined;
      readonly json: boolean;
    }
  | { readonly name: "version" }
  | { readonly name: "help"; readonly problem?: string };

export const USAGE = `usage: sallyport-router <command>

  run <router.yml> [--extend] [--verbose]   start the router; --extend renews its certificates at once
  enroll <router.yml> --jwt <file>          redeem a one-time token and write the certificates
         [--if-needed]                      only when there are no valid certificates; then no token is needed.
                                            Certificates without an advertised host are renewed
         [--expect-id <id>]                 only for the router with this id
         [--configured-endpoints]           dial the controllers of the file, not those of the token
         [--key-alg EC|RSA]                 kind of the key; EC unless a key exists
  extend <router.yml>                       renew the certificates once, whether the router runs or not
  status [--pid <pid> | --socket <path>]    show what a router on this machine is doing
         [--json]                           the same as JSON
  check <router.yml>                        validate the file, and list keys without effect
  create-config <name> --controller tls:<host>:<port> --host <host>
         [--port 3022] [--link-port 3022]   ports for SDKs and for other routers
         [--private]                        do not listen for links of other routers
         [--wss]                            serve SDKs in web sockets
         [--tunneler-mode none|host|proxy|tproxy]
                                            print a commented configuration file
  --version                                 print the version
  --help                                    print this text
`;

/** The commands, and what each of them takes. */
const ARGUMENTS: Readonly<Record<string, string>> = {
  run: "<router.yml>",
  enroll: "<router.yml>",
  extend: "<router.yml>",
  check: "<router.yml>",
  "create-config": "<name>",
};

/** Reads the command line; whatever is wrong with it becomes `help` with the problem named. */
export function parseCommand(args: readonly string[]): RouterCommand {
  try {
    return commandOf(parse(args));
  } catch (error) {
    return { name: "help", problem: errorText(error) };
  }
}

class UsageError extends Error {
  override readonly name = "UsageError";
}

type Arguments = ReturnType<typeof parse>;

function commandOf({ values, positionals }: Arguments): RouterCommand {
  const [name, target, ...more] = positionals;
  if (values.version === true) return { name: "version" };
  if (values.help === true || name === undefined || name === "help") return { name: "help" };
  if (name === "version") return { name: "version" };
  if (name === "status") return statusCommand(target, values);
  const argument = ARGUMENTS[name];
  if (argument === undefined) throw new UsageError(`there is no command ${name}`);
  if (target === undefined || more.length > 0) {
    throw new UsageError(`${name} takes exactly one argument, ${argument}`);
  }
  const verbose = values.verbose === true;
  switch (name) {
    case "run":
      return { name, file: target, extend: values.extend === true, verbose };
    case "check":
      return { name, file: target };
    case "extend":
      return { name, file: target, verbose };
    case "enroll": {
      const ifNeeded = values["if-needed"] === true;
      if (values.jwt === undefined && !ifNeeded) throw new UsageError("enroll needs --jwt <file>");
      const algorithm = values["key-alg"] === undefined ? undefined : keyAlgorithm(values["key-alg"]);
      const expectId = values["expect-id"];
      if (expectId === "") throw new UsageError("--expect-id expects the id of the router");
      const configuredEndpoints = values["configured-endpoints"] === true;
      return { name, file: target, jwtFile: values.jwt, ifNeeded, expectId, configuredEndpoints, algorithm, verbose };
    }
    default:
      return createCommand(target, values);
  }
}

function createCommand(routerName: string, values: Arguments["values"]): RouterCommand {
  const { controller, host } = values;
  if (controller === undefined || host === undefined) {
    throw new UsageError("create-config needs --controller and --host");
  }
  const port = portNumber("--port", values.port ?? "3022");
  return {
    name: "create-config",
    routerName,
    controller,
    host,
    port,
    linkPort: values["link-port"] === undefined ? port : portNumber("--link-port", values["link-port"]),
    isPrivate: values.private === true,
    wss: values.wss === true,
    tunnelMode: tunnelMode(values["tunneler-mode"] ?? "none"),
  };
}

function portNumber(option: string, text: string): number {
  const isPort = /^\d{1,5}$/.test(text) && Number(text) > 0 && Number(text) < 65_536;
  if (!isPort) throw new UsageError(`${option} expects a number from 1 to 65535, found ${text}`);
  return Number(text);
}

function keyAlgorithm(text: string): KeyAlgorithm {
  const wanted = text.toUpperCase();
  if (wanted === "EC" || wanted === "RSA") return wanted;
  throw new UsageError(`--key-alg expects EC or RSA, found ${text}`);
}

function tunnelMode(text: string): TunnelMode {
  if (text === "none" || text === "host" || text === "proxy" || text === "tproxy") return text;
  throw new UsageError(`--tunneler-mode expects none, host, proxy or tproxy, found ${text}`);
}

function statusCommand(target: string | undefined, { pid, socket, json }: Arguments["values"]): RouterCommand {
  if (target !== undefined)
    throw new UsageError(`status takes no argument, found ${target}; name a process with --pid`);
  if (pid !== undefined && socket !== undefined)
    throw new UsageError("--pid and --socket name the same thing: give one");
  if (pid !== undefined && !/^[1-9]\d{0,9}$/.test(pid))
    throw new UsageError(`--pid expects a process id, found ${pid}`);
  return { name: "status", pid: pid === undefined ? undefined : Number(pid), socket, json: json === true };
}

function parse(args: readonly string[]) {
  return parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      jwt: { type: "string", short: "j" },
      "if-needed": { type: "boolean" },
      "expect-id": { type: "string" },
      "configured-endpoints": { type: "boolean" },
      "key-alg": { type: "string", short: "a" },
      controller: { type: "string" },
      host: { type: "string" },
      port: { type: "string" },
      "link-port": { type: "string" },
      private: { type: "boolean" },
      wss: { type: "boolean" },
      "tunneler-mode": { type: "string" },
      extend: { type: "boolean", short: "e" },
      verbose: { type: "boolean", short: "v" },
      pid: { type: "string", short: "p" },
      socket: { type: "string" },
      json: { type: "boolean" },
      version: { type: "boolean" },
      help: { type: "boolean", short: "h" },
    },
  });
}
