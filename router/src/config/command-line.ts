import { parseArgs } from "node:util";

/** What the program was asked to do. */
export type Command =
  | { readonly name: "run"; readonly file: string; readonly extend: boolean; readonly verbose: boolean }
  | { readonly name: "check"; readonly file: string }
  | { readonly name: "enroll"; readonly file: string; readonly jwtFile: string; readonly verbose: boolean }
  | {
      readonly name: "create-config";
      readonly routerName: string;
      readonly host: string;
      readonly controller: string;
      readonly port: number;
    }
  | { readonly name: "version" }
  | { readonly name: "help"; readonly problem?: string };

export const USAGE = `usage: sallyport-router <command>

  run <router.yml> [--extend] [--verbose]   start the router; --extend renews its certificates at once
  enroll <router.yml> --jwt <file>          redeem a one-time token and write the certificates
  check <router.yml>                        validate the file and say what in it has no effect
  create-config <name> --controller tls:<host>:<port> --host <host> [--port 3022]
                                            print a commented configuration file
  --version                                 print the version
  --help                                    print this text
`;

/** The commands, and what each of them takes. */
const ARGUMENTS: Readonly<Record<string, string>> = {
  run: "<router.yml>",
  enroll: "<router.yml>",
  check: "<router.yml>",
  "create-config": "<name>",
};

/** Reads the command line; whatever is wrong with it becomes `help` with the problem named. */
export function parseCommand(args: readonly string[]): Command {
  let parsed: ReturnType<typeof parse>;
  try {
    parsed = parse(args);
  } catch (error) {
    return { name: "help", problem: error instanceof Error ? error.message : String(error) };
  }
  const { values, positionals } = parsed;
  const [name, target, ...more] = positionals;
  if (values.version === true) return { name: "version" };
  if (values.help === true || name === undefined || name === "help") return { name: "help" };
  if (name === "version") return { name: "version" };
  const argument = ARGUMENTS[name];
  if (argument === undefined) return { name: "help", problem: `there is no command ${name}` };
  if (target === undefined || more.length > 0) {
    return { name: "help", problem: `${name} takes exactly one argument, ${argument}` };
  }
  const verbose = values.verbose === true;
  switch (name) {
    case "run":
      return { name, file: target, extend: values.extend === true, verbose };
    case "check":
      return { name, file: target };
    case "enroll":
      if (values.jwt === undefined) return { name: "help", problem: "enroll needs --jwt <file>" };
      return { name, file: target, jwtFile: values.jwt, verbose };
    case "create-config":
      if (values.controller === undefined || values.host === undefined) {
        return { name: "help", problem: "create-config needs --controller and --host" };
      }
      return createCommand(target, values.controller, values.host, values.port ?? "3022");
    default:
      return { name: "help", problem: `there is no command ${name}` };
  }
}

function createCommand(routerName: string, controller: string, host: string, port: string): Command {
  const isPort = /^\d{1,5}$/.test(port) && Number(port) > 0 && Number(port) < 65_536;
  if (!isPort) return { name: "help", problem: `--port expects a number from 1 to 65535, found ${port}` };
  return { name: "create-config", routerName, controller, host, port: Number(port) };
}

function parse(args: readonly string[]) {
  return parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      jwt: { type: "string", short: "j" },
      controller: { type: "string" },
      host: { type: "string" },
      port: { type: "string" },
      extend: { type: "boolean", short: "e" },
      verbose: { type: "boolean", short: "v" },
      version: { type: "boolean" },
      help: { type: "boolean", short: "h" },
    },
  });
}
