import { X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { isIP } from "node:net";
import { dirname, resolve } from "node:path";
import { ConfigError, formatPath, type Path } from "@sallyport/config-file";
import { type ConfigRead, type ControllerConfig, parseDatabaseUrl, workerConfig } from "@sallyport/controller-config";
import { formatHostPort, type HostPort } from "@sallyport/wire";
import type { AuthSettings } from "../auth/authentication.ts";
import type { CertificateFiles } from "../certificates/operator-certificate.ts";
import type { FabricSettings } from "../fabric/options.ts";
import type { ModelSettings, OidcSettings } from "../model/context.ts";
import { AUTHORITY_LIFETIMES, type Lifetimes } from "../pki/issue.ts";
import type { StoreOptions } from "../store/database.ts";

/** Where a key stands in the file, for errors about the thing that its value names. */
type PlaceOf = ConfigRead["placeOf"];

/** The server certificate covers these besides the advertised names, for clients on the same machine. */
const LOCAL_HOSTS = ["localhost", "127.0.0.1", "::1"];

/** The hosts that all replicas share. */
export function hostsOf(config: ControllerConfig): string[] {
  return [...new Set([...LOCAL_HOSTS, config.api.advertise.host, config.ctrl.advertise.host])];
}

/** An address to listen on, and the key that says it. */
export interface ListenSetting {
  readonly at: HostPort;
  readonly setting: string;
}

/**
 * Where this process listens: its own settings, or those that all processes with the file share.
 * @param worker its number, if it is one of several workers
 */
export function listenSettings(config: ControllerConfig, worker?: number) {
  const { replica, api, ctrl, metrics } = config;
  const own = (part: "api" | "ctrl" | "metrics", shared: HostPort): ListenSetting => {
    const setting = `${replica[part].bind ? "replica." : ""}${part}.bind`;
    if (worker === undefined || part === "api") return { at: replica[part].bind ?? shared, setting };
    const { bind = shared } = workerConfig(config, worker).replica[part];
    return { at: bind, setting: `${setting} of worker ${worker}` };
  };
  const metricsBind = replica.metrics.bind ?? metrics.bind;
  return {
    api: own("api", api.bind),
    ctrl: own("ctrl", ctrl.bind),
    ...(metricsBind && { metrics: own("metrics", metricsBind) }),
  };
}

/** Where clients and routers reach this process, and no other one: the shared addresses where it has none of its own. */
export function ownAddresses({ replica, api, ctrl }: ControllerConfig) {
  return { api: replica.api.advertise ?? api.advertise, ctrl: replica.ctrl.advertise ?? ctrl.advertise };
}

/** Who this process is among several, and what its certificate covers; undefined when it has the id and the certificate of the network. */
export function ownReplica(config: ControllerConfig, networkId: string) {
  const { id } = config.replica;
  if (id === undefined || id === networkId) return undefined;
  const { api, ctrl } = ownAddresses(config);
  return { id, apiHost: api.host, hosts: [...new Set([api.host, ctrl.host, ...hostsOf(config)])] };
}

/** Every host that the network's certificate must cover. */
export function networkHosts(config: ControllerConfig, networkId: string): string[] {
  const { api, ctrl } = ownAddresses(config);
  const hosts = hostsOf(config);
  if (ownReplica(config, networkId) === undefined) hosts.push(api.host, ctrl.host);
  // Clients that dial an address name no server: one certificate has to do for all addresses.
  else if (isIP(api.host) !== 0 && isIP(config.api.advertise.host) !== 0) hosts.push(api.host);
  return [...new Set(hosts)];
}

export function modelSettings(config: ControllerConfig, file: string): ModelSettings {
  return {
    expiredEnrollmentsMs: config.upkeep.expiredEnrollments,
    upkeepMs: config.upkeep.interval,
    snapshotFolder: fromFolderOf(file, config.database.snapshots),
    apiAddress: formatHostPort(config.api.advertise),
    sessionTimeoutMs: config.edge.apiSessionTimeout,
    identityEnrollmentMs: config.edge.enrollment.identity,
    routerEnrollmentMs: config.edge.enrollment.router,
    totpIssuer: config.edge.totp.issuer,
    oidc: oidcSettings(config.edge.oidc),
  };
}

export function oidcSettings({
  accessToken,
  idToken,
  refreshToken,
  keyLife,
  ...rest
}: ControllerConfig["edge"]["oidc"]): OidcSettings {
  return { ...rest, accessMs: accessToken, idMs: idToken, refreshMs: refreshToken, keyMs: keyLife };
}

/** @throws ConfigError when the file of trusted certificates cannot be read */
export async function authSettings({ auth }: ControllerConfig, file: string, placeOf: PlaceOf): Promise<AuthSettings> {
  const { caFile, ...jwks } = auth.jwks;
  if (caFile === undefined) return { ...auth, jwks };
  const path = fromFolderOf(file, caFile);
  try {
    return { ...auth, jwks: { ...jwks, caPem: await readFile(path, "utf8") } };
  } catch (error) {
    const found = `${path}, which cannot be read: ${(error as Error).message}`;
    throw problemAt(["auth", "jwks", "caFile"], { file, placeOf, expected: "a file with certificates", found });
  }
}

export function fabricOptions({ network }: Pick<ControllerConfig, "network">): FabricSettings {
  return {
    createCircuitRetries: network.createCircuitRetries,
    routeTimeoutMs: network.routeTimeoutSeconds * 1_000,
    cycleMs: network.cycleSeconds * 1_000,
    minRouterCost: network.minRouterCost,
    initialLinkLatencyMs: network.initialLinkLatency,
    routerConnectChurnLimitMs: network.routerConnectChurnLimit,
    rerouteFraction: network.smart.rerouteFraction,
    rerouteCap: network.smart.rerouteCap,
    minCostDelta: network.smart.minCostDelta,
  };
}

export function lifetimes({ certificates }: Pick<ControllerConfig, "certificates">): Lifetimes {
  return { ...AUTHORITY_LIFETIMES, ...certificates };
}

/** The URL in a file, for example of a mounted Secret. Error messages do not show it. */
function urlIn(path: string, file: string, placeOf: PlaceOf): string {
  const expected = "a file with the URL of a PostgreSQL database";
  const problem = (found: string) => problemAt(["database", "urlFile"], { file, placeOf, expected, found });
  let text: string;
  try {
    text = readFileSync(path, "utf8").trim();
  } catch (error) {
    throw problem(`${path}, which cannot be read: ${(error as NodeJS.ErrnoException).code}`);
  }
  try {
    parseDatabaseUrl(text);
    return text;
  } catch (error) {
    throw problem(`${path}, which should hold ${(error as Error).message}`);
  }
}

/** @throws ConfigError for a `database.urlFile` that cannot be used */
export function storeLocation(
  config: ControllerConfig,
  file: string,
  placeOf: PlaceOf,
): Pick<StoreOptions, "url" | "embedded" | "poolSize"> {
  const { url, urlFile, dir, binaries, user, poolSize } = config.database;
  if (url !== undefined) return { url, poolSize };
  if (urlFile !== undefined) return { url: urlIn(fromFolderOf(file, urlFile), file, placeOf), poolSize };
  if (dir === undefined) throw new TypeError("the schema lets no file through that names no database");
  const embedded = {
    dir: fromFolderOf(file, dir),
    ...(binaries && { binaries: fromFolderOf(file, binaries) }),
    ...(user && { user }),
  };
  return { embedded, poolSize };
}

/** The certificate whose holder may read `/metrics`. @throws ConfigError when its file holds none */
export async function scrapeCertificate(
  config: ControllerConfig,
  file: string,
  placeOf: PlaceOf,
): Promise<X509Certificate | undefined> {
  const { scrapeCertificate: given } = config.metrics;
  if (given === undefined) return undefined;
  const path = fromFolderOf(file, given);
  try {
    return new X509Certificate(await readFile(path));
  } catch (error) {
    const found = `${path}, which cannot be read as one: ${(error as Error).message}`;
    const expected = "a file with a certificate";
    throw problemAt(["metrics", "scrapeCertificate"], { file, placeOf, expected, found });
  }
}

export function serverCertificateFiles({ api }: ControllerConfig, file: string): CertificateFiles[] {
  const from = (path: string) => fromFolderOf(file, path);
  return api.serverCertificates.map(({ cert, key }) => ({ cert: from(cert), key: from(key) }));
}

export function secretKeyFile(config: ControllerConfig, file: string): string | undefined {
  return config.secretKeyFile === undefined ? undefined : fromFolderOf(file, config.secretKeyFile);
}

function problemAt(
  path: Path,
  { file, placeOf, ...problem }: { file: string; placeOf: PlaceOf; expected: string; found: string },
): ConfigError {
  return new ConfigError(file, [{ path: formatPath(path), ...placeOf(path), ...problem }]);
}

function fromFolderOf(file: string, path: string): string {
  return resolve(dirname(resolve(file)), path);
}
