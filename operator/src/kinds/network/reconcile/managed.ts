import { createHmac } from "node:crypto";
import { isIP } from "node:net";
import { parseDatabaseUrl } from "@sallyport/controller-config";
import {
  ANNOTATIONS,
  amountOf,
  type ManagedNetwork,
  type NetworkResource,
  type NetworkStatus,
} from "@sallyport/resources";
import { formatHostPort, type HostPort } from "@sallyport/wire";
import { isUntried, markKept } from "../../../children/apply.ts";
import { type FoundClaim, findBlockedReason } from "../../../children/blocked-reason.ts";
import { hashOf } from "../../../children/json-value.ts";
import type { FoundPod, FoundStatefulSet } from "../../../children/workload.ts";
import type { ConnectionTimes } from "../../../controller-client/connection.ts";
import { fetchProvenBundle, TrustError } from "../../../controller-client/trust.ts";
import { KubeError } from "../../../kube/client/errors.ts";
import { KINDS, type KubeObject, type SecretObject } from "../../../kube/kinds.ts";
import type { Outcome } from "../../../loop/kind-reconciler.ts";
import { credentialsOf, namedValue } from "../plan/access.ts";
import { rolloutProblem, stalled } from "../plan/problem.ts";
import { renderCaBundle, renderClaim, renderConfigMap, renderService, renderStatefulSet } from "../render/children.ts";
import { renderControllerFile } from "../render/controller-file.ts";
import {
  advertisedAddress,
  baseUrl,
  childNames,
  type FoundService,
  isChild,
  managementBase,
  ownerName,
  serviceHost,
  servicePort,
} from "../render/names.ts";
import {
  createSecret,
  dryRunChild,
  ensureCertificate,
  ensureChild,
  NetworkProblemError,
  newPassword,
  newSecretKey,
} from "./children.ts";
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
import {
  type ConnectionProblem,
  connectionProblem,
  isAskedFor,
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
type Deployed = Pick<NetworkStatus, "endpoints" | "adminSecretName" | "configHash" | "lastHandledRestart">;

const DEFAULT_ADMIN = "admin";

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
  };

  const problem = await availabilityProblem(resource, workload.found, context);
  if (problem !== undefined) return failed("availability", problem);
  const started = workload.found.spec?.template?.metadata?.annotations ?? {};
  deployed = {
    ...deployed,
    configHash: started[ANNOTATIONS.configHash] ?? configHash,
    lastHandledRestart: started[ANNOTATIONS.restart] ?? lastHandledRestart,
  };

  const probe = await enter(resource, managed, workload, context, o);
  return shown({ ...withItself(resource, probe, workload), findings: { ...probe.findings, isManaged: true } });
}

async function availabilityProblem(resource: NetworkResource, found: FoundStatefulSet, context: NetworkContext) {
  const pods = context.known.childrenOf<FoundPod>(KINDS.Pod, resource);
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
function withItself(resource: NetworkResource, probe: Probe, { address }: DeployedController): Probe {
  if (probe.problem !== undefined || probe.status.controllers !== undefined) return probe;
  const itself = {
    name: childNames(resource).controller,
    ctrlAddress: `tls:${formatHostPort(address)}`,
    online: true,
  };
  return { ...probe, status: { ...probe.status, controllers: [itself] } };
}

interface DeployedController {
  readonly found: FoundStatefulSet;
  readonly address: HostPort;
  /** The network's secret key, as its Secret has it. */
  readonly secretKey: string;
  readonly admin: SecretObject | undefined;
}

/** @throws NetworkProblemError when something has to come first; then nothing that depends on it was written */
async function deploy(
  resource: NetworkResource,
  managed: ManagedNetwork,
  context: NetworkContext,
  o: ManagedParts,
): Promise<DeployedController> {
  const url = await databaseUrl(managed, context);
  if (isUntried(resource)) {
    const inputs = { image: o.controllerImage, configHash: "", hasCertificate: false };
    await dryRunChild(resource, KINDS.StatefulSet, renderStatefulSet(resource, managed, inputs), context);
  }
  const secretKey = await ensureKey(resource, managed, context);
  const admin = await ensureAdmin(resource, context);
  const service = await ensureChild<KubeObject & FoundService>(
    resource,
    KINDS.Service,
    renderService(resource, managed),
    context,
  );
  const advertised = advertisedAddress(resource, managed, service);
  if ("waiting" in advertised) throw new NetworkProblemError({ ...advertised.waiting, isStalled: false });
  const { address } = advertised;
  const hasCertificate = await ensureCertificate(resource, managed, address.host, context);
  const host = serviceHost(resource, managed.exposure.clusterDomain);
  const file = renderControllerFile(managed, { address, serviceHost: host, hasCertificate });
  if ("problem" in file) throw new NetworkProblemError(stalled(file.problem.reason, file.problem.message));

  // Before the file: a volume that may not grow leaves that as it is.
  const claim = renderClaim(resource, managed, volumeSize(resource, managed, context));
  if (claim !== undefined) await ensureChild(resource, KINDS.PersistentVolumeClaim, claim, context);
  await ensureChild(resource, KINDS.ConfigMap, renderConfigMap(resource, file.text), context);
  // Keyed, so that the hash does not confirm a guessed URL.
  const urlHash = url && createHmac("sha256", secretKey).update(url).digest("hex");
  const inputs = {
    image: o.controllerImage,
    configHash: hashOf([file.hash, urlHash]),
    hasCertificate,
  };
  const found = await ensureChild<KubeObject & FoundStatefulSet>(
    resource,
    KINDS.StatefulSet,
    renderStatefulSet(resource, managed, inputs),
    context,
  );
  return { found, address, secretKey, admin };
}

/** A volume that a user has made larger stays so: none shrinks. Undefined: as in the spec. */
function volumeSize(
  resource: NetworkResource,
  { database: { embedded } }: ManagedNetwork,
  { known }: NetworkContext,
): string | undefined {
  const { namespace } = resource.metadata;
  const found = known.child<FoundClaim>(KINDS.PersistentVolumeClaim, namespace, childNames(resource).data);
  const there = found?.spec?.resources?.requests?.storage;
  return (amountOf(there) ?? 0) > (amountOf(embedded?.size) ?? 0) ? there : undefined;
}

async function databaseUrl({ database: { urlSecretRef } }: ManagedNetwork, context: NetworkContext) {
  if (urlSecretRef === undefined) return undefined;
  const { name, key } = urlSecretRef;
  const holder = await context.read<SecretObject>(KINDS.Secret, name);
  const found = namedValue(holder, { kind: "Secret", name, key, use: "the URL of the database" });
  if ("problem" in found) throw new NetworkProblemError(found.problem);
  try {
    parseDatabaseUrl(found.value.trim());
    return found.value;
  } catch (error) {
    const message = `the key ${key} of the Secret ${name} should hold ${(error as Error).message}, and nothing else`;
    throw new NetworkProblemError(stalled("InvalidDatabaseUrl", message));
  }
}

const SECRET_KEY = "secret.key";

/** The key under which the database is sealed: made once. Where there was a database already, another key would be of no use. */
async function ensureKey(resource: NetworkResource, managed: ManagedNetwork, context: NetworkContext): Promise<string> {
  const names = childNames(resource);
  const use = "the secret key of the network";
  const present = await readKept(resource, names.key, context);
  if (present === undefined && (await hasData(resource, managed, context))) {
    const message = `the Secret ${names.key} with the secret key of the network is gone, and the network's data is still there: restore the Secret from your copy of it. Without it the data is lost: to start again, delete this Network and ${managed.database.embedded === undefined ? "empty the database" : `the PersistentVolumeClaim ${names.data}`}`;
    throw new NetworkProblemError(stalled("SecretKeyLost", message));
  }
  // What was read is not read again: between two looks the Secret could go, and another key be made.
  const secret = present ?? (await createSecret(resource, names.key, { [SECRET_KEY]: newSecretKey() }, context));
  if (present === undefined) {
    const note = `the Secret ${names.key} has the key that the network's data is sealed with: keep a copy, without it a backup is worth nothing`;
    context.recordEvent({ type: "Normal", reason: "SecretKeyMade", action: "Create", note });
  }
  const found = namedValue(secret, { kind: "Secret", name: names.key, key: SECRET_KEY, use });
  if ("problem" in found) throw new NetworkProblemError(found.problem);
  return found.value;
}

/** A user's own Secret keeps the user's marks. */
async function readKept(resource: NetworkResource, name: string, context: NetworkContext) {
  const secret = await context.read<SecretObject>(KINDS.Secret, name);
  if (secret !== undefined && isChild(secret, resource)) {
    await markKept(KINDS.Secret, secret, ownerName(resource), context);
  }
  return secret;
}

async function hasData(resource: NetworkResource, managed: ManagedNetwork, { client, signal }: NetworkContext) {
  if (resource.status.configHash !== undefined) return true;
  if (managed.database.embedded === undefined) return false;
  const { namespace } = resource.metadata;
  const ref = { kind: KINDS.PersistentVolumeClaim, namespace, name: childNames(resource).data };
  return (await client.get(ref, { signal })) !== undefined;
}

/** The first administrator. Once the controller runs, the operator does not need the Secret. */
async function ensureAdmin(resource: NetworkResource, context: NetworkContext): Promise<SecretObject | undefined> {
  const { admin } = childNames(resource);
  const present = await readKept(resource, admin, context);
  if (resource.status.configHash !== undefined) return present;
  const credentials = { username: DEFAULT_ADMIN, password: newPassword() };
  const secret = present ?? (await createSecret(resource, admin, credentials, context));
  if (present === undefined) {
    const note = `the Secret ${admin} has the name and password of the first administrator`;
    context.recordEvent({ type: "Normal", reason: "AdminMade", action: "Create", note });
  }
  for (const key of ["username", "password"]) {
    const found = namedValue(secret, { kind: "Secret", name: admin, key, use: "the first administrator" });
    if ("problem" in found) throw new NetworkProblemError(found.problem);
  }
  return secret;
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
  try {
    const ca = await fetchProvenBundle(base, secretKey, { timeoutMs: requestTimeoutMs(resource), signal, servername });
    await ensureChild(resource, KINDS.ConfigMap, renderCaBundle(resource, ca), context);
    const place: NetworkAddress = { endpoints: [base], ca, servername, trust };
    return await logIn(resource, place, admin, context, o);
  } catch (error) {
    signal.throwIfAborted();
    const problem = problemOf(error, trust);
    if (problem === undefined) throw error;
    suspend(resource, problem, context);
    return { findings: { connection: problem }, status: {}, problem };
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
