import { ApiError, ApiTransportError, createClient } from "@sallyport/api/client";
import { controllerTrust, createCsr, createKeyPair, type KeyCurve } from "@sallyport/wire";
import { EnrollmentError } from "../errors.ts";
import type { IdentityFile } from "../identity-file.ts";
import { certificateOf, identityFileOf } from "./enroll.ts";

/** How somebody becomes an identity by a token of another provider. */
export interface TokenEnrollOptions {
  /** `https://host:port` */
  readonly controller: string;
  /** PEM bundle that the controller is checked against. */
  readonly ca: string;
  /** Token of a signer that allows to enroll to certificates. */
  readonly token: string;
  /** Id of the signer; the one that the token names when left out. */
  readonly signerId?: string | undefined;
  /** Curve of the new key; `P-256` when left out. */
  readonly curve?: KeyCurve;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Turns a token of another provider into an identity with a certificate (docs/protocol/enrollment.md, "By a token of an external signer"). The private
 * key never leaves this machine.
 *
 * @returns the content of an identity file
 * @throws EnrollmentError `ENROLLMENT_REFUSED`, `UNREACHABLE`
 */
export async function enrollByToken(o: TokenEnrollOptions): Promise<IdentityFile> {
  const controller = new URL(o.controller);
  const { keyPem } = await createKeyPair(o.curve);
  // The controller gives the identity its name and id; the request proves the key.
  const csr = await createCsr({ commonName: "identity", subject: { C: "US", O: "Sallyport" }, keyPem });
  const api = createClient("client", { baseUrl: controller.origin, tls: controllerTrust(o.ca) });
  try {
    const headers: Record<string, string> = { authorization: `Bearer ${o.token}` };
    if (o.signerId !== undefined) headers["ziti-token-issuer-id"] = o.signerId;
    const options = o.signal === undefined ? { headers } : { headers, signal: o.signal };
    const { data } = await api.enrollToken({ body: { clientCsr: csr } }, options);
    const certPem = certificateOf(data, keyPem, controller);
    const caPem = typeof data.ca === "string" && data.ca.trim() !== "" ? data.ca : o.ca;
    return identityFileOf(controller, { keyPem, certPem, caPem });
  } catch (error) {
    if (error instanceof ApiTransportError) throw new EnrollmentError("UNREACHABLE", error.message, { cause: error });
    if (!(error instanceof ApiError)) throw error;
    throw new EnrollmentError("ENROLLMENT_REFUSED", refusal(controller.host, error), { cause: error });
  } finally {
    api.close();
  }
}

function refusal(host: string, { code, message, cause }: ApiError): string {
  const why = cause?.message === undefined ? message : `${message}: ${cause.message}`;
  const what = `${host} refused the enrollment: ${code} (${why})`;
  if (code === "ENROLLMENT_IDENTITY_ALREADY_ENROLLED") {
    return `${what}. The identity exists: use its identity file, or have it deleted first`;
  }
  if (code === "INVALID_ENROLLMENT_NOT_ALLOWED") return `${what}. An administrator can allow it at the signer`;
  return what;
}
