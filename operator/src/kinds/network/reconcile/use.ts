import { parseDuration } from "@sallyport/controller-config";
import type { ConnectionOptions, ConnectionTimes, Credentials } from "../../../controller-client/connection.ts";
import { NetworkNotReadyError, type NotReadyReason } from "../../../controller-client/errors.ts";
import type { NetworkSettings } from "../../../controller-client/network-clients.ts";
import { KINDS } from "../../../kube/kinds.ts";
import { conditionOf } from "../../../kube/status/condition.ts";
import type { Outcome, ReconcileContext } from "../../../loop/kind-reconciler.ts";
import { ANNOTATIONS, LABELS } from "../../../resources/group.ts";
import { connectionConditions, type Findings } from "../plan/conditions.ts";
import { nextLookMs } from "../plan/next-look.ts";
import type { NetworkProblem } from "../plan/problem.ts";
import type { NetworkResource } from "../schema.ts";
import type { ConnectionProblem } from "./connection-problem.ts";
import { type Probe, probeNetwork, type ServerStatus } from "./probe.ts";

export type NetworkContext = ReconcileContext<NetworkResource>;
type NetworkOutcome = Outcome<NetworkResource>;

/** How a network is reached and entered. */
export interface Access {
  readonly endpoints: readonly [string, ...string[]];
  /** PEM. */
  readonly ca?: string;
  readonly servername?: string;
  readonly credentials: Credentials;
  /** Where {@link ca} comes from, in messages. */
  readonly trust: string;
}

export const refOf = ({ metadata: { namespace, name } }: NetworkResource) => ({ namespace, name });

const REQUEST_TIMEOUT_MS = 15_000;

/** Limit of one request to the network, milliseconds. */
export const requestTimeoutMs = ({ spec }: NetworkResource): number =>
  parseDuration(spec.requestTimeout) ?? REQUEST_TIMEOUT_MS;

/** Connects, looks whether the network can be used, and lets its resources use it or tells them why not. */
export async function useNetwork(
  resource: NetworkResource,
  access: Access,
  context: NetworkContext,
  times: Partial<ConnectionTimes> = {},
): Promise<Probe> {
  const { networks, signal } = context;
  const ref = refOf(resource);
  const settings = await settingsOf(resource, context);
  const connection = networks.prepare(ref, settings, connectionOptions(resource, access, context, times));
  if (isAskedFor(resource)) connection.retryLogin();
  const probe = await probeNetwork(connection.client, { trust: access.trust, signal });
  if (probe.problem === undefined) networks.use(ref);
  else suspend(resource, probe.problem, context);
  return probe;
}

/** @throws when the namespace can't be read: it may be marked */
async function settingsOf(
  { metadata: { namespace }, spec: { roleScope, allowAdminIdentities } }: NetworkResource,
  { client, signal }: NetworkContext,
): Promise<NetworkSettings> {
  const settings = { roleScope, allowAdminIdentities };
  if (roleScope === "Namespaced") return settings;
  const found = await client.get({ kind: KINDS.Namespace, name: namespace }, { signal });
  const mark = found?.metadata.labels?.[LABELS.tenant];
  // Any other value marks it, too: a slip must not open the network.
  return { ...settings, isTenant: mark !== undefined && mark !== "false" };
}

export function connectionOptions(
  resource: NetworkResource,
  { endpoints, ca, servername, credentials }: Access,
  { log }: NetworkContext,
  times: Partial<ConnectionTimes>,
): ConnectionOptions {
  const ref = refOf(resource);
  const name = `${ref.namespace}/${ref.name}`;
  return {
    name,
    endpoints,
    ...(ca === undefined ? {} : { ca }),
    ...(servername === undefined ? {} : { servername }),
    credentials,
    requestTimeoutMs: requestTimeoutMs(resource),
    maxRequestsPerSecond: resource.spec.maxRequestsPerSecond,
    log,
    times,
  };
}

/** The annotation asks for a look that was not had yet: then credentials that were refused are tried again, too. */
export function isAskedFor({ metadata, status }: NetworkResource): boolean {
  const asked = metadata.annotations?.[ANNOTATIONS.reconcile];
  return asked !== undefined && asked !== status.lastHandledReconcileAt;
}

const SAME: Partial<Record<NetworkProblem["reason"], NotReadyReason>> = {
  ControllerUnavailable: "ControllerUnavailable",
  NetworkUnauthorized: "NetworkUnauthorized",
  RateLimited: "RateLimited",
};

/** Tells the resources of the network why it can't be used. */
export function suspend(
  resource: NetworkResource,
  { reason, message, retryAfterMs }: Pick<ConnectionProblem, "message" | "retryAfterMs"> & { readonly reason: string },
  { networks }: NetworkContext,
): void {
  const own = SAME[reason as NetworkProblem["reason"]] ?? "NetworkNotReady";
  const text = `the Network ${resource.metadata.name} can't be used (${reason}): ${message}`;
  networks.suspend(refOf(resource), new NetworkNotReadyError(own, text, { retryAfterMs }));
}

/** What a Network shows after a look, and when the next one is due. What was learned before stays while the network is away. */
export function outcomeOf(
  resource: NetworkResource,
  { findings, status, problem }: { findings: Findings; status: ServerStatus; problem?: ConnectionProblem },
  context: NetworkContext,
): NetworkOutcome {
  const { serverVersion, apiVersion, controllers, sessionIdentity } = resource.status;
  const before = JSON.parse(
    JSON.stringify({ serverVersion, apiVersion, controllers, sessionIdentity }),
  ) as ServerStatus;
  const requeueAfterMs = nextLookMs(problem, awayForMs(resource, context));
  return {
    conditions: connectionConditions(findings),
    status: problem === undefined ? status : { ...before, ...status },
    ...(requeueAfterMs === undefined ? {} : { requeueAfterMs }),
  };
}

/** For how long a Network is not ready already, milliseconds. */
export function awayForMs({ status }: NetworkResource, context: NetworkContext): number {
  const ready = conditionOf(status.conditions, "Ready");
  if (ready === undefined || ready.status === "True") return 0;
  return Math.max(0, context.now().getTime() - Date.parse(ready.lastTransitionTime));
}
