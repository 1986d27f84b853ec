import { formatProblem, loadRouterConfig, type RouterConfig } from "@sallyport/router-config";
import { type Identity, loadIdentity } from "@sallyport/wire";
import { uncoveredHosts } from "./advertise.ts";
import { enrolledFiles } from "./enroll.ts";
import { readJournal } from "./enrollment-journal.ts";
import { inactiveSettings } from "./inactive.ts";
import { resolveBind } from "./network-interfaces.ts";

/** What is odd about a configuration, and what keeps a router from starting with it. */
export interface Findings {
  readonly notes: readonly string[];
  readonly problems: readonly string[];
}

/** Everything that keeps a router from starting, that is known before anything is opened; all at once. */
export function startProblems(config: RouterConfig, identity: Identity): string[] {
  const problems: string[] = [];
  const hasEdgeListener = config.listeners.some((listener) => listener.binding === "edge");
  if (hasEdgeListener && config.edge === undefined) {
    problems.push("listeners: there is an edge listener, but no edge section: add `edge: {}`");
  }
  const listens = hasEdgeListener || (config.link?.listeners.length ?? 0) > 0;
  if (listens && identity.serverCertPem === undefined) {
    problems.push("identity.server_cert is missing: a router that listens needs it");
  }
  return [...problems, ...workerProblems(config), ...bindProblems(config), ...uncoveredHosts(config, identity)];
}

/** Checks a file and all that it names on this machine, without changing or opening anything. Throws RouterConfigError. */
export async function checkRouter(
  file: string,
  baseDir: string,
  endpointsFile: (c: RouterConfig) => string,
): Promise<Findings> {
  const { config, warnings } = await loadRouterConfig(file);
  const notes = warnings.map((warning) => formatProblem(warning, file));
  notes.push(...inactiveSettings(config).map((line) => `without effect: ${line}`));
  if (config.csr === undefined) {
    notes.push("without a csr section the router can neither enroll nor renew its certificates");
  }
  let identity: Identity;
  try {
    identity = await loadIdentity(config.identity, baseDir);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    if (!isMissing(error)) return { notes, problems: [`identity.${reason}`, ...bindProblems(config)] };
    const isPending = await interrupted(config, baseDir, endpointsFile(config));
    notes.push(
      isPending
        ? `an enrollment was interrupted; finish it with: sallyport-router enroll ${file} --if-needed`
        : `not enrolled yet: ${reason}; enroll it with: sallyport-router enroll ${file} --jwt <file>`,
    );
    return { notes, problems: bindProblems(config) };
  }
  notes.push(`router ${identity.id}, certificate valid until ${identity.leaf.validTo}`);
  const problems = startProblems(config, identity);
  if (Date.parse(identity.leaf.validTo) <= Date.now()) {
    problems.push(`identity.cert: the certificate ended on ${identity.leaf.validTo}; enroll the router again`);
  }
  return { notes, problems };
}

/** A listener with threads of its own shares its address with nobody: ALPN is looked at in its threads, for it alone. */
function workerProblems(config: RouterConfig): string[] {
  const places = [
    ...config.listeners.map((listener, i) => ({
      key: `listeners[${i}]`,
      at: "address" in listener ? `${listener.address.host}:${listener.address.port}` : undefined,
      workers: listener.binding === "edge" ? listener.options.workers : 0,
    })),
    ...(config.link?.listeners ?? []).map(({ bind }, i) => ({
      key: `link.listeners[${i}]`,
      at: `${bind.host}:${bind.port}`,
      workers: 0,
    })),
    ...config.web.flatMap((server, i) =>
      server.bindPoints.map((point, j) => ({
        key: `web[${i}].bindPoints[${j}]`,
        at: `${point.interface.host}:${point.interface.port}`,
        workers: 0,
      })),
    ),
  ];
  return places.flatMap((own) =>
    own.workers === 0
      ? []
      : places
          .filter((other) => other !== own && other.at === own.at)
          .map(
            ({ key }) =>
              `${own.key}.options.workers: the address ${own.at} is that of ${key}, too; a listener with workers needs one of its own`,
          ),
  );
}

function bindProblems(config: RouterConfig): string[] {
  const binds = [
    ["ctrl.bind", config.ctrl.bind] as const,
    ...(config.link?.dialers ?? []).map((dialer, i) => [`link.dialers[${i}].bind`, dialer.bind] as const),
  ];
  return binds.flatMap(([key, bind]) => {
    try {
      if (bind !== undefined) resolveBind(bind, key);
      return [];
    } catch (error) {
      return [error instanceof Error ? error.message : String(error)];
    }
  });
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "IDENTITY_UNREADABLE";
}

async function interrupted(config: RouterConfig, baseDir: string, endpointsFile: string): Promise<boolean> {
  try {
    return (await readJournal(enrolledFiles(config, baseDir, endpointsFile))) !== undefined;
  } catch {
    // Values that name no file, or a record that cannot be read: nothing to finish.
    return false;
  }
}
