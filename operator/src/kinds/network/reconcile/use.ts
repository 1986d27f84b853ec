import { ApiError, ApiTransportError, listAll, type ManagementClient } from "@sallyport/api/client";
import { parseDuration } from "@sallyport/config-file";
import { ANNOTATIONS, LABELS, type NetworkResource, type NetworkStatus } from "@sallyport/resources";
import type { ConnectionOptions, ConnectionTimes } from "../../../controller-client/connection.ts";
import {
  NetworkNotReadyError,
  type NotReadyReason,
  OperationForbiddenError,
} from "../../../controller-client/errors.ts";
import type { NetworkSettings } from "../../../controller-client/network-clients.ts";
import type { Credentials } from "../../../controller-client/oidc-session.ts";
import { conditionOf } from "../../../kube/conditions.ts";
import { KINDS } from "../../../kube/kinds.ts";
import type { Outcome, ReconcileContext } from "../../../loop/kind-reconciler.ts";
import { connectionConditions, type Findings } from "../plan/conditions.ts";
import { type NetworkProblem, nextReconcileMs, passing, stalled } from "../plan/problem.ts";
import { outlastFailover } from "./outlast-failover.ts";

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

/** Whether no controller answered. */
export const isAway = (answer: { readonly problem?: NetworkProblem | undefined }): boolean =>
  answer.problem?.reason === "ControllerUnavailable";

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
  const look = () => probeNetwork(connection.client, { trust: access.trust, signal });
  const probe = await outlastFailover(resource, look, isAway, signal);
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
    ca,
    servername,
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
  const before: ServerStatus = { serverVersion, apiVersion, controllers, sessionIdentity };
  const requeueAfterMs = nextReconcileMs(problem, awayForMs(resource, context));
  return {
    conditions: connectionConditions(findings),
    status: problem === undefined ? status : { ...before, ...status },
    requeueAfterMs,
  };
}

/** For how long a Network is not ready already, milliseconds. */
export function awayForMs({ status }: NetworkResource, context: NetworkContext): number {
  const ready = conditionOf(status.conditions, "Ready");
  if (ready === undefined || ready.status === "True") return 0;
  return Math.max(0, context.now().getTime() - Date.parse(ready.lastTransitionTime));
}

/** What the status shows of a controller that was reached. */
type ServerStatus = Pick<NetworkStatus, "serverVersion" | "apiVersion" | "controllers" | "sessionIdentity">;

export interface Probe {
  readonly findings: Findings;
  /** What was learned; after a problem only what came before it. */
  readonly status: ServerStatus;
  readonly problem?: ConnectionProblem;
}

/** Problems of the login; others of the same call are of the connection. */
const OF_LOGIN = new Set<NetworkProblem["reason"]>(["NetworkUnauthorized", "RateLimited", "NotAdministrator"]);

/**
 * Looks whether a network can be used: its controller answers, is of a version that the operator knows, takes the login, and the login is an
 * administrator's. `trust` says in messages where the certificates to trust come from.
 */
async function probeNetwork(
  client: ManagementClient,
  { trust, signal }: { readonly trust: string; readonly signal: AbortSignal },
): Promise<Probe> {
  let findings: Findings = {};
  let status: ServerStatus = {};
  const failed = (error: unknown): Probe => {
    signal.throwIfAborted();
    const problem = connectionProblem(error, trust);
    if (problem === undefined) throw error;
    const step = OF_LOGIN.has(problem.reason) ? { login: problem } : { connection: problem };
    return { findings: { ...findings, ...step }, status, problem };
  };
  try {
    const { problem, ...version } = serverVersion((await client.listVersion({}, { signal })).data);
    status = version;
    findings = { serverVersion: version.serverVersion };
    if (problem !== undefined) return { findings: { ...findings, version: problem }, status, problem };

    const { name, isAdmin } = (await client.getCurrentIdentity({}, { signal })).data;
    status = { ...status, sessionIdentity: name };
    findings = { ...findings, identity: name };
    if (!isAdmin) return notAdministrator(name, findings, status);

    const controllers = await listAll((query) => client.listControllers({ query }, { signal }));
    return { findings, status: { ...status, ...controllersIn(controllers) } };
  } catch (error) {
    return failed(error);
  }
}

function notAdministrator(name: string, findings: Findings, status: ServerStatus): Probe {
  const problem = stalled(
    "NotAdministrator",
    `the identity ${name}, which the operator logs in as, is no administrator: set isAdmin of that identity, or give the credentials of another one`,
  );
  return { findings: { ...findings, login: problem }, status, problem };
}

interface FoundController {
  readonly name: string;
  readonly ctrlAddress?: string | null | undefined;
  readonly isOnline?: boolean | undefined;
}

/** Sorted, so that the status doesn't change with the order in which the server tells them. */
function controllersIn(found: readonly FoundController[]): Pick<ServerStatus, "controllers"> {
  if (found.length === 0) return {};
  const controllers = found
    .map(({ name, ctrlAddress, isOnline }) => ({ name, ctrlAddress: ctrlAddress || undefined, online: isOnline }))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
  return { controllers };
}

/** What the operator reads of a controller's version document. */
interface VersionDocument {
  readonly version?: string;
  readonly apiVersions?: Readonly<Record<string, Readonly<Record<string, { readonly version?: string | undefined }>>>>;
}

/** The oldest generation whose Management API has everything that the operator uses. */
const OLDEST = [1, 5] as const;
const API = "edge-management";
const API_VERSION = "v1";

interface ServerVersion {
  readonly serverVersion: string;
  readonly apiVersion?: string;
  readonly problem?: NetworkProblem;
}

/** Whether the operator can work with a controller. Builds without a number, as developers have them, are taken for new. */
export function serverVersion({ version = "", apiVersions = {} }: VersionDocument): ServerVersion {
  const api = apiVersions[API]?.[API_VERSION];
  const found = { serverVersion: version, ...(api === undefined ? {} : { apiVersion: api.version ?? API_VERSION }) };
  if (api === undefined) {
    const names = Object.keys(apiVersions).sort().join(", ") || "none";
    return {
      ...found,
      problem: stalled(
        "UnsupportedVersion",
        `the server offers no ${API} ${API_VERSION} (it offers ${names}): is the address that of a controller's Management API?`,
      ),
    };
  }
  const match = /^v?(\d+)\.(\d+)/.exec(version);
  const [major, minor] = [Number(match?.[1] ?? 0), Number(match?.[2] ?? 0)];
  const isNumbered = match !== null && major + minor > 0;
  if (!isNumbered || major > OLDEST[0] || (major === OLDEST[0] && minor >= OLDEST[1])) return found;
  return {
    ...found,
    problem: stalled(
      "UnsupportedVersion",
      `the controller is of version ${version}; the operator works with ${OLDEST.join(".")} and newer: upgrade the controller`,
    ),
  };
}

/** A failed look at a network, and when to look again, where that is known. */
export interface ConnectionProblem extends NetworkProblem {
  readonly retryAfterMs?: number | undefined;
}

const UNTRUSTED = new Set([
  "SELF_SIGNED_CERT_IN_CHAIN",
  "DEPTH_ZERO_SELF_SIGNED_CERT",
  "UNABLE_TO_GET_ISSUER_CERT",
  "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
  "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
  "CERT_UNTRUSTED",
  "CERT_SIGNATURE_FAILURE",
  "INVALID_CA",
]);
const EXPIRED = new Set(["CERT_HAS_EXPIRED", "CERT_NOT_YET_VALID"]);

/**
 * What a failed call says of the network as a whole. Undefined for what is no network's fault.
 * `trust`: where the certificates come from, for messages.
 */
export function connectionProblem(error: unknown, trust: string): ConnectionProblem | undefined {
  if (error instanceof NetworkNotReadyError) return notReady(error);
  if (error instanceof OperationForbiddenError) return stalled("NotAdministrator", error.message);
  if (error instanceof ApiTransportError) return transport(error, trust);
  if (!(error instanceof ApiError)) return undefined;
  const message = `${error.code}: ${error.message}`;
  if (error.status === 401) return passing("NetworkUnauthorized", message);
  if (error.status === 403) return stalled("NotAdministrator", message);
  if (error.status === 429) return passing("RateLimited", message);
  if (error.status >= 500) return passing("ControllerUnavailable", message);
  return stalled("NotAController", `the server refuses a request that every controller takes: ${message}`);
}

function notReady({ reason, message, retryAfterMs, isStalled }: NetworkNotReadyError): ConnectionProblem {
  if (reason === "NetworkUnauthorized") return { reason, message, isStalled, retryAfterMs };
  return { ...passing(reason === "RateLimited" ? reason : "ControllerUnavailable", message), retryAfterMs };
}

function transport({ message, cause }: ApiTransportError, trust: string): ConnectionProblem {
  const code = codeOf(cause);
  if (UNTRUSTED.has(code)) {
    return stalled(
      "UntrustedCertificate",
      `${message} (${code}): the controller's certificate is from none of the authorities in ${trust}; put that of the controller there, as served at /edge/client/v1/.well-known/est/cacerts`,
    );
  }
  if (code === "ERR_TLS_CERT_ALTNAME_INVALID") {
    return stalled(
      "WrongCertificateName",
      `${message}: use an address that is in the certificate, or have the controller advertise this one`,
    );
  }
  if (EXPIRED.has(code)) {
    return stalled(
      "CertificateExpired",
      `${message} (${code}): look at the clocks, and at the renewal of the controller's certificate`,
    );
  }
  if (code === "NOT_A_CONTROLLER") {
    return stalled("NotAController", `${message}: look at who answers at this address, and withdraw that certificate`);
  }
  // Something answered over TLS that we trust, and it was not what a controller says.
  if (cause === undefined) {
    return stalled("NotAController", `${message}: the address should be the base of a controller's Management API`);
  }
  const advice = ADVICE[code];
  return passing("ControllerUnavailable", advice === undefined ? message : `${message}: ${advice}`);
}

/** By the code of the operating system's error. Nothing of this is known to be wrong for good. */
const UNKNOWN_NAME =
  "the operator's pod does not know this name: look at the endpoint, and at the cluster's name server";
const ADVICE: Readonly<Record<string, string>> = {
  EAI_AGAIN: UNKNOWN_NAME,
  ENOTFOUND: UNKNOWN_NAME,
  ECONNREFUSED: "nothing listens there: look at the port, and whether the controller runs",
  ECONNRESET: "something in between, such as a proxy or a firewall, ends the connection",
  EHOSTUNREACH: "no route leads there from the operator's pod",
  ENETUNREACH: "no route leads there from the operator's pod",
  ETIMEDOUT: "no answer: a firewall or a NetworkPolicy may drop what the operator's pod sends",
};

function codeOf(cause: unknown): string {
  return cause instanceof Error && "code" in cause ? String(cause.code) : "";
}
