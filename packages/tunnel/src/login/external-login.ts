import { readFile } from "node:fs/promises";
import { errorText } from "@sallyport/async";
import { AuthenticationError, type ExternalSigner, listExternalSigners } from "@sallyport/sdk";
import type { JoinedIdentity } from "./joined-identity.ts";
import type { User } from "./terminal.ts";

/** A token that proves the user, and who signed it. */
export interface ExternalToken {
  readonly token: string;
  /** Undefined when the token itself says it. */
  readonly signerId: string | undefined;
}

/** Longer than every token that a controller takes. */
export const MAX_TOKEN_FILE_CHARACTERS = 64 * 1024;

/**
 * A token for a login: what its file holds now, or one that the user gets in a browser.
 *
 * @throws AuthenticationError, or the signal's reason
 */
export async function externalToken(
  { controller, ca, login }: JoinedIdentity,
  user: User,
  signal: AbortSignal,
): Promise<ExternalToken> {
  if (login.tokenFile !== undefined) {
    const token = await tokenOfFile(login.tokenFile);
    const signer =
      login.signer === undefined ? undefined : signerNamed(await listExternalSigners(controller, ca), login.signer);
    return { token, signerId: signer?.id };
  }
  const signer = chosenSigner(await listExternalSigners(controller, ca), login.signer, controller);
  const { loginAtProvider } = await import("./provider-login.ts");
  try {
    const token = await loginAtProvider(signer, { isDevice: login.device === true, user, signal });
    return { token, signerId: signer.id };
  } catch (error) {
    signal.throwIfAborted();
    throw failed(errorText(error), error);
  }
}

/** Read at each login: its owner puts the next token there before the former ends. */
async function tokenOfFile(file: string): Promise<string> {
  const text = await readFile(file, "utf8").catch((cause: unknown) => {
    throw failed(`the token file ${file} cannot be read: ${errorText(cause)}`, cause);
  });
  const token = text.trim();
  if (token === "") throw failed(`the token file ${file} is empty`);
  if (token.length > MAX_TOKEN_FILE_CHARACTERS || /\s/.test(token)) {
    throw failed(`expected one token in the token file ${file}, found something else`);
  }
  return token;
}

function signerNamed(signers: readonly ExternalSigner[], name: string): ExternalSigner {
  const signer = signers.find(({ id }) => id === name) ?? signers.find((each) => each.name === name);
  if (signer !== undefined) return signer;
  const known = signers.map((each) => each.name).join(", ");
  throw failed(`the network has no signer ${name}; ${known === "" ? "it has none at all" : `it has ${known}`}`);
}

/** A signer at whose provider the user can log in. */
function chosenSigner(
  signers: readonly ExternalSigner[],
  name: string | undefined,
  controller: string,
): ExternalSigner & { readonly authUrl: string; readonly clientId: string } {
  const isUsable = (signer: ExternalSigner) => signer.authUrl !== undefined && signer.clientId !== undefined;
  const usable = signers.filter(isUsable);
  if (name === undefined && usable.length !== 1) {
    const names = usable.map((signer) => signer.name).join(", ");
    const found = names === "" ? "there is none" : `there are ${names}: name one with --signer`;
    throw failed(`expected one signer with externalAuthUrl and clientId at ${controller}; ${found}`);
  }
  const signer = name === undefined ? usable[0] : signerNamed(signers, name);
  const { authUrl, clientId } = signer ?? {};
  if (signer === undefined || authUrl === undefined || clientId === undefined) {
    throw failed(
      `users cannot log in by the signer ${signer?.name}: it needs externalAuthUrl and clientId; an administrator can set them`,
    );
  }
  return { ...signer, authUrl, clientId };
}

/** A login did not get as far as the network. */
function failed(text: string, cause?: unknown): AuthenticationError {
  return new AuthenticationError("EXTERNAL_LOGIN_FAILED", text, { cause });
}
