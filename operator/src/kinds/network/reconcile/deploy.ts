import { createHmac } from "node:crypto";
import { parseDatabaseUrl } from "@sallyport/controller-config";
import { amountOf, type ManagedNetwork, type NetworkResource } from "@sallyport/resources";
import { formatHostPort, type HostPort } from "@sallyport/wire";
import { isUntried, markKept } from "../../../children/apply.ts";
import type { FoundClaim } from "../../../children/blocked-reason.ts";
import { hashOf } from "../../../children/json-value.ts";
import { type FoundPod, type FoundStatefulSet, isRolledOut } from "../../../children/workload.ts";
import { KINDS, type KubeObject, type ResourceKind, type SecretObject } from "../../../kube/kinds.ts";
import { namedValue } from "../plan/access.ts";
import { stalled } from "../plan/problem.ts";
import { advertisedAddress, areAssigned, type FoundService, replicaAddress, serviceHost } from "../render/address.ts";
import {
  renderClaim,
  renderConfigMap,
  renderDisruptionBudget,
  renderReplicaService,
  renderService,
} from "../render/children.ts";
import { renderControllerFile } from "../render/controller-file.ts";
import { childNames, isChild, ownerName } from "../render/names.ts";
import { renderStatefulSet } from "../render/pod.ts";
import {
  canBeSeveral,
  fileOf,
  HAS_ID,
  ordinalOf,
  ordinals,
  replicaId,
  replicaName,
  SHARED_FILE,
} from "../render/replicas.ts";
import {
  createSecret,
  dryRunChild,
  ensureCertificate,
  ensureChild,
  NetworkProblemError,
  newPassword,
  newSecretKey,
} from "./children.ts";
import type { NetworkContext } from "./use.ts";

export interface DeployedController {
  readonly found: FoundStatefulSet;
  readonly address: HostPort;
  /** The network's secret key, as its Secret has it. */
  readonly secretKey: string;
  readonly admin: SecretObject | undefined;
}

/**
 * Brings the objects in the cluster into the form that is wanted.
 * @throws NetworkProblemError when something has to come first; then nothing that depends on it was written
 */
export async function deploy(
  resource: NetworkResource,
  managed: ManagedNetwork,
  context: NetworkContext,
  { controllerImage }: { readonly controllerImage: string },
): Promise<DeployedController> {
  const url = await databaseUrl(managed, context);
  if (isUntried(resource)) {
    const inputs = { image: controllerImage, configHash: "", hasCertificate: false };
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
  const replicas = await ensureReplicaServices(resource, managed, context);
  const hasCertificate = await ensureCertificate(resource, managed, address.host, context);
  const host = serviceHost(resource, managed.exposure.clusterDomain);
  const files = filesOf(resource, managed, { parts: { address, serviceHost: host, hasCertificate }, replicas });

  // Before the file: a volume that may not grow leaves that as it is.
  const claim = renderClaim(resource, managed, volumeSize(resource, managed, context));
  if (claim !== undefined) await ensureChild(resource, KINDS.PersistentVolumeClaim, claim, context);
  await ensureChild(resource, KINDS.ConfigMap, renderConfigMap(resource, files.texts), context);
  const budget = renderDisruptionBudget(resource, managed);
  if (budget !== undefined) await ensureChild(resource, KINDS.PodDisruptionBudget, budget, context);
  // Keyed, so that the hash does not confirm a guessed URL.
  const urlHash = url && createHmac("sha256", secretKey).update(url).digest("hex");
  const inputs = {
    image: controllerImage,
    configHash: hashOf([files.hash, urlHash, ...files.assigned]),
    hasCertificate,
    replicas: replicasNow(resource, managed, context),
    hasOwnAddress: replicas.length > 0,
    drainMs: files.drainMs,
  };
  const found = await ensureChild<KubeObject & FoundStatefulSet>(
    resource,
    KINDS.StatefulSet,
    renderStatefulSet(resource, managed, inputs),
    context,
  );
  await removeSurplus(resource, managed, { found, addresses: replicas.length }, context);
  return { found, address, secretKey, admin };
}

/** The files of the controllers by their names, and what of them has a controller started again. */
interface ControllerFiles {
  readonly texts: Readonly<Record<string, string>>;
  readonly hash: string;
  /** For so long each of them serves on after it was told to stop, milliseconds. */
  readonly drainMs: number;
  /** Addresses that the cluster has assigned: the spec does not tell them. */
  readonly assigned: readonly string[];
}

interface FileInputs {
  readonly parts: Parameters<typeof renderControllerFile>[1];
  /** Addresses of the single controllers, in their order; empty if they share one. */
  readonly replicas: readonly HostPort[];
}

/** @throws NetworkProblemError when the spec makes no file that a controller could use */
function filesOf(resource: NetworkResource, managed: ManagedNetwork, { parts, replicas }: FileInputs): ControllerFiles {
  const render = (replica?: typeof parts.replica) => {
    const file = renderControllerFile(managed, replica === undefined ? parts : { ...parts, replica });
    if ("problem" in file) throw new NetworkProblemError(stalled(file.problem.reason, file.problem.message));
    return file;
  };
  const shared = render();
  const { drainMs } = shared;
  const texts: Record<string, string> = { [SHARED_FILE]: shared.text };
  if (!canBeSeveral(managed)) return { texts, hash: shared.hash, drainMs, assigned: [] };
  const own = ordinals(managed).map((ordinal) => render({ id: replicaId(ordinal), address: replicas[ordinal] }));
  for (const [ordinal, { text }] of own.entries()) texts[fileOf(replicaName(resource, ordinal))] = text;
  // The others differ from the first one by what follows from the spec: one more is no reason to start those again that run.
  const assigned = areAssigned(managed) ? replicas.map(formatHostPort) : [];
  return { texts, hash: own[0]?.hash ?? shared.hash, drainMs, assigned };
}

/**
 * Makes a Service for each of several controllers, and answers where they are reached. One that is left of several keeps its own: a new address would have it
 * started again while there is no other one.
 * @throws NetworkProblemError while the cluster has not assigned an address
 */
async function ensureReplicaServices(
  resource: NetworkResource,
  managed: ManagedNetwork,
  context: NetworkContext,
): Promise<HostPort[]> {
  if (managed.replicas === 1 && !keepsOwnAddress(resource, managed, context)) return [];
  const services: FoundService[] = [];
  for (const ordinal of ordinals(managed)) {
    const wanted = renderReplicaService(resource, managed, ordinal);
    services.push(await ensureChild<KubeObject & FoundService>(resource, KINDS.Service, wanted, context));
  }
  return services.map((service, ordinal) => {
    const advertised = replicaAddress(resource, managed, ordinal, service);
    if ("waiting" in advertised) throw new NetworkProblemError({ ...advertised.waiting, isStalled: false });
    return advertised.address;
  });
}

function keepsOwnAddress(resource: NetworkResource, managed: ManagedNetwork, { known }: NetworkContext): boolean {
  const { type, hostname, replicaHostname } = managed.exposure;
  const { namespace } = resource.metadata;
  const service = known.child<KubeObject>(KINDS.Service, namespace, replicaName(resource, 0));
  // Without a name of its own it would be reached in the cluster alone.
  const isReached = type === "NodePort" || hostname === undefined || replicaHostname !== undefined;
  return canBeSeveral(managed) && isReached && service !== undefined && isChild(service, resource);
}

/**
 * How many controllers there are to be now. The first one makes the network alone, and the others come when it is ready. Pods of an operator that knew one
 * controller only are replaced first: such a controller has no id, and lets no other one use its database.
 */
function replicasNow(resource: NetworkResource, { replicas }: ManagedNetwork, { known }: NetworkContext): number {
  if (replicas === 1) return replicas;
  const { namespace } = resource.metadata;
  const found = known.child<FoundStatefulSet>(KINDS.StatefulSet, namespace, childNames(resource).controller);
  const present = Math.max(1, found?.spec?.replicas ?? 1);
  const pods = known.childrenOf<FoundPod>(KINDS.Pod, resource);
  const haveIds = pods.every(({ metadata }) => metadata.annotations?.[HAS_ID] !== undefined);
  const isReady = (found?.status?.readyReplicas ?? 0) > 0;
  return haveIds && isReady ? replicas : Math.min(present, replicas);
}

/** Removes what only controllers needed that are no more. An address stays for as long as a controller has it. */
async function removeSurplus(
  resource: NetworkResource,
  { replicas }: ManagedNetwork,
  { found, addresses }: { readonly found: FoundStatefulSet; readonly addresses: number },
  { client, known, signal }: NetworkContext,
): Promise<void> {
  const { namespace } = resource.metadata;
  const remove = async (kind: ResourceKind, { metadata: { name, uid } }: KubeObject) =>
    await client.delete({ kind, namespace, name }, { signal, uid });
  const pods = new Set(known.childrenOf<FoundPod>(KINDS.Pod, resource).map(({ metadata }) => metadata.name));
  for (const service of known.childrenOf<KubeObject>(KINDS.Service, resource)) {
    const ordinal = ordinalOf(service, resource);
    if (ordinal === undefined || !isChild(service, resource)) continue;
    const isGone = ordinal >= replicas ? !pods.has(service.metadata.name) : ordinal >= addresses && isRolledOut(found);
    if (isGone) await remove(KINDS.Service, service);
  }
  const budget = known.child<KubeObject>(KINDS.PodDisruptionBudget, namespace, childNames(resource).controller);
  if (replicas === 1 && budget !== undefined && isChild(budget, resource)) {
    await remove(KINDS.PodDisruptionBudget, budget);
  }
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

export const SECRET_KEY = "secret.key";

const DEFAULT_ADMIN = "admin";

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
