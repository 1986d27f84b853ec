/** Opens the network that a command works on. */
import type { CommandContext } from "../context.ts";
import { CommandError, ExitStatus } from "../errors.ts";
import { ApiCaller } from "./api-caller.ts";
import { authenticate } from "./authenticate.ts";
import { loginMaterial } from "./login-material.ts";
import { otherControllers, tellOfSwitch } from "./other-controllers.ts";
import { NetworkStore, type SavedNetwork } from "./saved-network.ts";

export interface OpenNetwork {
  readonly name: string;
  readonly saved: SavedNetwork;
  readonly caller: ApiCaller;
}

/**
 * Does work on the chosen network. Where the session has ended and the login needs no user, a new one is begun and saved.
 *
 * @param named by the user's option; the current network when absent
 * @throws CommandError when no network is chosen or there is no session
 */
export async function withNetwork<T>(
  named: string | undefined,
  context: CommandContext,
  work: (network: OpenNetwork) => Promise<T>,
): Promise<T> {
  const store = new NetworkStore(context.env);
  const name = await store.chosen(named);
  const saved = await store.read(name);
  if (await store.isForeign(name))
    context.stderr.write(`sallyport: warning: other users can read ${store.fileOf(name)}: chmod 600 it\n`);
  const { cert, key, proof } = await loginMaterial(saved.login, context);
  const { controller, others, ca } = saved;
  const caller = new ApiCaller({ controller, others, ca, cert, key }, context.signal);
  caller.onSwitch = (former, next) => tellOfSwitch(context, former, next);
  const renew = async (): Promise<string | undefined> => {
    if (proof === undefined) return undefined;
    const session = await authenticate(caller, proof, context);
    await store.write(name, { ...saved, ...(await otherControllers(caller, controller)), session });
    return session.token;
  };
  try {
    if (saved.session !== undefined) caller.useSession(saved.session.token, renew);
    else if ((await renew()) === undefined) throw loggedOut(name);
    return await work({ name, saved, caller });
  } finally {
    caller.close();
  }
}

function loggedOut(name: string): CommandError {
  return new CommandError(
    `not logged in to '${name}': log in with 'sallyport login --network ${name}'`,
    ExitStatus.LoggedOut,
  );
}
