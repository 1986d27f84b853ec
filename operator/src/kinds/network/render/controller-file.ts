import { ConfigError, type ConfigProblem } from "@sallyport/config-file";
import { readControllerConfig } from "@sallyport/controller-config";
import type { ManagedNetwork } from "@sallyport/resources";
import { formatHostPort, type HostPort } from "@sallyport/wire";
import { stringify } from "yaml";
import { hashOf, isMap, mergePatch, sorted } from "../../../children/json-value.ts";
import { PATHS } from "./names.ts";

/** The controller's file, or what is wrong with it. `drainMs`: for so long the controller serves on after it was told to stop, milliseconds. */
export type ControllerFile =
  | { readonly text: string; readonly hash: string; readonly drainMs: number }
  | { readonly problem: { readonly reason: "InvalidConfig"; readonly message: string } };

/** Settings that the operator decides: it could not reach the controller, or would lose its data, if they were others. */
const PROTECTED = [
  "v",
  "api.bind",
  "api.advertise",
  "ctrl",
  "replica",
  "database.dir",
  "database.url",
  "database.urlFile",
  "secretKeyFile",
];

/** Keys of the file that have a field of their own in `spec.managed`, with all below them. */
const OWN_FIELDS: readonly (readonly [key: string, field: string])[] = [
  ["api.web.allowedOrigins", "allowedOrigins"],
  ["edge.oidc", "oidc"],
];

const OIDC_HOSTS = "edge.oidc.hosts";

type Json = Readonly<Record<string, unknown>>;

interface FileParts {
  /** As it is advertised. */
  readonly address: HostPort;
  /** Name of the Service: the operator logs in under it, whatever name is advertised. */
  readonly serviceHost: string;
  readonly hasCertificate: boolean;
  /** The process with the file, where there may be several. */
  readonly replica?: FileReplica;
}

interface FileReplica {
  readonly id: string;
  /** Leads to this process alone; undefined while it is the only one. */
  readonly address?: HostPort | undefined;
}

/** A controller that may be one of several serves on for so long after it was told to stop: until then clients may still be sent to it. */
const DRAIN = "5s";

/** Renders `controller.yml`: equal inputs give equal bytes, and nothing that the controller would refuse or ignore is written. */
export function renderControllerFile(managed: ManagedNetwork, o: FileParts): ControllerFile {
  const overrides = (managed.config?.overrides ?? {}) as Json;
  const taken = PROTECTED.find((path) => valueAt(overrides, path.split(".")) !== undefined);
  if (taken !== undefined) {
    return invalid(`spec.managed.config.overrides.${taken}: the operator decides this; leave it out`);
  }
  const text = stringify(sorted(withServiceHost(mergePatch(baseOf(managed, o), overrides), o)), {
    lineWidth: 0,
    aliasDuplicateObjects: false,
  });
  try {
    const { config, warnings } = readControllerConfig(text, "controller.yml", {});
    const [unknown] = warnings.filter(({ path }) => path !== "");
    if (unknown !== undefined) return invalid(problemText(unknown, overrides));
    return { text, hash: hashOf(text), drainMs: config.api.drain };
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return invalid(error.problems.map((problem) => problemText(problem, overrides)).join("; "));
  }
}

const problemText = ({ path, expected, found }: ConfigProblem, overrides: Json): string =>
  `${placeOf(path, overrides)}: expected ${expected}, found ${found}`;

/** Where a value of the file comes from. */
function placeOf(path: string, overrides: Json): string {
  const [key = ""] = path.split("[");
  const own = OWN_FIELDS.find(([prefix]) => key === prefix || key.startsWith(`${prefix}.`));
  if (own === undefined || valueAt(overrides, key.split(".")) !== undefined) {
    return `spec.managed.config.overrides.${path}`;
  }
  const [prefix, field] = own;
  return `spec.managed.${field}${path.slice(prefix.length)}`;
}

/** The controller answers logins under names that it knows only. It knows the one that it advertises. */
function withServiceHost(file: unknown, { address, serviceHost }: FileParts): unknown {
  const hosts = valueAt(file, OIDC_HOSTS.split(".")) ?? [];
  // What is no list is refused with the rest of the file.
  if (serviceHost === address.host || !Array.isArray(hosts) || hosts.includes(serviceHost)) return file;
  return mergePatch(file, { edge: { oidc: { hosts: [...hosts, serviceHost] } } });
}

const invalid = (message: string): ControllerFile => ({ problem: { reason: "InvalidConfig", message } });

/** Fields without a value do not come into the file. */
function baseOf(
  { port, database, exposure, allowedOrigins, oidc }: ManagedNetwork,
  { address, hasCertificate, replica }: FileParts,
): Json {
  const place = { bind: `0.0.0.0:${port}`, advertise: formatHostPort(address) };
  const { folder } = PATHS.certificate;
  const certificate = { cert: `${folder}/tls.crt`, key: `${folder}/tls.key` };
  const store = database.embedded === undefined ? { urlFile: PATHS.database.file } : { dir: PATHS.data.database };
  // Whatever is reached by node ports is reached at the nodes' names: routers, too.
  const enrollment = exposure.type === "NodePort" ? { sharedHosts: [address.host] } : undefined;
  const own = replica?.address && { advertise: formatHostPort(replica.address) };
  return {
    v: 1,
    replica: replica && { id: replica.id, api: own, ctrl: own },
    edge: enrollment === undefined && oidc === undefined ? undefined : { enrollment, oidc },
    api: {
      ...place,
      serverCertificates: hasCertificate ? [certificate] : undefined,
      web: allowedOrigins && { allowedOrigins },
      drain: replica && DRAIN,
    },
    ctrl: place,
    database: { ...store, snapshots: PATHS.data.snapshots },
    secretKeyFile: PATHS.key.file,
    log: { format: "json" },
  };
}

function valueAt(value: unknown, [key, ...rest]: readonly string[]): unknown {
  if (key === undefined) return value;
  // What is no object would replace everything below.
  if (!isMap(value)) return value;
  return key in value ? valueAt(value[key], rest) : undefined;
}
