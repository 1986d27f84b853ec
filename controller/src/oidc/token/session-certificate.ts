/** Certificates for sessions whose clients have none: their tokens count only together with them (RFC 8705, section 3). */
import { ApiError } from "@sallyport/api";
import { requireCsr, withCsrErrors } from "../../auth/client-certificate.ts";
import type { OidcSessionFacts } from "../../model/session/oidc-sessions.ts";
import { failureText, oauthError } from "../oauth-error.ts";
import type { Provider } from "../provider-parts.ts";

/** It counts only with a token of its session, whose life is shorter. */
const SESSION_CERTIFICATE_MS = 365 * 86_400_000;

export interface SessionCertificate {
  readonly pem: string;
  readonly fingerprint: string;
  /** The prints of the session with this one in place of the former. */
  readonly certFingerprints: readonly string[];
}

/** @throws ApiError `invalid_request` for a request that cannot be used */
export async function checkedCsr(csrPem: string): Promise<void> {
  await asInvalidRequest(() => requireCsr(csrPem));
}

/** @throws ApiError `invalid_request` for a request that cannot be used */
export async function certificateFor(
  { model }: Provider,
  { identity, session, sessionFingerprint }: OidcSessionFacts,
  csrPem: string,
): Promise<SessionCertificate> {
  const owner = { id: session.id, identity_id: identity.id };
  const row = await asInvalidRequest(() =>
    withCsrErrors(() => model.apiSessions.addCertificate(owner, csrPem, SESSION_CERTIFICATE_MS)),
  );
  const others = session.certFingerprints.filter((print) => print !== sessionFingerprint);
  return { pem: row.cert_pem, fingerprint: row.fingerprint, certFingerprints: [...others, row.fingerprint] };
}

async function asInvalidRequest<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 400) throw error;
    throw oauthError("invalid_request", `invalid CSR: ${error.cause?.message ?? failureText(error)}`);
  }
}
