import { isIP } from "node:net";
import { parseArgs } from "node:util";
import { errorText } from "@sallyport/async";
import { formatDuration, parseDuration } from "@sallyport/config-file/duration";
import { TUNNEL_DEFAULTS } from "@sallyport/router-config/tunnel-defaults";

/** How clients reach services. */
export type Mode =
  | { readonly name: "host" }
  | { readonly name: "proxy"; readonly services: readonly string[]; readonly bindAddress: string }
  | {
      readonly name: "run";
      readonly resolver: string;
      readonly dnsRange: string;
      readonly lanInterface?: string | undefined;
    };

/** What the program was asked to do. */
export type ProgramCommand =
  | {
      readonly name: "tunnel";
      readonly mode: Mode;
      /** Identity files, and folders of them. */
      readonly identities: readonly string[];
      readonly udpIdleTimeoutMs: number;
      readonly refreshIntervalMs: number;
      readonly drainMs: number;
      /** Where probes are answered; undefined: nowhere. */
      readonly health?: { readonly host: string; readonly port: number } | undefined;
      readonly verbose: boolean;
    }
  | {
      readonly name: "enroll";
      readonly jwtFile: string;
      readonly output: string;
      /** Keeps an existing identity, and does not read the token then. */
      readonly ifNeeded: boolean;
      readonly verbose: boolean;
    }
  | {
      readonly name: "join";
      /** `https://host:port` */
      readonly controller: string;
      readonly caFile: string;
      /** Name of the network's signer; undefined: the only one there is. */
      readonly signer?: string | undefined;
      /** Where fresh tokens are; undefined: the user logs in. */
      readonly tokenFile?: string | undefined;
      readonly isDevice: boolean;
      /** Becomes an identity with a certificate at once. */
      readonly toCertificate: boolean;
      readonly output: string;
      readonly ifNeeded: boolean;
      readonly verbose: boolean;
    }
  | { readonly name: "version" }
  | { readonly name: "help"; readonly problem?: string };

const DEFAULTS = {
  resolver: TUNNEL_DEFAULTS.resolver,
  dnsRange: TUNNEL_DEFAULTS.dnsSvcIpRange,
  udpIdle: formatDuration(TUNNEL_DEFAULTS.udpIdleTimeoutMs),
  refresh: formatDuration(TUNNEL_DEFAULTS.servicePollMs),
  drain: "5s",
  bind: "127.0.0.1",
} as const;

export const USAGE = `usage: sallyport-tunnel <command>

  run -i <identity>…                     intercept and host services (Linux, needs root or CAP_NET_ADMIN)
      --resolver <url>                   name server for intercepted names; ${DEFAULTS.resolver}
      --dns-range <cidr>                 addresses for those names; ${DEFAULTS.dnsRange}
      --lan-if <interface>               accept intercepted packets of this interface in the firewall, too
  proxy -i <identity>… <service>:<port>[:tcp|udp]…
                                         open ports that lead to services, and host services
      --bind <address>                   address of the ports; ${DEFAULTS.bind}
  host -i <identity>…                    host services only
  enroll --jwt <file> [-o <file>]        redeem a one-time token and write the identity file
      --if-needed                        keep an existing identity file, and do not read the token
  join --controller <url> --ca <file> -o <file>
                                         write an identity file that logs in at a provider that the network trusts
      --signer <name>                    the network's signer for it, where there are several
      --token-file <file>                read a fresh token there at each login, instead of asking for a login in a browser
      --device                           log in with a code, in a browser of another machine
      --enroll-to-cert                   log in now, and write an identity file with a certificate
      --if-needed                        keep an existing identity file

  -i, --identity <file or folder>        may be repeated; a folder means every .json file in it
      --refresh <duration>               how often the controller is asked for changes; ${DEFAULTS.refresh}
      --udp-idle <duration>              when a silent UDP client is forgotten; ${DEFAULTS.udpIdle}
      --drain <duration>                 longest wait for open connections when stopping; ${DEFAULTS.drain}
      --health-address <address:port>    answer probes there: /health-checks/live, /health-checks/ready
  -v, --verbose                          log more (as SALLYPORT_LOG_LEVEL=debug)
      --version                          print the version
  -h, --help                             print this text
`;

/** The command line is wrong; the message says how. */
class CommandLineError extends Error {}

/** Reads the command line; whatever is wrong with it becomes `help` with the problem named. */
export function parseCommand(args: readonly string[]): ProgramCommand {
  try {
    return commandOf(parse(args));
  } catch (error) {
    return { name: "help", problem: errorText(error) };
  }
}

const options = {
  identity: { type: "string", short: "i", multiple: true },
  jwt: { type: "string", short: "j" },
  output: { type: "string", short: "o" },
  "if-needed": { type: "boolean" },
  controller: { type: "string" },
  ca: { type: "string" },
  signer: { type: "string" },
  "token-file": { type: "string" },
  device: { type: "boolean" },
  "enroll-to-cert": { type: "boolean" },
  bind: { type: "string" },
  resolver: { type: "string" },
  "dns-range": { type: "string" },
  "lan-if": { type: "string" },
  "udp-idle": { type: "string" },
  refresh: { type: "string" },
  drain: { type: "string" },
  "health-address": { type: "string" },
  verbose: { type: "boolean", short: "v" },
  version: { type: "boolean" },
  help: { type: "boolean", short: "h" },
} as const;

type CommandOption = keyof typeof options;

/** The options of each command; the common ones of all that tunnel. */
const COMMON: readonly CommandOption[] = ["identity", "udp-idle", "refresh", "drain", "health-address", "verbose"];
const TAKES: Readonly<Record<string, readonly CommandOption[]>> = {
  run: [...COMMON, "resolver", "dns-range", "lan-if"],
  proxy: [...COMMON, "bind"],
  host: COMMON,
  enroll: ["jwt", "output", "if-needed", "verbose"],
  join: ["controller", "ca", "signer", "token-file", "device", "enroll-to-cert", "output", "if-needed", "verbose"],
};

function parse(args: readonly string[]) {
  return parseArgs({ args: [...args], allowPositionals: true, options });
}

function commandOf({ values, positionals }: ReturnType<typeof parse>): ProgramCommand {
  const [name, ...rest] = positionals;
  if (values.version === true || name === "version") return { name: "version" };
  if (values.help === true || name === undefined || name === "help") return { name: "help" };
  const takes = TAKES[name];
  if (takes === undefined) throw new CommandLineError(`there is no command ${name}`);
  const unknown = Object.keys(values).find((option) => !takes.some((each) => each === option));
  if (unknown !== undefined) throw new CommandLineError(`${name} takes no --${unknown}`);
  if (name !== "proxy" && rest.length > 0) throw new CommandLineError(`${name} takes no argument, found ${rest[0]}`);
  const verbose = values.verbose === true;
  if (name === "enroll") {
    if (values.jwt === undefined) throw new CommandLineError("enroll needs --jwt <file>");
    const output = values.output ?? `${values.jwt.replace(/\.jwt$/, "")}.json`;
    return { name, jwtFile: values.jwt, output, ifNeeded: values["if-needed"] === true, verbose };
  }
  if (name === "join") return joinOf(values, verbose);
  const { identity: identities = [] } = values;
  if (identities.length === 0)
    throw new CommandLineError(`${name} needs -i <identity>; make one with: sallyport-tunnel enroll, or join`);
  return {
    name: "tunnel",
    mode: modeOf(name, values, rest),
    identities,
    udpIdleTimeoutMs: time("udp-idle", values["udp-idle"] ?? DEFAULTS.udpIdle, TUNNEL_DEFAULTS.minUdpIdleTimeoutMs),
    refreshIntervalMs: time("refresh", values.refresh ?? DEFAULTS.refresh, 1_000),
    drainMs: time("drain", values.drain ?? DEFAULTS.drain, 0),
    health: address("health-address", values["health-address"]),
    verbose,
  };
}

function joinOf(values: ReturnType<typeof parse>["values"], verbose: boolean): ProgramCommand {
  const { controller, ca, output, signer, "token-file": tokenFile } = values;
  if (controller === undefined) throw new CommandLineError("join needs --controller <url>");
  const url = URL.canParse(controller) ? new URL(controller) : undefined;
  if (url?.protocol !== "https:") {
    throw new CommandLineError(`--controller expects https://host:port, found ${controller}`);
  }
  if (ca === undefined) throw new CommandLineError("join needs --ca <file>");
  if (output === undefined) throw new CommandLineError("join needs -o <file>");
  const isDevice = values.device === true;
  if (isDevice && tokenFile !== undefined) throw new CommandLineError("--device and --token-file exclude each other");
  return {
    ...{ name: "join", controller: url.origin, caFile: ca, output, signer, tokenFile, isDevice, verbose },
    toCertificate: values["enroll-to-cert"] === true,
    ifNeeded: values["if-needed"] === true,
  };
}

function modeOf(name: string, values: ReturnType<typeof parse>["values"], rest: readonly string[]): Mode {
  if (name === "host") return { name };
  if (name === "run") {
    return {
      name,
      resolver: values.resolver ?? DEFAULTS.resolver,
      dnsRange: values["dns-range"] ?? DEFAULTS.dnsRange,
      lanInterface: values["lan-if"],
    };
  }
  if (rest.length === 0) throw new CommandLineError("proxy needs at least one <service>:<port>[:tcp|udp]");
  return { name: "proxy", services: rest, bindAddress: values.bind ?? DEFAULTS.bind };
}

function time(option: string, text: string, leastMs: number): number {
  const ms = parseDuration(text);
  if (ms !== undefined && ms >= leastMs && ms < 2 ** 31) return ms;
  const least = leastMs > 0 ? ` of at least ${leastMs / 1_000}s` : "";
  throw new CommandLineError(`--${option} expects a duration${least} such as 30s or 5m, found ${text}`);
}

function address(option: string, text: string | undefined): { host: string; port: number } | undefined {
  if (text === undefined) return undefined;
  const [, host = "", digits = ""] = /^(.*):(\d{1,5})$/.exec(text) ?? [];
  const ip = host.replace(/^\[(.*)\]$/, "$1");
  const port = Number(digits);
  if (isIP(ip) !== 0 && port >= 1 && port <= 65_535) return { host: ip, port };
  throw new CommandLineError(`--${option} expects an IP address and a port such as 0.0.0.0:8090, found ${text}`);
}
