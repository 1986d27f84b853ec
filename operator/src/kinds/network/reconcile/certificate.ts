import { X509Certificate } from "node:crypto";
import { KubeError } from "../../../kube/client/errors.ts";
import { KINDS, type SecretObject } from "../../../kube/kinds.ts";
import { passing, stalled } from "../plan/problem.ts";
import { renderCertificate } from "../render/children.ts";
import { childNames } from "../render/names.ts";
import type { ManagedNetwork, NetworkResource } from "../schema.ts";
import { ensureChild, NetworkProblemError } from "./children.ts";
import type { NetworkContext } from "./use.ts";

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
