import { ConfigError, type ConfigProblem } from "@sallyport/config-file";
import { readControllerConfig } from "@sallyport/controller-config";
import { formatHostPort, type HostPort } from "@sallyport/wire";
import { stringify } from "yaml";
import { hashOf, isMap, mergePatch, sorted } from "../../../children/json-value.ts";
import type { ManagedNetwork } from "../schema.ts";
import { PATHS } from "./names.ts";

/** The controller's file, or what is wrong with it. */
export type ControllerFile =
  | { readonly text: string; readonly hash: string }
  | { readonly problem: { readonly reason: "InvalidConfig"; readonly message: string } };

/** Settings that the operator decides: it could not reach the controller, or would lose its data, if they were others. */
const PROTECTED = [
  "v",
  "api.bind",
  "api.advertise",
  "ctrl",
  "database.dir",
  "database.url",
  "database.urlFile",
  "secretKeyFile",
];

const ORIGINS = "api.web.allowedOrigins";

type Json = Readonly<Record<string, unknown>>;

/** Renders `controller.yml`: equal inputs give equal bytes, and nothing that the controller would refuse or ignore is written. */
export function renderControllerFile(
  managed: ManagedNetwork,
  o: { readonly address: HostPort; readonly hasCertificate: boolean },
): ControllerFile {
  const overrides = (managed.config?.overrides ?? {}) as Json;
  const taken = PROTECTED.find((path) => valueAt(overrides, path.split(".")) !== undefined);
  if (taken !== undefined) {
    return invalid(`spec.managed.config.overrides.${taken}: the operator decides this; leave it out`);
  }
  const text = stringify(sorted(mergePatch(baseOf(managed, o), overrides)), {
    lineWidth: 0,
    aliasDuplicateObjects: false,
  });
  try {
    const { warnings } = readControllerConfig(text, "controller.yml", {});
    const [unknown] = warnings.filter(({ path }) => path !== "");
    if (unknown !== undefined) return invalid(problemText(unknown, overrides));
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return invalid(error.problems.map((problem) => problemText(problem, overrides)).join("; "));
  }
  return { text, hash: hashOf(text) };
}

const problemText = ({ path, expected, found }: ConfigProblem, overrides: Json): string =>
  `${placeOf(path, overrides)}: expected ${expected}, found ${found}`;

/** Where a value of the file comes from. */
function placeOf(path: string, overrides: Json): string {
  const isOwnField = path.startsWith(ORIGINS) && valueAt(overrides, ORIGINS.split(".")) === undefined;
  return isOwnField
    ? `spec.managed.allowedOrigins${path.slice(ORIGINS.length)}`
    : `spec.managed.config.overrides.${path}`;
}

const invalid = (message: string): ControllerFile => ({ problem: { reason: "InvalidConfig", message } });

/** Fields without a value do not come into the file. */
function baseOf(
  { port, database, exposure, allowedOrigins }: ManagedNetwork,
  { address, hasCertificate }: { readonly address: HostPort; readonly hasCertificate: boolean },
): Json {
  const place = { bind: `0.0.0.0:${port}`, advertise: formatHostPort(address) };
  const { folder } = PATHS.certificate;
  const certificate = { cert: `${folder}/tls.crt`, key: `${folder}/tls.key` };
  const store = database.embedded === undefined ? { urlFile: PATHS.database.file } : { dir: PATHS.data.database };
  return {
    v: 1,
    // Whatever is reached by node ports is reached at the nodes' names: routers, too.
    edge: exposure.type === "NodePort" ? { enrollment: { sharedHosts: [address.host] } } : undefined,
    api: {
      ...place,
      serverCertificates: hasCertificate ? [certificate] : undefined,
      web: allowedOrigins && { allowedOrigins },
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
