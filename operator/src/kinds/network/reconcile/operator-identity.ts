import { X509Certificate } from "node:crypto";
import { ApiError, createClient, type ManagementClient } from "@sallyport/api/client";
import { ANNOTATIONS, GROUP, type NetworkResource, ownerOf, ownershipOf, tagsOf } from "@sallyport/resources";
import { controllerTrust, createCsr, createKeyPair } from "@sallyport/wire";
import { markKept } from "../../../children/apply.ts";
import { type ConnectionTimes, NetworkConnection, REFUSED_LOGIN_MS } from "../../../controller-client/connection.ts";
import { byProxy } from "../../../controller-client/proxies.ts";
import { LoginGate } from "../../../controller-client/request-limits.ts";
import { KINDS, type KubeObject, type SecretObject } from "../../../kube/kinds.ts";
import { credentialsOf, type SecretCredentials } from "../plan/access.ts";
import { stalled } from "../plan/problem.ts";
import { childNames, isChild, keptMetadata, ownerName } from "../render/names.ts";
import { conflict, NetworkProblemError } from "./children.ts";
import { type Access, connectionOptions, type NetworkContext, requestTimeoutMs } from "./use.ts";

/** Where the network is, without a login. */
export type NetworkAddress = Omit<Access, "credentials">;

type CertificateCredentials = Extract<SecretCredentials, { method: "cert" }>;

const DAY_MS = 86_400_000;
/** Renewed so long before the end, or a third of the life before, whatever is later. */
const RENEW_BEFORE_MS = 30 * DAY_MS;

/** Name of the operator's own administrator in a network that it runs. */
const identityName = ({ metadata: { namespace, name } }: NetworkResource): string =>
  `Sallyport operator of ${namespace}/${name}`;

/** On the Secret, `true` while its certificate was not confirmed: until then it counts beside the one before, and for some days only. */
const PENDING = `${GROUP}/certificate-pending`;

export interface OwnCredentials {
  readonly credentials: SecretCredentials;
  /** The certificate still has to be confirmed. */
  readonly isPending: boolean;
}

/** The operator's own certificate for a network that it runs, as its Secret has it; undefined when that has to be made. */
export async function ownCredentials(
  resource: NetworkResource,
  context: NetworkContext,
): Promise<OwnCredentials | undefined> {
  const name = childNames(resource).operator;
  const secret = await context.read<SecretObject>(KINDS.Secret, name);
  // A Secret of another owner is neither used nor written over.
  if (secret !== undefined && !isChild(secret, resource)) throw new NetworkProblemError(conflict(KINDS.Secret, name));
  if (secret !== undefined) await markKept(KINDS.Secret, secret, ownerName(resource), context);
  const found = credentialsOf(name, "cert", secret);
  if ("problem" in found) return undefined;
  return { credentials: found.value, isPending: secret?.metadata.annotations?.[PENDING] === "true" };
}

/**
 * Makes the operator an administrator of its own, with a certificate, by the login of the first one. So it goes on working when people change that
 * one's password. `gate` counts over all tries. What a try before this one has left is taken away: its key may be lost.
 *
 * @throws whatever a call of the network throws, NetworkProblemError for a foreign identity of the name
 */
export async function makeOwnIdentity(
  resource: NetworkResource,
  place: NetworkAddress,
  admin: SecretCredentials,
  context: NetworkContext,
  { times = {}, gate }: { readonly times?: Partial<ConnectionTimes> | undefined; readonly gate: LoginGate },
): Promise<SecretCredentials> {
  const { signal, mayAct } = context;
  const options = connectionOptions(resource, { ...place, credentials: admin }, context, times);
  const connection = new NetworkConnection({ ...options, gate, mayAct, name: `${options.name} (first login)` });
  try {
    const { client } = connection;
    await clearName(resource, client, context);
    const body = {
      name: identityName(resource),
      type: "Default" as const,
      isAdmin: true,
      enrollment: { ott: true },
      tags: tagsOf(ownerOf(resource, context.cluster)),
    };
    const { id } = (await client.createIdentity({ body }, { signal })).data;
    const detail = (await client.detailIdentity({ params: { id } }, { signal })).data;
    const token = detail.enrollment.ott?.token;
    if (token === undefined) throw new Error(`the controller gave no token for the new identity ${id}`);
    const credentials = await enrolled(resource, place, { id, token }, context);
    await storeOwnIdentity(resource, credentials, context);
    context.recordEvent({
      type: "Normal",
      reason: "OperatorEnrolled",
      action: "Enroll",
      note: `the operator has an administrator of its own, ${identityName(resource)}, in the Secret ${childNames(resource).operator}`,
    });
    return credentials;
  } finally {
    await connection.close();
  }
}

async function clearName(resource: NetworkResource, client: ManagementClient, context: NetworkContext): Promise<void> {
  const { signal } = context;
  const name = identityName(resource);
  const { data } = await client.listIdentities({ query: { filter: `name = ${JSON.stringify(name)}` } }, { signal });
  const [found] = data;
  if (found === undefined) return;
  const { kind } = ownershipOf(found.tags, ownerOf(resource, context.cluster));
  if (kind !== "ours" && kind !== "predecessor") {
    const message = `the network has an identity "${name}" that no operator of this cluster made: delete or rename it`;
    throw new NetworkProblemError(stalled("NameConflict", message));
  }
  await client.deleteIdentity({ params: { id: found.id } }, { signal });
}

async function enrolled(
  resource: NetworkResource,
  { endpoints: [baseUrl], ca, servername }: NetworkAddress,
  { id, token }: { readonly id: string; readonly token: string },
  { signal, mayAct }: NetworkContext,
): Promise<SecretCredentials> {
  const { keyPem } = await createKeyPair();
  const text = await createCsr({ commonName: id, keyPem });
  const client = createClient("client", {
    baseUrl,
    timeoutMs: requestTimeoutMs(resource),
    ...byProxy(),
    tls: { ...controllerTrust(ca ?? ""), servername },
  });
  try {
    mayAct();
    const { cert } = (await client.enroll({ query: { method: "ott", token }, text }, { signal })).data;
    if (cert === undefined) throw new Error("the controller answered the enrollment without a certificate");
    return { method: "cert", cert, key: keyPem };
  } finally {
    client.close();
  }
}

async function storeOwnIdentity(
  resource: NetworkResource,
  credentials: SecretCredentials,
  { client, signal }: NetworkContext,
  isPending = false,
): Promise<void> {
  if (credentials.method !== "cert") throw new TypeError("the operator's own identity has a certificate");
  const { cert, key } = credentials;
  const metadata = keptMetadata(resource, childNames(resource).operator);
  const annotations = {
    [ANNOTATIONS.certificateNotAfter]: new X509Certificate(cert).validToDate.toISOString(),
    [PENDING]: String(isPending),
  };
  const secret = {
    apiVersion: "v1",
    kind: "Secret",
    metadata: { ...metadata, annotations: { ...metadata.annotations, ...annotations } },
    type: "Opaque",
    data: { "tls.crt": base64(cert), "tls.key": base64(key) },
  } as KubeObject;
  await client.apply(secret, { signal });
}

const base64 = (text: string): string => Buffer.from(text).toString("base64");

/** Whether the certificate should be renewed. */
export function isDue({ cert }: { readonly cert: string }, now: Date): boolean {
  const { validFromDate, validToDate } = new X509Certificate(cert);
  const life = validToDate.getTime() - validFromDate.getTime();
  return now.getTime() >= validToDate.getTime() - Math.min(RENEW_BEFORE_MS, life / 3);
}

/**
 * Extends the certificate that the operator is logged in with, for the same key. Both count until the new one is confirmed, and it is stored before that: an operator that
 * finds it in the Secret gets in with it, and confirms it by {@link confirmOwnIdentity} when that was not done.
 */
export async function renewOwnIdentity(
  resource: NetworkResource,
  credentials: CertificateCredentials,
  client: ManagementClient,
  context: NetworkContext,
): Promise<void> {
  const { signal } = context;
  const id = await ownAuthenticator(client, signal);
  const clientCertCsr = await createCsr({ commonName: id, keyPem: credentials.key });
  const body = { clientCertCsr, overlap: true };
  const answer = await client.extendCurrentIdentityAuthenticator({ params: { id }, body }, { signal });
  const { clientCert } = answer.data;
  if (clientCert === undefined) throw new Error("the controller extended the certificate and did not give it");
  const renewed = { ...credentials, cert: clientCert };
  await storeOwnIdentity(resource, renewed, context, true);
  await confirmOwnIdentity(resource, renewed, client, context);
}

/** Ends what counts besides the certificate of the Secret. */
export async function confirmOwnIdentity(
  resource: NetworkResource,
  credentials: CertificateCredentials,
  client: ManagementClient,
  context: NetworkContext,
): Promise<void> {
  const { signal } = context;
  const id = await ownAuthenticator(client, signal);
  const body = { clientCert: credentials.cert };
  try {
    await client.extendVerifyCurrentIdentityAuthenticator({ params: { id }, body }, { signal });
  } catch (error) {
    // It was confirmed, and the operator ended before it wrote that down.
    if (!(error instanceof ApiError) || error.code !== "INVALID_CLIENT_CERT") throw error;
  }
  await storeOwnIdentity(resource, credentials, context);
}

async function ownAuthenticator(client: ManagementClient, signal: AbortSignal): Promise<string> {
  const { data } = await client.listCurrentIdentityAuthenticators({}, { signal });
  const id = data.find(({ method }) => method === "cert")?.id;
  if (id === undefined) throw new Error("the operator's identity has no certificate that could be extended");
  return id;
}

/**
 * Remembers, over all looks at a Network, whether the password of its first administrator was refused: people log in as that one too, and must not be
 * locked out because the operator tries an old password with every look.
 */
export class FirstLogins {
  readonly #gates = new Map<string, { readonly password: string; readonly gate: LoginGate }>();
  readonly #waitMs: number;

  /** @param waitMs from a refused password to the one other attempt */
  constructor(waitMs = REFUSED_LOGIN_MS) {
    this.#waitMs = waitMs;
  }

  /** Another password starts again. */
  gateOf({ namespace, name }: { readonly namespace: string; readonly name: string }, password: string): LoginGate {
    const key = `${namespace}/${name}`;
    const known = this.#gates.get(key);
    if (known?.password === password) return known.gate;
    const gate = new LoginGate(this.#waitMs, true);
    this.#gates.set(key, { password, gate });
    return gate;
  }

  forget({ namespace, name }: { readonly namespace: string; readonly name: string }): void {
    this.#gates.delete(`${namespace}/${name}`);
  }
}
