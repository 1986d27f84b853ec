import { hostname } from "node:os";
import { parseArgs } from "node:util";
import { errorText } from "@sallyport/async";
import { parseDuration } from "@sallyport/config-file/duration";
import { LOG_FORMATS, LOG_LEVELS, type LogFormat, type LogLevel } from "@sallyport/program/logging/level";
import type { CheckSettings } from "./check.ts";
import type { WaitSettings } from "./wait.ts";

/** Defaults of the settings; the charts and the manifests repeat some of them (scripts/charts/charts.test.ts). */
export const OPERATOR_DEFAULTS = {
  leaseName: "sallyport-operator",
  healthPort: 8080,
  resync: "10m",
  logLevel: "info",
  logFormat: "auto",
  waitTimeout: "5m",
  checkTimeout: "1m",
} as const;

/** The command line or the environment can't be used; the message says what is wrong and what would do. */
export class SettingsError extends Error {
  override readonly name = "SettingsError";
}

export interface OperatorSettings {
  readonly kubeconfig: string | undefined;
  readonly context: string | undefined;
  /** URL of an API server that needs no credentials. */
  readonly server: string | undefined;
  /** Namespaces that are looked after; empty: all. */
  readonly namespaces: readonly string[];
  /** Of the operator itself, for its Lease; the pod's own when absent. */
  readonly namespace: string | undefined;
  readonly leaseName: string;
  readonly electsLeader: boolean;
  /** For events and the Lease. */
  readonly podName: string;
  /** The operator's own service account, for tokens by which it logs in to networks. */
  readonly serviceAccount: string | undefined;
  /** Ownership tags carry it; the UID of the namespace kube-system when absent. */
  readonly clusterId: string | undefined;
  readonly healthPort: number;
  readonly resyncMs: number;
  readonly logLevel: LogLevel;
  readonly logFormat: LogFormat;
  readonly routerImage: string;
  readonly controllerImage: string;
}

/** Where the cluster is. */
export type ClusterSettings = Pick<OperatorSettings, "kubeconfig" | "context" | "server">;

export type Command =
  | { readonly name: "run"; readonly settings: OperatorSettings }
  | { readonly name: "wait"; readonly settings: ClusterSettings & WaitSettings }
  | { readonly name: "check"; readonly settings: ClusterSettings & CheckSettings }
  | { readonly name: "uninstall-check"; readonly settings: ClusterSettings & Pick<CheckSettings, "namespaces"> }
  | { readonly name: "help" | "version" };

interface Option {
  readonly env: string;
  readonly meaning: string;
  readonly value?: string;
}

/** Each may be given as a flag or in the environment; the flag wins. */
const OPTIONS = {
  kubeconfig: {
    env: "KUBECONFIG",
    value: "<file>",
    meaning: "kubeconfig file (default in a pod: its service account)",
  },
  context: { env: "SALLYPORT_CONTEXT", value: "<name>", meaning: "context in that file" },
  server: {
    env: "SALLYPORT_SERVER",
    value: "<url>",
    meaning: "URL of an API server that needs no credentials, such as kubectl proxy",
  },
  namespaces: { env: "SALLYPORT_NAMESPACES", value: "<a,b,…>", meaning: "namespaces to watch (default: all)" },
  namespace: { env: "POD_NAMESPACE", value: "<name>", meaning: "the operator's own namespace, for its Lease" },
  "lease-name": {
    env: "SALLYPORT_LEASE_NAME",
    value: "<name>",
    meaning: `name of the Lease (default: ${OPERATOR_DEFAULTS.leaseName})`,
  },
  "pod-name": {
    env: "POD_NAME",
    value: "<name>",
    meaning: "name of this pod in events and the Lease (default: the host name)",
  },
  "service-account": {
    env: "POD_SERVICE_ACCOUNT",
    value: "<name>",
    meaning: "the operator's own service account, whose token it uses to log in to Networks",
  },
  "cluster-id": {
    env: "SALLYPORT_CLUSTER_ID",
    value: "<id>",
    meaning: "name of this operator on entities (default: UID of the namespace kube-system)",
  },
  "health-port": {
    env: "SALLYPORT_HEALTH_PORT",
    value: "<port>",
    meaning: `port of /healthz, /readyz and /metrics (default: ${OPERATOR_DEFAULTS.healthPort})`,
  },
  resync: {
    env: "SALLYPORT_RESYNC",
    value: "<duration>",
    meaning: `how often to reconcile everything again, such as ${OPERATOR_DEFAULTS.resync}`,
  },
  "router-image": {
    env: "SALLYPORT_ROUTER_IMAGE",
    value: "<image>",
    meaning: "router image for resources that name none",
  },
  "controller-image": {
    env: "SALLYPORT_CONTROLLER_IMAGE",
    value: "<image>",
    meaning: "controller image for resources that name none",
  },
  "log-level": {
    env: "SALLYPORT_LOG_LEVEL",
    value: "<level>",
    meaning: `${LOG_LEVELS.join(", ")} (default: ${OPERATOR_DEFAULTS.logLevel})`,
  },
  "log-format": {
    env: "SALLYPORT_LOG_FORMAT",
    value: "<format>",
    meaning: `json, text, or auto: text on a terminal (default: ${OPERATOR_DEFAULTS.logFormat})`,
  },
  "no-leader-election": {
    env: "SALLYPORT_NO_LEADER_ELECTION",
    meaning: "start without an election; only if a second operator never runs",
  },
} as const satisfies Record<string, Option>;

/** Of `wait` alone, which takes the options of `run` that say where the cluster is and which namespaces are meant. */
const WAIT_OPTIONS = {
  selector: {
    env: "SALLYPORT_SELECTOR",
    value: "<labels>",
    meaning: "only resources with these labels, such as app=edge",
  },
  timeout: {
    env: "SALLYPORT_TIMEOUT",
    value: "<duration>",
    meaning: `how long to wait (default: ${OPERATOR_DEFAULTS.waitTimeout})`,
  },
} as const satisfies Record<string, Option>;

/** Of `check` alone, besides `timeout`. */
const CHECK_OPTIONS = {
  operator: {
    env: "SALLYPORT_OPERATOR_URL",
    value: "<url>",
    meaning: "URL of /readyz of the operator's pods; each address of its host name is asked (default: none)",
  },
} as const satisfies Record<string, Option>;

const ALL_OPTIONS = { ...OPTIONS, ...WAIT_OPTIONS, ...CHECK_OPTIONS };

type OptionName = keyof typeof ALL_OPTIONS;

const WIDTH = 36;
const lines = (options: Readonly<Record<string, Option>>) =>
  Object.entries(options).map(([name, { env, value, meaning }]) => {
    const flag = `  --${name}${value === undefined ? "" : ` ${value}`}`;
    return `${flag.padEnd(WIDTH)}${meaning} [${env}]`;
  });

export const USAGE = `usage: sallyport-operator run [options]
       sallyport-operator wait|check|uninstall-check [options]

run reconciles the resources of sallyport.dev/v1alpha1. wait ends when all of them are ready, or with status 1 after the timeout.
check reports whether the operator's rights suffice. uninstall-check reports resources that still need the operator.
Each option can also be set in the environment, under the name in brackets.

${lines(OPTIONS).join("\n")}

The other commands take --kubeconfig, --context, --server and --namespaces. wait also takes

${lines(WAIT_OPTIONS).join("\n")}

check also takes --namespace, --timeout (default: ${OPERATOR_DEFAULTS.checkTimeout}) and

${lines(CHECK_OPTIONS).join("\n")}

  --version                         print the version
  --help                            print this text
`;

const COMMANDS = ["run", "wait", "check", "uninstall-check"] as const;
const isCommand = (text: string | undefined): text is (typeof COMMANDS)[number] =>
  COMMANDS.some((command) => command === text);

/**
 * @param version of this program: default images are of the same
 * @throws SettingsError
 */
export function parseCommand(
  args: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
  version: string,
): Command {
  const { values, positionals } = parse(args);
  if (values.help === true) return { name: "help" };
  if (values.version === true) return { name: "version" };
  const [command, ...more] = positionals;
  if (!isCommand(command) || more.length > 0) {
    const expected = `${COMMANDS.slice(0, -1).join(", ")} or ${COMMANDS.at(-1)}`;
    throw new SettingsError(
      command === undefined
        ? `a command is missing: ${expected}`
        : `unknown command ${positionals.join(" ")}: expected ${expected}`,
    );
  }
  const given = (name: OptionName): string | undefined => {
    const value = values[name] ?? env[ALL_OPTIONS[name].env];
    return typeof value === "string" && value.trim() !== "" ? value.trim() : undefined;
  };
  const cluster = { kubeconfig: given("kubeconfig"), context: given("context"), server: given("server") };
  const namespaces = (given("namespaces") ?? "")
    .split(",")
    .map((name) => name.trim())
    .filter((name) => name !== "");
  if (command === "wait") {
    const timeoutMs = durationOf(given("timeout"), "timeout", OPERATOR_DEFAULTS.waitTimeout);
    return { name: "wait", settings: { ...cluster, namespaces, selector: given("selector"), timeoutMs } };
  }
  if (command === "uninstall-check") return { name: command, settings: { ...cluster, namespaces } };
  if (command === "check") {
    const settings = { namespace: given("namespace"), operator: operatorUrlOf(given("operator")) };
    const timeoutMs = durationOf(given("timeout"), "timeout", OPERATOR_DEFAULTS.checkTimeout);
    return { name: command, settings: { ...cluster, namespaces, ...settings, timeoutMs } };
  }
  const isOff = values["no-leader-election"] === true || given("no-leader-election") === "true";
  return {
    name: "run",
    settings: {
      ...cluster,
      namespaces,
      namespace: given("namespace"),
      leaseName: given("lease-name") ?? OPERATOR_DEFAULTS.leaseName,
      electsLeader: !isOff,
      podName: given("pod-name") ?? hostname(),
      serviceAccount: given("service-account"),
      clusterId: clusterIdOf(given("cluster-id")),
      healthPort: portOf(given("health-port") ?? String(OPERATOR_DEFAULTS.healthPort)),
      resyncMs: durationOf(given("resync"), "resync time", OPERATOR_DEFAULTS.resync),
      logLevel: oneOf(LOG_LEVELS, given("log-level") ?? OPERATOR_DEFAULTS.logLevel, "log level"),
      logFormat: oneOf(LOG_FORMATS, given("log-format") ?? OPERATOR_DEFAULTS.logFormat, "log format"),
      routerImage: given("router-image") ?? `sallyport/router:${version}`,
      controllerImage: given("controller-image") ?? `sallyport/controller:${version}`,
    },
  };
}

function parse(args: readonly string[]): {
  values: Readonly<Record<string, string | boolean | undefined>>;
  positionals: readonly string[];
} {
  const options = Object.fromEntries(
    Object.entries<Option>(ALL_OPTIONS).map(([name, { value }]) => [
      name,
      { type: value === undefined ? "boolean" : "string" } as const,
    ]),
  );
  try {
    return parseArgs({
      args: [...args],
      options: { ...options, help: { type: "boolean", short: "h" }, version: { type: "boolean" } },
      allowPositionals: true,
    });
  } catch (cause) {
    throw new SettingsError(errorText(cause), { cause });
  }
}

/** As in operator/deploy/namespaced, where an administrator has to put another one. */
const NO_CLUSTER_ID = "change-me";

/** Two operators of one id would take each other's entities for their own. */
function clusterIdOf(text: string | undefined): string | undefined {
  if (text === undefined || (/^[A-Za-z0-9._-]{1,128}$/.test(text) && text !== NO_CLUSTER_ID)) return text;
  throw new SettingsError(
    `the cluster id is ${text}: expected up to 128 letters, digits, ".", "_" and "-" that no other operator of the same networks has; two of one id would take each other's entities for their own`,
  );
}

function operatorUrlOf(text: string | undefined): URL | undefined {
  if (text === undefined) return undefined;
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol === "http:") return url;
  throw new SettingsError(`the operator's URL is ${text}: expected one such as http://sallyport-operator:8080`);
}

function portOf(text: string): number {
  const port = Number(text);
  if (Number.isInteger(port) && port >= 0 && port <= 65_535) return port;
  throw new SettingsError(`the health port is ${text}: expected a number from 0 (any free port) to 65535`);
}

function durationOf(given: string | undefined, what: string, standard: string): number {
  const text = given ?? standard;
  const ms = parseDuration(text);
  if (ms !== undefined && ms >= 1_000 && ms <= 24 * 3_600_000) return ms;
  throw new SettingsError(`the ${what} is ${text}: expected from 1s to 24h, such as ${standard}`);
}

function oneOf<T extends string>(values: readonly T[], text: string, what: string): T {
  const found = values.find((known) => known === text);
  if (found !== undefined) return found;
  throw new SettingsError(`the ${what} is ${text}: expected one of ${values.join(", ")}`);
}
