import {
  EnrollmentError,
  type EnrollmentToken,
  fetchCaBundle,
  type IdentityFile,
  postEnrollment,
  verifyEnrollmentToken,
} from "@sallyport/sdk";
import { createCsr, createKeyPair, parseCertificates, readPrivateKey } from "@sallyport/wire";
import { byProxy } from "../../../controller-client/proxies.ts";
import type { LeaderCheck } from "../../../kube/election/elector.ts";
import type { Enrolling } from "./identity-secret.ts";

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
export interface ChangeGuard {
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
  return await explained(async () => {
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
  return await explained(async () => {
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

async function explained<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof EnrollmentError)) throw error;
    const isPassing = error.code === "UNREACHABLE" || error.code === "TOKEN_EXPIRED";
    const reason = error.code === "UNREACHABLE" ? "ControllerUnavailable" : "EnrollmentRefused";
    throw new CredentialError(reason, `the identity could not enroll: ${error.message}`, { isPassing, cause: error });
  }
}
