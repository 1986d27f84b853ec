import type { X509Certificate } from "node:crypto";
import { type ApiSessionRecord, type Channel, EdgeHeader, fingerprint, spiffeId, verifyLeaf } from "@sallyport/wire";
import type { ControlPlane } from "../control/control-plane.ts";

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

/**
 * Decides whether a certificate may use an API session: by its fingerprint being one of the session's, or by naming the
 * session in its SPIFFE id, in which case it must also chain to the network's CA (docs/protocol/data-path.md,
 * "Admission"). Only the leaf counts: it alone was proved by the handshake.
 * @throws ClientRefusedError with the reason
 */
export function checkCertificate(
  session: ApiSessionRecord,
  certificates: readonly X509Certificate[],
  anchors: readonly X509Certificate[],
): void {
  const [leaf, ...intermediates] = certificates;
  if (leaf === undefined) throw new ClientRefusedError("the client presented no certificate");
  const print = fingerprint(leaf);
  if (session.certFingerprints.includes(print)) return;
  let named: string | undefined;
  try {
    named = spiffeId(leaf);
  } catch (error) {
    throw new ClientRefusedError("the client certificate names more than one SPIFFE id", { cause: error });
  }
  const path = named === undefined || !URL.canParse(named) ? undefined : SESSION_PATH.exec(new URL(named).pathname);
  if (path === undefined || path === null) {
    throw new ClientRefusedError(`certificate ${print} does not belong to API session ${session.id}`);
  }
  if (path[2] !== session.id || path[1] !== session.identityId) {
    throw new ClientRefusedError(`certificate ${print} was issued for another API session than ${session.id}`);
  }
  try {
    verifyLeaf({ leaf, intermediates, anchors: [...anchors] });
  } catch (error) {
    const text = `certificate ${print} names API session ${session.id} but no CA of the network issued it`;
    throw new ClientRefusedError(text, { cause: error });
  }
}

/**
 * Finds the API session an SDK channel was opened with and checks that its certificate may use it. Waits up to
 * `timeoutMs` for the session, which may reach this router later than the SDK does.
 * @throws ClientRefusedError, or the signal's reason
 */
export async function admit(
  channel: Channel,
  control: ControlPlane,
  o: { anchors: readonly X509Certificate[]; timeoutMs: number; signal: AbortSignal },
): Promise<ApiSessionRecord> {
  const token = channel.hello.headers.getString(EdgeHeader.SessionToken);
  if (token === undefined || token === "")
    throw new ClientRefusedError("the hello carries no API session token (header 1002)");
  if (channel.peer.certificates.length === 0) throw new ClientRefusedError("the client presented no certificate");
  const session = await control.findApiSession(token, { signal: o.signal, timeoutMs: o.timeoutMs });
  if (session === undefined) {
    throw new ClientRefusedError(`the API session is not known here and was not announced within ${o.timeoutMs} ms`, {
      isUnknownSession: true,
    });
  }
  checkCertificate(session, channel.peer.certificates, o.anchors);
  return session;
}
