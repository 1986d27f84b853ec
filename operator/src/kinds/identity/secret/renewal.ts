import { type ApiClient, ApiError, ApiTransportError, createClient } from "@sallyport/api/client";
import { EnrollmentError, fetchCaBundle, type IdentityFile } from "@sallyport/sdk";
import { commonName, controllerTrust, createCsr, createKeyPair, parseCertificates } from "@sallyport/wire";
import { byProxy } from "../../../controller-client/proxies.ts";
import { type ChangeGuard, CredentialError, certified } from "./enrollment.ts";
import { pemText } from "./identity-secret.ts";

const LOGOUT_MS = 3_000;

/**
 * Asks, as the identity, for a certificate of a new key. It is not in force yet, the old one is; networks that can let both in until {@link confirmCertificate}.
 * @throws CredentialError, LeadershipLostError
 */
export async function extendCertificate(
  file: IdentityFile,
  authenticatorId: string,
  guard: ChangeGuard,
): Promise<IdentityFile> {
  const { signal, mayAct } = guard;
  return await asIdentity(file, guard, async (api) => {
    const { keyPem: key } = await createKeyPair();
    const [leaf] = parseCertificates(pemText(file.id.cert));
    const name = leaf && commonName(leaf);
    if (name === undefined) throw refused("the certificate in the Secret names no identity");
    const clientCertCsr = await createCsr({ commonName: name, subject: { C: "US", O: "Sallyport" }, keyPem: key });
    const params = { id: authenticatorId };
    mayAct();
    const { data } = await api.extendCurrentIdentityAuthenticator(
      { params, body: { clientCertCsr, overlap: true } },
      { signal },
    );
    // The trusted controller names the authorities: the network may have got new ones since.
    const ca = pemText(file.id.ca);
    const authorities = await fetchCaBundle(
      new URL(new URL(file.ztAPI).origin),
      { caPem: ca },
      signal,
      byProxy().connect,
    );
    const next = certified({ ztAPI: file.ztAPI, key, ca: authorities.pem }, data.clientCert ?? "");
    if (next === undefined) throw refused("the network answered with no certificate of the new key");
    return { ...file, id: { ...file.id, ...next.id } };
  });
}

/** Whether the network lets an identity in with a certificate that was not confirmed. False when that can't be found out. */
export async function isLetIn(file: IdentityFile, guard: ChangeGuard): Promise<boolean> {
  try {
    await asIdentity(file, guard, async () => {});
    return true;
  } catch (error) {
    if (error instanceof CredentialError) return false;
    throw error;
  }
}

/**
 * Puts the certificate in force that {@link extendCertificate} got. The network refuses the old one from then on.
 * @param file an identity that the network lets in: the one in force still, or the next one where both count
 * @throws CredentialError, LeadershipLostError
 */
export async function confirmCertificate(
  file: IdentityFile,
  authenticatorId: string,
  next: IdentityFile,
  guard: ChangeGuard,
): Promise<void> {
  const { signal, mayAct } = guard;
  await asIdentity(file, guard, async (api) => {
    const body = { clientCert: pemText(next.id.cert) };
    mayAct();
    await api.extendVerifyCurrentIdentityAuthenticator({ params: { id: authenticatorId }, body }, { signal });
  });
}

async function asIdentity<T>(
  file: IdentityFile,
  { signal, mayAct }: ChangeGuard,
  work: (api: ApiClient<"client">) => Promise<T>,
): Promise<T> {
  const ca = pemText(file.id.ca);
  const api = createClient("client", {
    baseUrl: new URL(file.ztAPI).origin,
    ...byProxy(),
    cert: pemText(file.id.cert),
    key: pemText(file.id.key),
    tls: controllerTrust(ca),
  });
  try {
    mayAct();
    const { data } = await api.authenticate({ query: { method: "cert" }, body: {} }, { signal });
    if (data.authQueries.length > 0) {
      throw refused("its auth policy asks for a second factor, which the operator has not: give it one without");
    }
    api.setToken(data.token);
    const answer = await work(api);
    // The session would end by itself; an answer is worth more than that.
    await api.deleteCurrentAPISession({}, { signal: AbortSignal.timeout(LOGOUT_MS) }).catch(() => undefined);
    return answer;
  } catch (error) {
    signal.throwIfAborted();
    throw explained(error);
  } finally {
    api.close();
  }
}

function explained(error: unknown): unknown {
  if (error instanceof ApiTransportError || (error instanceof EnrollmentError && error.code === "UNREACHABLE")) {
    const message = `the identity's certificate could not be renewed: ${error.message}`;
    return new CredentialError("ControllerUnavailable", message, { isPassing: true, cause: error });
  }
  if (error instanceof ApiError) {
    const isPassing = error.status === 429 || error.status >= 500;
    const reason = isPassing ? "ControllerUnavailable" : "RenewalRefused";
    const why = [error.cause?.message, error.cause?.reason].filter((text) => text !== undefined).join(": ");
    const message = `the network refuses to renew the identity's certificate: ${error.code}${why === "" ? "" : ` (${why})`}`;
    return new CredentialError(reason, message, { isPassing, cause: error });
  }
  if (error instanceof EnrollmentError) return refused(error.message);
  return error;
}

const refused = (why: string): CredentialError =>
  new CredentialError("RenewalRefused", `the identity's certificate could not be renewed: ${why}`, {
    isPassing: false,
  });
