import { errorText } from "@sallyport/async";
import { ApiCaller } from "../network/api-caller.ts";
import { MANAGEMENT_API } from "../network/api-paths.ts";
import { loginMaterial } from "../network/login-material.ts";
import { NetworkStore } from "../network/saved-network.ts";
import { visible } from "../terminal/visible.ts";
import type { Configure } from "./configure.ts";

const EXAMPLES = `
Examples:
  sallyport logout
  sallyport logout production
`;

export const configureLogout: Configure = (command, context) => {
  command
    .description("Ends the session and forgets the network, with the authority that was trusted.")
    .argument("[network]", "name of the network; the current one when absent")
    .addHelpText("after", EXAMPLES)
    .action(async (named: string | undefined) => {
      const store = new NetworkStore(context.env);
      const name = await store.chosen(named);
      const { session, ...saved } = await store.read(name);
      if (session !== undefined) {
        // Certificate files may be gone by now; the session needs none of them.
        const material = await loginMaterial(saved.login, context).catch(() => undefined);
        const { cert, key } = material ?? {};
        const caller = new ApiCaller({ ...saved, cert, key }, context.signal);
        caller.useSession(session.token);
        try {
          await caller.send({ method: "DELETE", path: `${MANAGEMENT_API}/current-api-session` });
        } catch (error) {
          context.stderr.write(
            `sallyport: warning: the session was not ended, and ends by itself when it is not used: ${visible(errorText(error))}\n`,
          );
        } finally {
          caller.close();
        }
      }
      await store.remove(name);
      context.stdout.write(`logged out of ${name}\n`);
    });
};
