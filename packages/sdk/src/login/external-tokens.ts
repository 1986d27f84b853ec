/** What a user can do at a network with a token of another provider, besides a login. */
import { ApiError, ApiTransportError, listAll } from "@sallyport/api/client";
import { errorText } from "@sallyport/async";
import { createCsr, createKeyPair, type KeyCurve } from "@sallyport/wire";
import { certificateOf, identityFileOf } from "../enrollment/enroll.ts";
import { AuthenticationError, EnrollmentError } from "../errors.ts";
import type { IdentityFile } from "../identity-file.ts";
import { clientOf } from "./login.ts";

/** A provider whose tokens a network takes, and how a program gets one there. */
export interface ExternalSigner {
  readonly id: string;
  readonly name: string;
  /** Where users log in: an OpenID provider; undefined when the network does not say. */
  readonly authUrl: string | undefined;
  readonly clientId: string | undefined;
  readonly scopes: readonly string[];
  /** What tokens must be made for. */
  readonly audience: string | undefined;
  /** Which of the provider's tokens counts. */
  readonly targetToken: "ACCESS" | "ID";
}

/** The providers that a network announces to every client. @throws AuthenticationError `CONTROLLER_UNREACHABLE`, `LOGIN_FAILED` */
export async function listExternalSigners(controller: string, ca: string): Promise<ExternalSigner[]> {
  const api = clientOf(controller, ca, undefined);
  try {
    const signers = await listAll((query) => api.listExternalJwtSigners({ query }));
    return signers.map(({ id, name, externalAuthUrl, clientId, scopes, audience, targetToken }) => ({
      ...{ id, name, targetToken, scopes: scopes ?? [] },
      authUrl: externalAuthUrl || undefined,
      clientId: clientId || undefined,
      audience: audience || undefined,
    }));
  } catch (cause) {
    const code = cause instanceof ApiTransportError ? "CONTROLLER_UNREACHABLE" : "LOGIN_FAILED";
    throw new AuthenticationError(code, `the signers of the network cannot be read: ${errorText(cause)}`, { cause });
  } finally {
    api.close();
  }
}

/** How a user becomes an identity by a token of another provider. */
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
  const api = clientOf(controller.origin, o.ca, undefined);
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
