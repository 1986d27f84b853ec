/** The identity that `ping` dials as. */
import { Context } from "@sallyport/sdk";
import type { CommandContext } from "../context.ts";
import { CommandError, ExitStatus } from "../errors.ts";
import { identityFile, loginMaterial } from "../network/login-material.ts";
import { NetworkStore, type SavedNetwork } from "../network/saved-network.ts";
import { givenLine } from "../terminal/given-text.ts";
import { askSecret, canAsk } from "../terminal/questions.ts";
import type { NetworkAt } from "./same-network.ts";

export interface Dialer extends NetworkAt {
  readonly context: Context;
}

/**
 * Logs in as the identity of a file, or as the one that is logged in to the network.
 * @throws CommandError where the login of the network cannot be repeated without its user
 */
export async function dialerOf(
  file: string | undefined,
  network: string | undefined,
  context: CommandContext,
): Promise<Dialer> {
  const { signal } = context;
  if (file !== undefined) {
    const { controller, ca } = await identityFile(file, context);
    return { controller, ca, context: await Context.load(file, { signal }) };
  }
  const store = new NetworkStore(context.env);
  const name = await store.chosen(network);
  const saved = await store.read(name);
  return { controller: saved.controller, ca: saved.ca, context: await login(name, saved, context) };
}

async function login(name: string, { controller, ca = "", login: way }: SavedNetwork, context: CommandContext) {
  const { signal } = context;
  const oneTimeCode = () => askSecret("One-time code: ", context);
  const options = { signal, ...(canAsk(context) && { oneTimeCode }) };
  switch (way.method) {
    case "identity":
      return await Context.load(way.file, options);
    case "certificate": {
      const { cert = "", key = "" } = await loginMaterial(way, context);
      return await Context.load({ ztAPI: `${controller}/edge/client/v1`, id: { cert, key, ca } }, options);
    }
    case "password": {
      const { username, passwordFile } = way;
      if (passwordFile === undefined && !canAsk(context)) throw needsIdentity(name);
      const password =
        passwordFile === undefined
          ? await askSecret(`Password of ${username}: `, context)
          : await givenLine(passwordFile, context);
      return await Context.login({ controller, ca, username, password }, options);
    }
    case "token": {
      const tokenFile = way.file;
      if (tokenFile === undefined) throw needsIdentity(name);
      return await Context.login({ controller, ca, token: () => givenLine(tokenFile, context) }, options);
    }
  }
}

function needsIdentity(name: string): CommandError {
  return new CommandError(
    `the login to '${name}' cannot be repeated without you, and a dial needs a session of its own: dial as another identity with --identity FILE`,
    ExitStatus.LoggedOut,
  );
}
