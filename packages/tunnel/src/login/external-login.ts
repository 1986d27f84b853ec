import { createReadStream } from "node:fs";
import { text } from "node:stream/consumers";
import { errorText } from "@sallyport/async";
import { AuthenticationError, type ExternalSigner, listExternalSigners } from "@sallyport/sdk";
import type { JoinedIdentity } from "./joined-identity.ts";
import { printable, type User } from "./terminal.ts";

/** A token that proves the user, and who signed it. */
interface ExternalToken {
  readonly token: string;
  /** Undefined when the token itself says it. */
  readonly signerId: string | undefined;
}

/** Longer than every token that a controller takes. */
export const MAX_TOKEN_FILE_CHARACTERS = 64 * 1024;

interface ExternalTokenOptions {
  readonly user: User;
  /** Identity file that needs the token, for messages. */
  readonly file: string;
  readonly signal: AbortSignal;
}

/**
 * A token for a login: what its file holds now, or one that the user gets in a browser.
 *
 * @throws AuthenticationError `EXTERNAL_LOGIN_FAILED`, `PROVIDER_UNREACHABLE`, or the signal's reason
 */
export async function externalToken(
  { controller, ca, login }: JoinedIdentity,
  o: ExternalTokenOptions,
): Promise<ExternalToken> {
  if (login.tokenFile !== undefined) {
    const token = await tokenOfFile(login.tokenFile);
    const signer =
      login.signer === undefined ? undefined : signerNamed(await listExternalSigners(controller, ca), login.signer);
    return { token, signerId: signer?.id };
  }
  const signer = chosenSigner(await listExternalSigners(controller, ca), login.signer, controller);
  const { loginAtProvider, ProviderLoginError } = await import("./provider-login.ts");
  try {
    const token = await loginAtProvider(signer, { isDevice: login.device === true, ...o });
    return { token, signerId: signer.id };
  } catch (error) {
    o.signal.throwIfAborted();
    if (error instanceof ProviderLoginError && error.isUnreachable) {
      throw new AuthenticationError("PROVIDER_UNREACHABLE", error.message, { cause: error });
    }
    throw failed(errorText(error), error);
  }
}

/** Read at each login: its owner puts the next token there before the former ends. */
async function tokenOfFile(file: string): Promise<string> {
  const stream = createReadStream(file, { end: MAX_TOKEN_FILE_CHARACTERS + 1 });
  const content = await text(stream).catch((cause: unknown) => {
    throw failed(`the token file ${file} cannot be read: ${errorText(cause)}`, cause);
  });
  const token = content.trim();
  if (token === "") throw failed(`the token file ${file} is empty`);
  if (token.length > MAX_TOKEN_FILE_CHARACTERS || /\s/.test(token)) {
    throw failed(`expected one token in the token file ${file}, found something else`);
  }
  return token;
}

/** A network does not say why it refuses a token. What an administrator needs to find out, without the token itself. */
export function describedToken(token: string): string {
  const claims = claimsOf(token);
  if (claims === undefined) return "What was given is no token of the form JWT.";
  const { sub, iss, aud, exp } = claims;
  const ended = typeof exp === "number" && exp * 1_000 < Date.now() ? `, and ended ${endOf(exp)}` : "";
  return `The token has the subject ${shown(sub)}, the issuer ${shown(iss)} and the audience ${shown(aud)}${ended}.`;
}

const MAX_CLAIM_CHARACTERS = 200;

function shown(claim: unknown): string {
  return claim === undefined ? "(none)" : printable(JSON.stringify(claim)).slice(0, MAX_CLAIM_CHARACTERS);
}

/** The clock may be what is wrong. */
function endOf(seconds: number): string {
  const minutes = Math.ceil((Date.now() / 1_000 - seconds) / 60);
  return `${minutes} min ago by the clock of this machine`;
}

function claimsOf(token: string): Readonly<Record<string, unknown>> | undefined {
  const [, payload = ""] = token.split(".");
  try {
    const claims: unknown = JSON.parse(Buffer.from(payload, "base64url").toString());
    return typeof claims === "object" && claims !== null ? { ...claims } : undefined;
  } catch {
    return undefined;
  }
}

function signerNamed(signers: readonly ExternalSigner[], name: string): ExternalSigner {
  const signer = signers.find(({ id }) => id === name) ?? signers.find((each) => each.name === name);
  if (signer !== undefined) return signer;
  const known = signers.map((each) => each.name).join(", ");
  throw failed(`the network has no signer ${name}; ${known === "" ? "it has none at all" : `it has ${known}`}`);
}

/** One at whose provider users can log in. */
type LoginSigner = ExternalSigner & { readonly authUrl: string; readonly clientId: string };

function isLoginSigner(signer: ExternalSigner): signer is LoginSigner {
  return signer.authUrl !== undefined && signer.clientId !== undefined;
}

/** The signer that is named, else the only one at whose provider users can log in. */
function chosenSigner(signers: readonly ExternalSigner[], name: string | undefined, controller: string): LoginSigner {
  if (name !== undefined) {
    const named = signerNamed(signers, name);
    if (isLoginSigner(named)) return named;
    throw failed(
      `users cannot log in by the signer ${named.name}: it needs externalAuthUrl and clientId; an administrator can set them`,
    );
  }
  const usable = signers.filter(isLoginSigner);
  const [signer] = usable;
  if (signer !== undefined && usable.length === 1) return signer;
  const names = usable.map((each) => each.name).join(", ");
  const found = names === "" ? "there is none" : `there are ${names}: name one with --signer`;
  throw failed(`expected one signer with externalAuthUrl and clientId at ${controller}; ${found}`);
}

/** A login did not get as far as the network. */
function failed(text: string, cause?: unknown): AuthenticationError {
  return new AuthenticationError("EXTERNAL_LOGIN_FAILED", text, { cause });
}
