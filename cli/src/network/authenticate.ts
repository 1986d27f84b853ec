/** Begins sessions of the Management API. */
import { ApiError } from "@sallyport/api/client";
import type { CommandContext } from "../context.ts";
import { CommandError, ExitStatus } from "../errors.ts";
import { ask, canAsk } from "../terminal/questions.ts";
import type { ApiCaller } from "./api-caller.ts";
import { MANAGEMENT_API } from "./api-paths.ts";
import type { SavedSession } from "./saved-network.ts";

/** What proves who the user is. */
export type Proof =
  | { readonly method: "password"; readonly username: string; readonly password: string }
  /** The certificate of the connection. */
  | { readonly method: "cert" }
  /** A token of a provider that the network trusts. */
  | { readonly method: "ext-jwt"; readonly token: string };

interface AuthQuery {
  readonly typeId?: string;
  readonly provider?: string;
}

interface NewSession {
  readonly token: string;
  readonly identity?: { readonly name?: string };
  readonly authQueries?: readonly AuthQuery[] | null;
}

/**
 * Begins a session, with a one-time code of the user where the network asks for one. The caller has it from then on.
 *
 * @throws CommandError `LoggedOut` when the network refuses the proof
 */
export async function authenticate(caller: ApiCaller, proof: Proof, context: CommandContext): Promise<SavedSession> {
  const { method } = proof;
  const session = await begin(caller, proof);
  caller.useSession(session.token);
  const queries = session.authQueries ?? [];
  if (queries.some(({ typeId }) => typeId === "EXT-JWT")) {
    throw new CommandError(
      `the authentication policy of this identity asks for a token beside the ${method}: log in with an identity whose policy does not`,
      ExitStatus.LoggedOut,
    );
  }
  if (queries.length > 0) await proveCode(caller, context);
  return { token: session.token, identity: session.identity?.name ?? "" };
}

async function begin(caller: ApiCaller, proof: Proof): Promise<NewSession> {
  const { method } = proof;
  const body = method === "password" ? { username: proof.username, password: proof.password } : {};
  const headers = method === "ext-jwt" ? { authorization: `Bearer ${proof.token}` } : {};
  try {
    const path = `${MANAGEMENT_API}/authenticate`;
    const { data } = await caller.json({ method: "POST", path, query: { method }, body, headers, isLogin: true });
    return data as NewSession;
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 401) throw error;
    const reason = {
      password: "the user name or the password is wrong, or the identity may not log in by password",
      cert: "the network knows no identity with this certificate, or it may not log in",
      "ext-jwt": "no signer of the network accepts this token, or it names no identity",
    }[method];
    throw new CommandError(`${caller.controller} refused the login: ${reason}`, ExitStatus.LoggedOut, { cause: error });
  }
}

async function proveCode(caller: ApiCaller, context: CommandContext): Promise<void> {
  if (!canAsk(context)) {
    throw new CommandError(
      "the network asks for a one-time code, and there is no terminal to ask for it: log in at a terminal",
      ExitStatus.LoggedOut,
    );
  }
  for (let question = "One-time code: "; ; question = "That code was wrong. One-time code: ") {
    const code = (await ask(question, context)).trim();
    if (code === "") continue;
    try {
      const path = `${MANAGEMENT_API}/authenticate/mfa`;
      await caller.json({ method: "POST", path, body: { code }, isLogin: true });
      return;
    } catch (error) {
      if (!(error instanceof ApiError) || error.code !== "MFA_INVALID_TOKEN") throw error;
    }
  }
}
