import { isIP } from "node:net";
import { ANNOTATIONS, type ManagedNetwork, type NetworkResource, type NetworkStatus } from "@sallyport/resources";
import { formatHostPort } from "@sallyport/wire";
import { type FoundClaim, findBlockedReason } from "../../../children/blocked-reason.ts";
import { type FoundPod, type FoundStatefulSet, isReady } from "../../../children/workload.ts";
import type { ConnectionTimes } from "../../../controller-client/connection.ts";
import { fetchProvenBundle, TrustError } from "../../../controller-client/trust.ts";
import { KubeError } from "../../../kube/client/errors.ts";
import { KINDS, type SecretObject } from "../../../kube/kinds.ts";
import type { Outcome } from "../../../loop/kind-reconciler.ts";
import { credentialsOf, namedValue } from "../plan/access.ts";
import { type NetworkProblem, passing, rolloutProblem, stalled } from "../plan/problem.ts";
import { baseUrl, managementBase, serviceHost, servicePort } from "../render/address.ts";
import { renderCaBundle } from "../render/children.ts";
import { childNames } from "../render/names.ts";
import { canBeSeveral, replicaId } from "../render/replicas.ts";
import { ensureChild, NetworkProblemError } from "./children.ts";
import { type DeployedController, deploy, SECRET_KEY } from "./deploy.ts";
import {
  confirmOwnIdentity,
  type FirstLogins,
  isDue,
  makeOwnIdentity,
  type NetworkAddress,
  type OwnCredentials,
  ownCredentials,
  renewOwnIdentity,
} from "./operator-identity.ts";
import { outlastFailover } from "./outlast-failover.ts";
import {
  type ConnectionProblem,
  connectionProblem,
  isAskedFor,
  isAway,
  type NetworkContext,
  outcomeOf,
  type Probe,
  refOf,
  requestTimeoutMs,
  suspend,
  useNetwork,
} from "./use.ts";

export interface ManagedOptions {
  /** Image of the controller where `spec.managed.image` is absent. */
  readonly controllerImage: string;
  /** `service` (default): by the Service's name, from within the cluster. `advertised`: at the advertised address, for an operator outside of it. */
  readonly reach?: "service" | "advertised";
  readonly times?: Partial<ConnectionTimes>;
}

/** The options, and what outlives a look. */
type ManagedParts = ManagedOptions & { readonly firstLogins: FirstLogins };

/** What a Network that is run here shows besides what the controller says. */
type Deployed = Pick<
  NetworkStatus,
  "endpoints" | "adminSecretName" | "configHash" | "lastHandledRestart" | "replicas" | "readyReplicas"
>;

/** Reconciles a Network that the operator runs: first the objects in the cluster, then the controller in them. */
export async function reconcileManaged(
  resource: NetworkResource,
  managed: ManagedNetwork,
  context: NetworkContext,
  o: ManagedParts,
): Promise<Outcome<NetworkResource>> {
  const { endpoints, adminSecretName, configHash, lastHandledRestart } = resource.status;
  let deployed: Deployed = { endpoints, adminSecretName, configHash, lastHandledRestart };
  const shown = (probe: Probe): Outcome<NetworkResource> => {
    const outcome = outcomeOf(resource, probe, context);
    return { ...outcome, status: { ...outcome.status, ...deployed } };
  };
  const failed = (step: "deployment" | "availability", problem: ConnectionProblem): Outcome<NetworkResource> => {
    // A mistake in the spec of a controller that runs is no reason to leave its network alone.
    if (step === "availability" || configHash === undefined) suspend(resource, problem, context);
    return shown({ findings: { isManaged: true, [step]: problem }, status: {}, problem });
  };

  let workload: DeployedController;
  try {
    workload = await deploy(resource, managed, context, o);
  } catch (error) {
    const isRefused = error instanceof KubeError && (error.isInvalid || error.isForbidden);
    const isProblem = error instanceof NetworkProblemError;
    if (configHash !== undefined && (isProblem || isRefused)) await keepInUse(resource, managed, context, o);
    if (!isProblem) throw error;
    return failed("deployment", error.problem);
  }
  deployed = {
    ...deployed,
    endpoints: [managementBase(workload.address)],
    adminSecretName: childNames(resource).admin,
    ...replicaCounts(managed, workload.found),
  };

  const { found } = workload;
  const problem = await availabilityProblem(resource, found, context);
  const readyReplicas = found.status?.readyReplicas ?? 0;
  // One of several that is ready is enough to use the network.
  if (problem !== undefined && (managed.replicas === 1 || readyReplicas === 0)) return failed("availability", problem);
  const started = found.spec?.template?.metadata?.annotations ?? {};
  if (problem === undefined || configHash === undefined) {
    deployed = {
      ...deployed,
      configHash: started[ANNOTATIONS.configHash] ?? configHash,
      lastHandledRestart: started[ANNOTATIONS.restart] ?? lastHandledRestart,
    };
  }
  const probe = await enter(resource, managed, workload, context, o);
  const replicas = replicasFound(managed, readyReplicas, problem);
  return shown({
    ...withItself(resource, managed, probe, workload),
    findings: { ...probe.findings, isManaged: true, replicas },
  });
}

function replicasFound({ replicas: wanted }: ManagedNetwork, ready: number, problem: NetworkProblem | undefined) {
  if (wanted === 1) return undefined;
  const isGrowing = problem === undefined && ready < wanted;
  const growing = passing("ControllerStarting", "the others are started when the first one is ready");
  return { wanted, ready, problem: isGrowing ? growing : problem };
}

/** How many controllers there are; not said of one that is alone. */
function replicaCounts({ replicas }: ManagedNetwork, { spec, status }: FoundStatefulSet) {
  if (replicas === 1 && (spec?.replicas ?? 1) === 1) return {};
  return { replicas: status?.replicas ?? 0, readyReplicas: status?.readyReplicas ?? 0 };
}

/** Why not all controllers are ready, or run as they are to. */
async function availabilityProblem(
  resource: NetworkResource,
  found: FoundStatefulSet,
  context: NetworkContext,
): Promise<NetworkProblem | undefined> {
  const all = context.known.childrenOf<FoundPod>(KINDS.Pod, resource);
  const wanted = found.spec?.replicas ?? 1;
  const pods = wanted > 1 ? all.filter((pod) => !isReady(pod)) : all;
  const problem = rolloutProblem(found, pods);
  if (problem === undefined) return undefined;
  const pod = pods.find(({ metadata }) => metadata.deletionTimestamp === undefined) ?? pods[0];
  const { namespace } = resource.metadata;
  const claim = context.known.child<FoundClaim>(KINDS.PersistentVolumeClaim, namespace, childNames(resource).data);
  return rolloutProblem(found, pods, await findBlockedReason({ statefulSet: found, pod, claim }, context));
}

/** An operator that was restarted has no connection yet to a controller that runs, and a mistake in its spec is no reason not to have one. */
async function keepInUse(
  resource: NetworkResource,
  managed: ManagedNetwork,
  context: NetworkContext,
  o: ManagedParts,
): Promise<void> {
  const [endpoint] = resource.status.endpoints ?? [];
  if (endpoint === undefined || context.networks.connectionOf(refOf(resource)) !== undefined) return;
  const names = childNames(resource);
  const secret = await context.read<SecretObject>(KINDS.Secret, names.key);
  const key = namedValue(secret, { kind: "Secret", name: names.key, key: SECRET_KEY, use: "the network's secret key" });
  if ("problem" in key) return;
  const { hostname, port } = new URL(endpoint);
  const address = { host: hostname.replace(/^\[|\]$/g, ""), port: port === "" ? 443 : Number(port) };
  const admin = await context.read<SecretObject>(KINDS.Secret, names.admin);
  await enter(resource, managed, { address, secretKey: key.value, admin }, context, o);
}

/** A controller that is alone names none. */
function withItself(
  resource: NetworkResource,
  managed: ManagedNetwork,
  probe: Probe,
  { address }: DeployedController,
): Probe {
  if (probe.problem !== undefined || probe.status.controllers !== undefined) return probe;
  const itself = {
    name: canBeSeveral(managed) ? replicaId(0) : childNames(resource).controller,
    ctrlAddress: `tls:${formatHostPort(address)}`,
    online: true,
  };
  return { ...probe, status: { ...probe.status, controllers: [itself] } };
}

/** Finds out what to trust, publishes it, logs in, and lets the network be used. */
async function enter(
  resource: NetworkResource,
  managed: ManagedNetwork,
  { address, secretKey, admin }: Omit<DeployedController, "found">,
  context: NetworkContext,
  o: ManagedParts,
): Promise<Probe> {
  const { reach = "service" } = o;
  const { signal } = context;
  const names = childNames(resource);
  const trust = `the ConfigMap ${names.ca}`;
  const host = serviceHost(resource, managed.exposure.clusterDomain);
  const base = reach === "advertised" ? baseUrl(address) : baseUrl({ host, port: servicePort(managed) });
  // The certificate is for the advertised name. No name can be asked for by an address; then the one that every certificate of a controller has.
  const servername = isIP(address.host) === 0 ? address.host : "localhost";
  const problemIn = (error: unknown): ConnectionProblem => {
    signal.throwIfAborted();
    const problem = problemOf(error, trust);
    if (problem === undefined) throw error;
    return problem;
  };
  const unusable = (problem: ConnectionProblem): Probe => {
    suspend(resource, problem, context);
    return { findings: { connection: problem }, status: {}, problem };
  };
  const fetchTrust = async () => {
    try {
      const timeoutMs = requestTimeoutMs(resource);
      return { ca: await fetchProvenBundle(base, secretKey, { timeoutMs, signal, servername }) };
    } catch (error) {
      return { problem: problemIn(error) };
    }
  };
  const trusted = await outlastFailover(resource, fetchTrust, isAway, signal);
  if ("problem" in trusted) return unusable(trusted.problem);
  const { ca } = trusted;
  try {
    await ensureChild(resource, KINDS.ConfigMap, renderCaBundle(resource, ca), context);
    const place: NetworkAddress = { endpoints: [base], ca, servername, trust };
    return await logIn(resource, place, admin, context, o);
  } catch (error) {
    return unusable(problemIn(error));
  }
}

function problemOf(error: unknown, trust: string): ConnectionProblem | undefined {
  if (error instanceof NetworkProblemError) return error.problem;
  if (error instanceof TrustError) return stalled("UntrustedCertificate", error.message);
  return connectionProblem(error, trust);
}

/** By the operator's own certificate; where there is none yet, or it is refused, one is made with the first administrator's password. */
async function logIn(
  resource: NetworkResource,
  place: NetworkAddress,
  admin: SecretObject | undefined,
  context: NetworkContext,
  { times, firstLogins }: ManagedParts,
): Promise<Probe> {
  const own = await ownCredentials(resource, context);
  if (own !== undefined) {
    const probe = await useNetwork(resource, { ...place, credentials: own.credentials }, context, times);
    if (probe.problem?.reason !== "NetworkUnauthorized" || admin === undefined) {
      if (probe.problem === undefined) await keepCurrent(resource, own, context);
      return probe;
    }
    context.log.warn({ reason: probe.problem.message }, "the operator's own identity is refused: making another one");
  }
  const password = credentialsOf(childNames(resource).admin, "password", admin);
  if ("problem" in password) throw new NetworkProblemError(password.problem);
  const gate = firstLogins.gateOf(refOf(resource), JSON.stringify(password.value));
  if (isAskedFor(resource)) gate.open();
  const credentials = await makeOwnIdentity(resource, place, password.value, context, { times, gate });
  return await useNetwork(resource, { ...place, credentials }, context, times);
}

async function keepCurrent(
  resource: NetworkResource,
  { credentials, isPending }: OwnCredentials,
  context: NetworkContext,
): Promise<void> {
  const { namespace, name } = resource.metadata;
  const connection = context.networks.connectionOf({ namespace, name });
  if (credentials.method !== "cert" || connection === undefined) return;
  if (isPending) return await confirmOwnIdentity(resource, credentials, connection.client, context);
  if (!isDue(credentials, context.now())) return;
  await renewOwnIdentity(resource, credentials, connection.client, context);
  context.log.info({}, "the operator's certificate was renewed");
}
