import { ApiTransportError, listAll } from "@sallyport/api/client";
import { errorText } from "@sallyport/async";
import { AuthenticationError } from "../errors.ts";
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

/** The providers that a network tells everybody of. @throws AuthenticationError `CONTROLLER_UNREACHABLE`, `LOGIN_FAILED` */
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
    throw new AuthenticationError(code, `${controller} does not say who signs tokens: ${errorText(cause)}`, { cause });
  } finally {
    api.close();
  }
}
