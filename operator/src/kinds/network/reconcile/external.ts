import type { ExternalNetwork, NetworkResource } from "@sallyport/resources";
import type { ConnectionTimes } from "../../../controller-client/connection.ts";
import { NetworkNotReadyError } from "../../../controller-client/errors.ts";
import type { NetworkRef } from "../../../controller-client/network-clients.ts";
import type { Credentials } from "../../../controller-client/oidc-session.ts";
import { fetchPinnedAuthority, TrustError } from "../../../controller-client/trust.ts";
import { KINDS, type KubeObject } from "../../../kube/kinds.ts";
import type { Outcome } from "../../../loop/kind-reconciler.ts";
import {
  accessSources,
  caBundleOf,
  credentialsOf,
  type Found,
  tokenAudience,
  type ValueHolder,
} from "../plan/access.ts";
import { stalled } from "../plan/problem.ts";
import { outlastFailover } from "./outlast-failover.ts";
import {
  type Access,
  type ConnectionProblem,
  connectionProblem,
  isAway,
  type NetworkContext,
  outcomeOf,
  refOf,
  requestTimeoutMs,
  suspend,
  useNetwork,
} from "./use.ts";

/** A token of the operator's service account for an audience. `lifetime` as in the spec. */
export type ServiceAccountToken = (audience: string, lifetime: string) => Promise<string>;

export interface ExternalOptions {
  /** Absent: this operator can't get tokens, `extJwt` is refused. */
  readonly serviceAccountToken?: ServiceAccountToken;
  readonly times?: Partial<ConnectionTimes>;
}

type Read<T> = { readonly value: T } | { readonly problem: ConnectionProblem };

/** Reconciles a Network that exists outside of the operator's control. */
export async function reconcileExternal(
  resource: NetworkResource,
  external: ExternalNetwork,
  context: NetworkContext,
  o: ExternalOptions,
): Promise<Outcome<NetworkResource>> {
  const access = await readAccess(resource, external, context, o);
  if ("problem" in access) {
    const { problem } = access;
    suspend(resource, problem, context);
    return outcomeOf(resource, { findings: { access: problem }, status: {}, problem }, context);
  }
  return outcomeOf(resource, await useNetwork(resource, access.value, context, o.times), context);
}

/**
 * Keeps a network that is being deleted usable for those that still clean up in it. Its Secret may have been deleted with it, as in a namespace that goes
 * as a whole: then the connection that there is has to do. Without one the network is lost to them.
 */
export async function keepUsable(
  resource: NetworkResource,
  external: ExternalNetwork,
  context: NetworkContext,
  o: ExternalOptions,
): Promise<void> {
  const ref = refOf(resource);
  const access = await readAccess(resource, external, context, o);
  if ("value" in access) await useNetwork(resource, access.value, context, o.times);
  else if (context.networks.connectionOf(ref) !== undefined) context.networks.use(ref);
  else if (!access.problem.reason.endsWith("NotFound")) suspend(resource, access.problem, context);
  else {
    const message = `the Network ${ref.name} is being deleted and can't be used any more: ${access.problem.message}`;
    context.networks.suspend(ref, new NetworkNotReadyError("NetworkLost", message));
  }
}

async function readAccess(
  resource: NetworkResource,
  external: ExternalNetwork,
  context: NetworkContext,
  o: ExternalOptions,
): Promise<Read<Access>> {
  const sources = accessSources(external);
  const holderOf = async (kind: "Secret" | "ConfigMap", name: string) =>
    await context.read<KubeObject & ValueHolder>(KINDS[kind], name);
  // Both are read in any case: a change of either wakes the Network.
  const bundleHolder = sources.caBundle && (await holderOf(sources.caBundle.kind, sources.caBundle.name));
  const secret = sources.credentials && (await holderOf("Secret", sources.credentials));
  const bundle = caBundleOf(external, bundleHolder);
  if ("problem" in bundle) return bundle;
  const credentials = readCredentials(refOf(resource), external, secret || undefined, o);
  if ("problem" in credentials) return credentials;
  const ca = bundle.value === undefined ? await pinnedAuthority(resource, external, context) : { value: bundle.value };
  if ("problem" in ca) return ca;
  const [first, ...others] = external.endpoints;
  if (first === undefined) throw new TypeError("a Network without endpoints passed the schema");
  const value = {
    endpoints: [first, ...others] as const,
    ca: ca.value,
    credentials: credentials.value,
    trust: bundle.value === undefined ? "spec.external.bootstrapTrust" : "spec.external.caBundle",
  };
  return { value };
}

function readCredentials(
  network: NetworkRef,
  { auth: { passwordSecretRef, certificateSecretRef, extJwt } }: ExternalNetwork,
  secret: ValueHolder | undefined,
  { serviceAccountToken }: ExternalOptions,
): Found<Credentials> {
  if (passwordSecretRef !== undefined) return credentialsOf(passwordSecretRef.name, "password", secret);
  if (certificateSecretRef !== undefined) return credentialsOf(certificateSecretRef.name, "cert", secret);
  if (extJwt === undefined) throw new TypeError("a Network without a way to log in passed the schema");
  if (serviceAccountToken === undefined) {
    const message =
      "spec.external.auth.extJwt needs tokens of the operator's service account, which it has only inside of a cluster and with the right to create serviceaccounts/token";
    return { problem: stalled("TokenUnavailable", message) };
  }
  const { serviceAccountTokenLifetime } = extJwt;
  const found = tokenAudience(network, extJwt.audience);
  if ("problem" in found) return found;
  const { value: audience } = found;
  const token = () => serviceAccountToken(audience, serviceAccountTokenLifetime);
  return { value: { method: "ext-jwt", token, audience } };
}

async function pinnedAuthority(
  resource: NetworkResource,
  { endpoints, bootstrapTrust }: ExternalNetwork,
  { signal }: NetworkContext,
): Promise<Read<string>> {
  if (bootstrapTrust === undefined) throw new TypeError("a Network without anything to trust passed the schema");
  const fetch = async (): Promise<Read<string>> => {
    try {
      const timeoutMs = requestTimeoutMs(resource);
      return { value: await fetchPinnedAuthority(endpoints, bootstrapTrust.fingerprint, { timeoutMs, signal }) };
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof TrustError) return { problem: stalled("UntrustedCertificate", error.message) };
      const problem = connectionProblem(error, "spec.external.bootstrapTrust");
      if (problem === undefined) throw error;
      return { problem };
    }
  };
  return await outlastFailover(resource, fetch, (answer) => "problem" in answer && isAway(answer), signal);
}
