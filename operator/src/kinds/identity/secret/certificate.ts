import {
  type ApiClient,
  type ApiCredential,
  ApiError,
  ApiTransportError,
  announcedOidc,
  type ClientOptions,
  createClient,
  OidcLogin,
  type OidcLoginOptions,
} from "@sallyport/api/client";
import {
  EnrollmentError,
  type EnrollmentToken,
  fetchCaBundle,
  type IdentityFile,
  postEnrollment,
  verifyEnrollmentToken,
} from "@sallyport/sdk";
import {
  commonName,
  controllerTrust,
  createCsr,
  createKeyPair,
  parseCertificates,
  readPrivateKey,
} from "@sallyport/wire";
import { byProxy } from "../../../controller-client/proxies.ts";
import type { LeaderCheck } from "../../../kube/election/elector.ts";
import { type Enrolling, pemText } from "./identity-secret.ts";

/** Credentials of an identity could not be got or renewed. The message is for people and holds no secret. */
export class CredentialError extends Error {
  override readonly name = "CredentialError";
  readonly reason: string;
  /** It may pass by itself; else a person has to act. */
  readonly isPassing: boolean;

  constructor(reason: string, message: string, o: { readonly isPassing: boolean; readonly cause?: unknown }) {
    super(message, o.cause === undefined ? undefined : { cause: o.cause });
    this.reason = reason;
    this.isPassing = o.isPassing;
  }
}

/** What every request that changes something in a network is held against. */
interface ChangeGuard {
  readonly signal: AbortSignal;
  /** Asked right before every request that changes something: of two processes that take themselves for the leader, one must not go on. */
  readonly mayAct: LeaderCheck;
}

interface Prepared {
  readonly enrolling: Enrolling;
  /** The token, whose signature was checked. */
  readonly token: EnrollmentToken;
}

/**
 * The first half of an enrollment: makes the key, and learns what will belong to it. The key is in the Secret before {@link redeemEnrollment} uses the token up: a crash
 * between the two loses nothing, because the certificate can be asked for afterwards (docs/operator/identities.md, "An identity in a Secret").
 * @throws CredentialError
 */
export async function prepareEnrollment(jwt: string, signal: AbortSignal): Promise<Prepared> {
  return await withCredentialErrors(async () => {
    const token = await genuine(jwt, signal);
    const authorities = await fetchCaBundle(token.issuer, { leaf: token.leaf }, signal, byProxy().connect);
    const { keyPem } = await createKeyPair();
    const ztAPI = `${token.issuer.origin}/edge/client/v1`;
    return { token, enrolling: { identityId: token.subject, ztAPI, key: keyPem, ca: authorities.pem } };
  });
}

/**
 * Uses the token up.
 * @param given the token as text, or as {@link prepareEnrollment} checked it
 * @throws CredentialError, LeadershipLostError before anything was sent
 */
export async function redeemEnrollment(
  given: string | EnrollmentToken,
  enrolling: Enrolling,
  { signal, mayAct }: ChangeGuard,
): Promise<IdentityFile> {
  return await withCredentialErrors(async () => {
    const token = typeof given === "string" ? await genuine(given, signal) : given;
    const { identityId, key: keyPem, ca } = enrolling;
    const body = await createCsr({ commonName: identityId, subject: { C: "US", O: "Sallyport" }, keyPem });
    mayAct();
    const answer = await postEnrollment(
      token,
      ca,
      { contentType: "application/x-pem-file", body },
      signal,
      byProxy().connect,
    );
    const cert = typeof answer === "object" && answer !== null && "cert" in answer ? answer.cert : undefined;
    const file = typeof cert === "string" ? certified(enrolling, cert) : undefined;
    if (file !== undefined) return file;
    const message = `expected a certificate for the key of the operator from ${token.issuer.host}, got something else`;
    throw new CredentialError("EnrollmentRefused", message, { isPassing: false });
  });
}

/** The identity that a key and a certificate make; undefined when they don't belong together. */
export function certified({ ztAPI, key, ca }: Omit<Enrolling, "identityId">, cert: string): IdentityFile | undefined {
  if (!fits(cert, key)) return undefined;
  const id = { key: `pem:${key}`, cert: `pem:${cert}`, ca: `pem:${ca}` };
  return { ztAPI, ztAPIs: null, configTypes: null, id, enableHa: false };
}

function fits(cert: string, key: string): boolean {
  try {
    return parseCertificates(cert)[0]?.checkPrivateKey(readPrivateKey(key)) === true;
  } catch {
    return false;
  }
}

async function genuine(jwt: string, signal: AbortSignal): Promise<EnrollmentToken> {
  const token = await verifyEnrollmentToken(jwt, { signal, ...byProxy() });
  if (token.method === "ott") return token;
  const message = `expected a token of the enrollment method ott, got ${token.method}`;
  throw new CredentialError("EnrollmentRefused", message, { isPassing: false });
}

async function withCredentialErrors<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof EnrollmentError)) throw error;
    const isPassing = error.code === "UNREACHABLE" || error.code === "TOKEN_EXPIRED";
    const reason = error.code === "UNREACHABLE" ? "ControllerUnavailable" : "EnrollmentRefused";
    throw new CredentialError(reason, `the identity could not enroll: ${error.message}`, { isPassing, cause: error });
  }
}

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
  const place: ClientOptions = {
    baseUrl: new URL(file.ztAPI).origin,
    ...byProxy(),
    cert: pemText(file.id.cert),
    key: pemText(file.id.key),
    tls: controllerTrust(pemText(file.id.ca)),
  };
  const api = createClient("client", place);
  try {
    const oidc = announcedOidc((await api.listVersion({}, { signal })).data);
    mayAct();
    const session = await (oidc === undefined
      ? legacySession(api, signal)
      : oidcSession({ ...place, ...oidc }, signal));
    api.setCredential(session.credential);
    const answer = await work(api);
    // The session would end by itself; an answer is worth more than that.
    await session.end(AbortSignal.timeout(LOGOUT_MS)).catch(() => undefined);
    return answer;
  } catch (error) {
    signal.throwIfAborted();
    throw renewalError(error);
  } finally {
    api.close();
  }
}

/** A login for a few calls: it is not kept alive. */
interface ShortSession {
  readonly credential: ApiCredential;
  end(signal: AbortSignal): Promise<unknown>;
}

async function legacySession(api: ApiClient<"client">, signal: AbortSignal): Promise<ShortSession> {
  const { data } = await api.authenticate({ query: { method: "cert" }, body: {} }, { signal });
  if (data.authQueries.length > 0) throw secondFactorError();
  return {
    credential: { kind: "session", token: data.token },
    end: (until) => api.deleteCurrentAPISession({}, { signal: until }),
  };
}

async function oidcSession(provider: OidcLoginOptions, signal: AbortSignal): Promise<ShortSession> {
  const answer = await OidcLogin.once(provider, (login) => login.start({ method: "cert" }, {}, signal));
  if (answer.kind === "factors") throw secondFactorError();
  const { tokens } = answer;
  return {
    credential: { kind: "bearer", token: tokens.accessToken },
    end: (until) => OidcLogin.once(provider, (login) => login.end(tokens, until)),
  };
}

const secondFactorError = (): CredentialError =>
  refused("its auth policy asks for a second factor, which the operator has not: give it one without");

function renewalError(error: unknown): unknown {
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
