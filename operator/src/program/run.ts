import { createLogger } from "@sallyport/program/logging";
import { KINDS } from "@sallyport/resources";
import { findCluster } from "../kube/client/cluster.ts";
import { HttpKubeClient } from "../kube/client/http-client.ts";
import { LeadershipLostError, leaseOwner } from "../kube/election/elector.ts";
import { Metrics } from "../kube/metrics.ts";
import { type CheckSettings, checkInstallation, checkUninstall } from "./check.ts";
import { Operator } from "./operator.ts";
import type { ClusterSettings, OperatorSettings } from "./settings.ts";
import { type WaitSettings, waitForResources } from "./wait.ts";

/** The values of a Secret of Kubernetes. */
const SECRET_DATA = /^data$/;
/** Stopping takes at most this long; then the process ends anyway. */
const STOP_LIMIT_MS = 25_000;

/** Runs the operator until a signal ends it. Answers the exit status: 1 when it has to start again as a standby. */
export async function run(settings: OperatorSettings, version: string): Promise<number> {
  const log = createLogger({ level: settings.logLevel, format: settings.logFormat, secretName: SECRET_DATA });
  const cluster = await findCluster(settings);
  const metrics = new Metrics();
  metrics.collectProcess(version);
  const o = { kinds: KINDS, metrics, userAgent: `sallyport-operator/${version}` };
  const client = new HttpKubeClient(cluster, o);
  // Connections of its own: a Lease that waits behind a thousand other requests is lost.
  const leaseClient = new HttpKubeClient(cluster, o);
  const namespace = settings.namespace ?? cluster.namespace ?? "default";
  const owner = leaseOwner((await cluster.credentials(false)).authorization, namespace);
  const operator = new Operator({ client, leaseClient, leaseOwner: owner, settings, namespace, metrics, log });
  const stop = stopSignal(() => log.info({}, "stopping"));
  const health = await operator.serveHealth();
  log.info(
    { version, server: cluster.server.origin, namespaces: settings.namespaces, namespace, healthPort: health.port },
    "the operator is running",
  );
  try {
    await operator.run(stop);
    log.info({}, "stopped");
    return 0;
  } catch (error) {
    if (!(error instanceof LeadershipLostError)) throw error;
    log.error({ err: error }, "another process leads: ending, to begin again as a standby");
    return 1;
  } finally {
    await health.close();
    await client.close();
    await leaseClient.close();
  }
}

/** Waits until resources are ready, and says on standard output what it waits for. Answers the exit status. */
export const wait = (settings: ClusterSettings & WaitSettings, version: string): Promise<number> =>
  withClient(settings, version, (client) => waitForResources(client, settings, print));

/** Says on standard output whether an operator with these rights can work. Answers the exit status. */
export const check = (settings: ClusterSettings & CheckSettings, version: string): Promise<number> =>
  withClient(settings, version, (client, namespace) =>
    checkInstallation(client, { ...settings, namespace: settings.namespace ?? namespace }, print),
  );

/** Says on standard output which resources an uninstall would leave without an operator. Answers the exit status. */
export const uninstallCheck = (
  settings: ClusterSettings & Pick<CheckSettings, "namespaces">,
  version: string,
): Promise<number> => withClient(settings, version, (client) => checkUninstall(client, settings, print));

const print = (line: string) => process.stdout.write(`${line}\n`);

async function withClient(
  settings: ClusterSettings,
  version: string,
  use: (client: HttpKubeClient, namespace: string | undefined) => Promise<number>,
): Promise<number> {
  const cluster = await findCluster(settings);
  const client = new HttpKubeClient(cluster, { kinds: KINDS, userAgent: `sallyport-operator/${version}` });
  try {
    return await use(client, cluster.namespace);
  } finally {
    await client.close();
  }
}

function stopSignal(onStop: () => void): AbortSignal {
  const stop = new AbortController();
  for (const name of ["SIGTERM", "SIGINT"] as const) {
    process.once(name, () => {
      onStop();
      stop.abort(new Error(`the operator got ${name}`));
      setTimeout(() => process.exit(1), STOP_LIMIT_MS).unref();
    });
  }
  return stop.signal;
}
