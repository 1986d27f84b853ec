import type { Entity } from "../entities/entity.ts";
import { MANAGEMENT_API } from "../network/api-paths.ts";
import { withNetwork } from "../network/open-network.ts";
import { documentText } from "../output/format.ts";
import { table } from "../output/table.ts";
import type { Configure } from "./configure.ts";
import { type NetworkOption, type OutputOption, withNetworkOption, withOutputOption } from "./shared-options.ts";

const EXAMPLES = `
Examples:
  sallyport whoami
  sallyport whoami -n staging -o jsonpath=$.identity
`;

export const configureWhoami: Configure = (command, context) => {
  command.description("Shows the network, the identity that is logged in, and its session.");
  withOutputOption(withNetworkOption(command), "table")
    .addHelpText("after", EXAMPLES)
    .action(async ({ network, output }: NetworkOption & OutputOption) => {
      await withNetwork(network, context, async ({ name, saved, caller }) => {
        const { data: identity } = await caller.json({ method: "GET", path: `${MANAGEMENT_API}/current-identity` });
        const { data: session } = await caller.json({ method: "GET", path: `${MANAGEMENT_API}/current-api-session` });
        const { name: identityName, id, isAdmin } = identity as Entity;
        const shown = {
          network: name,
          controller: saved.controller,
          identity: identityName,
          id,
          isAdmin,
          login: saved.login.method,
          sessionExpiresAt: (session as Entity).expiresAt,
        };
        const { stdout } = context;
        if (output.kind === "table") {
          const rows = [
            ["Network:", name],
            ["Controller:", saved.controller],
            ["Identity:", `${identityName} (${id})`],
            ["Administrator:", isAdmin === true ? "yes" : "no"],
            ["Login:", saved.login.method],
            ["Session:", `until ${shown.sessionExpiresAt} unless it is used`],
          ];
          stdout.write(await table(["", ""], rows, { hasHeading: false }));
        } else if (output.kind === "name") stdout.write(`identity/${identityName}\n`);
        else stdout.write(await documentText(shown, output, stdout.isTTY === true));
      });
    });
};
