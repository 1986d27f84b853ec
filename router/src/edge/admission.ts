import type { X509Certificate } from "node:crypto";
import { type ApiSessionRecord, type Channel, EdgeHeader, fingerprint, spiffeId, verifyLeaf } from "@sallyport/wire";
import { type Access, type AccessClaims, TokenRefusedError } from "../access/ports.ts";
import type { ControlPlane } from "../control/control-plane.ts";
import { isJwt, opaqueSession, type SdkSession, tokenSession } from "./sdk-session.ts";

/** Why an SDK channel was not admitted. It goes to the log; the SDK only sees its connection closed. */
export class ClientRefusedError extends Error {
  override readonly name = "ClientRefusedError";
  /** No controller announced the API session. */
  readonly isUnknownSession: boolean;

  constructor(message: string, o: { cause?: unknown; isUnknownSession?: boolean } = {}) {
    super(message, o.cause === undefined ? undefined : { cause: o.cause });
    this.isUnknownSession = o.isUnknownSession ?? false;
  }
}

const SESSION_PATH = /^\/identity\/([^/]+)\/apiSession\/([^/]+)(?:\/apiSessionCertificate\/[^/]+)?$/;
const IDENTITY_PATH = /^\/identity\/([^/]+)$/;

/** Whom a certificate may stand for. */
type Bearer = Pick<ApiSessionRecord, "id" | "identityId" | "certFingerprints">;

/**
 * Decides whether a certificate may use an API session: by its fingerprint being one of the session's, or by naming the
 * session in its SPIFFE id, in which case it must also chain to the network's CA (docs/protocol/data-path.md,
 * "Admission"). Only the leaf counts: it alone was proved by the handshake.
 * @throws ClientRefusedError with the reason
 */
export function checkCertificate(
  session: Bearer,
  certificates: readonly X509Certificate[],
  anchors: readonly X509Certificate[],
): void {
  const leaf = leafOf(certificates);
  if (session.certFingerprints.includes(fingerprint(leaf))) return;
  const named = SESSION_PATH.exec(pathOf(leaf));
  if (named === null) throw notOf(leaf, session);
  requireSession(named, leaf, session);
  requireChain(certificates, anchors, session);
}

/**
 * The same for an access token, which may be bound to the certificate of the identity, too, and may allow that to have expired
 * (docs/protocol/edge.md, "Access tokens").
 * @throws ClientRefusedError with the reason
 */
export function checkTokenCertificate(
  claims: AccessClaims,
  certificates: readonly X509Certificate[],
  anchors: readonly X509Certificate[],
  now = Date.now(),
): void {
  const leaf = leafOf(certificates);
  const { apiSessionId: id, identityId, fingerprints: certFingerprints, allowsExpiredCertificates } = claims;
  const bearer = { id, identityId, certFingerprints };
  const print = fingerprint(leaf);
  const isBound = certFingerprints.some((each) => each.toLowerCase() === print);
  const path = isBound ? "" : pathOf(leaf);
  const ofSession = SESSION_PATH.exec(path);
  const ofIdentity = IDENTITY_PATH.exec(path);
  if (!isBound && ofSession === null && ofIdentity?.[1] !== identityId) throw notOf(leaf, bearer);
  const mayHaveExpired = allowsExpiredCertificates && ofSession === null;
  if (!mayHaveExpired && leaf.validToDate.getTime() <= now) {
    throw new ClientRefusedError(`certificate ${print} expired at ${leaf.validToDate.toISOString()}`);
  }
  if (isBound) return;
  if (ofSession !== null) requireSession(ofSession, leaf, bearer);
  requireChain(certificates, anchors, bearer, mayHaveExpired);
}

function leafOf([leaf]: readonly X509Certificate[]): X509Certificate {
  if (leaf === undefined) throw new ClientRefusedError("the client presented no certificate");
  return leaf;
}

/** Of its SPIFFE id; empty without one. */
function pathOf(leaf: X509Certificate): string {
  try {
    const id = spiffeId(leaf);
    return id !== undefined && URL.canParse(id) ? new URL(id).pathname : "";
  } catch (error) {
    throw new ClientRefusedError("the client certificate names more than one SPIFFE id", { cause: error });
  }
}

function notOf(leaf: X509Certificate, { id }: Bearer): ClientRefusedError {
  return new ClientRefusedError(`certificate ${fingerprint(leaf)} does not belong to API session ${id}`);
}

function requireSession(named: RegExpExecArray, leaf: X509Certificate, { id, identityId }: Bearer): void {
  if (named[2] === id && named[1] === identityId) return;
  throw new ClientRefusedError(`certificate ${fingerprint(leaf)} was issued for another API session than ${id}`);
}

function requireChain(
  certificates: readonly X509Certificate[],
  anchors: readonly X509Certificate[],
  { id }: Bearer,
  mayHaveExpired = false,
): void {
  const leaf = leafOf(certificates);
  try {
    verifyLeaf({ leaf, intermediates: certificates.slice(1), anchors, ignoreDates: mayHaveExpired ? "leaf" : false });
  } catch (error) {
    const text = `certificate ${fingerprint(leaf)} names API session ${id} but no CA of the network issued it`;
    throw new ClientRefusedError(text, { cause: error });
  }
}

interface AdmissionOptions {
  readonly anchors: readonly X509Certificate[];
  /** What may reach this router later than the SDK does, the session or the key of its token, is waited for so long. */
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/**
 * Finds the API session an SDK channel was opened with and checks that its certificate may use it.
 * @throws ClientRefusedError, or the signal's reason
 */
export async function admit(
  channel: Channel,
  { control, access }: { readonly control: ControlPlane; readonly access: Access },
  o: AdmissionOptions,
): Promise<SdkSession> {
  const token = channel.hello.headers.getString(EdgeHeader.SessionToken);
  if (token === undefined || token === "")
    throw new ClientRefusedError("the hello carries no API session token (header 1002)");
  if (channel.peer.certificates.length === 0) throw new ClientRefusedError("the client presented no certificate");
  if (isJwt(token)) return await admitByToken(channel, token, access, o);
  const session = await control.findApiSession(token, { signal: o.signal, timeoutMs: o.timeoutMs });
  if (session === undefined) {
    throw new ClientRefusedError(`the API session is not known here and was not announced within ${o.timeoutMs} ms`, {
      isUnknownSession: true,
    });
  }
  checkCertificate(session, channel.peer.certificates, o.anchors);
  return opaqueSession(session);
}

async function admitByToken(
  channel: Channel,
  token: string,
  access: Access,
  { anchors, timeoutMs, signal }: AdmissionOptions,
): Promise<SdkSession> {
  try {
    const claims = await access.accessToken(token, { timeoutMs, signal });
    checkTokenCertificate(claims, channel.peer.certificates, anchors);
    return tokenSession(claims, channel);
  } catch (error) {
    if (!(error instanceof TokenRefusedError)) throw error;
    const model = access.isReady ? "" : " (no data model is here: does the controller have it?)";
    throw new ClientRefusedError(`access token: ${error.message}${model}`, { cause: error, isUnknownSession: true });
  }
}
