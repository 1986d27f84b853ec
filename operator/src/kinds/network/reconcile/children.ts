import { randomBytes, randomInt, X509Certificate } from "node:crypto";
import type { ManagedNetwork, NetworkResource } from "@sallyport/resources";
import { applyChild, dryRun } from "../../../children/apply.ts";
import { withIntent } from "../../../children/intent.ts";
import { KubeError } from "../../../kube/client/errors.ts";
import { KINDS, type KubeObject, type ResourceKind, type SecretObject } from "../../../kube/kinds.ts";
import { type NetworkProblem, passing, stalled } from "../plan/problem.ts";
import { renderCertificate } from "../render/children.ts";
import { childNames, isChild, keptMetadata } from "../render/names.ts";
import type { ConnectionProblem, NetworkContext } from "./use.ts";

/** A Network can't come to be as wanted; what is up is in {@link problem}. */
export class NetworkProblemError extends Error {
  override readonly name = "NetworkProblemError";
  readonly problem: ConnectionProblem;

  constructor(problem: ConnectionProblem) {
    super(problem.message);
    this.problem = problem;
  }
}

/**
 * Brings one child into the form that is wanted, and writes only where it differs. Answers it as it is then.
 * @throws NetworkProblemError when an object of this name has another owner
 */
export async function ensureChild<T extends KubeObject>(
  resource: NetworkResource,
  kind: ResourceKind,
  wanted: KubeObject,
  context: NetworkContext,
): Promise<T> {
  const { name } = wanted.metadata;
  const found = await childOf<T>(resource, kind, name, context);
  if (found !== undefined && !isChild(found, resource)) throw new NetworkProblemError(conflict(kind, name));
  const intended = withIntent(wanted);
  if (found !== undefined && context.admissions.isThere(found, intended)) return found;
  return await applyChild<T>(intended, context);
}

/**
 * Asks the API server what it would say to a child that is ours to write.
 * @throws KubeError with the field and what is wrong with it
 */
export async function dryRunChild(
  resource: NetworkResource,
  kind: ResourceKind,
  wanted: KubeObject,
  context: NetworkContext,
): Promise<void> {
  const found = await childOf(resource, kind, wanted.metadata.name, context);
  if (found === undefined || isChild(found, resource)) await dryRun(wanted, context);
}

/** Read where the watches know nothing of it: ConfigMaps are known without their data, kinds of other operators not at all. */
async function childOf<T extends KubeObject>(
  { metadata: { namespace } }: NetworkResource,
  kind: ResourceKind,
  name: string,
  context: NetworkContext,
): Promise<T | undefined> {
  if (kind === KINDS.ConfigMap) return await context.read<T>(kind, name);
  const { client, known, signal } = context;
  const seen = kind === KINDS.Certificate ? undefined : known.child<T>(kind, namespace, name);
  return seen ?? (await client.get<T>({ kind, namespace, name }, { signal }));
}

export const conflict = (kind: ResourceKind, name: string): NetworkProblem =>
  stalled(
    "NameConflict",
    `there is a ${kind.kind} ${name} that does not belong to this Network: delete or rename it, or create the Network under another name`,
  );

/**
 * Makes a Secret of which there was none. It is never written again: what is in it can't be had a second time.
 * @throws KubeError when there is one by now: then the next look finds it
 */
export async function createSecret(
  resource: NetworkResource,
  name: string,
  values: Readonly<Record<string, string>>,
  { client, signal }: NetworkContext,
): Promise<SecretObject> {
  const data = Object.fromEntries(
    Object.entries(values).map(([key, text]) => [key, Buffer.from(text).toString("base64")]),
  );
  const metadata = keptMetadata(resource, name);
  const secret: SecretObject = { apiVersion: "v1", kind: "Secret", metadata, type: "Opaque", data };
  return await client.create<SecretObject>(secret, { signal });
}

/** A key as the controller reads it: base64 of 32 bytes. */
export const newSecretKey = (): string => randomBytes(32).toString("base64");

/** Without what people confuse: 0 O o 1 l I. */
const LETTERS = "abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789";
const PASSWORD_LENGTH = 24;

export const newPassword = (): string =>
  Array.from({ length: PASSWORD_LENGTH }, () => LETTERS[randomInt(LETTERS.length)]).join("");

/** What cert-manager isn't watched for. */
const LOOK_AGAIN_MS = 60_000;

/**
 * Asks cert-manager for the certificate of the API where an issuer is named. Answers whether there is one to serve.
 * @throws NetworkProblemError while there is none for the host: the controller would not start with it
 */
export async function ensureCertificate(
  resource: NetworkResource,
  managed: ManagedNetwork,
  host: string,
  context: NetworkContext,
): Promise<boolean> {
  const wanted = renderCertificate(resource, managed, host);
  if (wanted === undefined) return false;
  const name = childNames(resource).certificate;
  try {
    await ensureChild(resource, KINDS.Certificate, wanted, context);
  } catch (error) {
    if (!(error instanceof KubeError) || !error.isNotFound) throw error;
    const message =
      "spec.managed.certificates.issuerRef needs cert-manager, whose kind Certificate this cluster does not have: install it, or leave issuerRef out";
    throw new NetworkProblemError({ ...stalled("CertManagerMissing", message), retryAfterMs: LOOK_AGAIN_MS });
  }
  const secret = await context.read<SecretObject>(KINDS.Secret, name);
  const pem = secret?.data?.["tls.crt"];
  if (pem !== undefined && secret?.data?.["tls.key"] !== undefined && covers(pem, host)) return true;
  const message = `cert-manager has not made the certificate for ${host} yet: kubectl describe certificate ${name} says why`;
  throw new NetworkProblemError(passing("CertificateNotReady", message));
}

function covers(base64: string, host: string): boolean {
  try {
    const certificate = new X509Certificate(Buffer.from(base64, "base64").toString("utf8"));
    return (certificate.checkHost(host) ?? certificate.checkIP(host)) !== undefined;
  } catch {
    return false;
  }
}
