import { errorText } from "@sallyport/async";
import { titleOf } from "../entities/entity.ts";
import { findEntities } from "../entities/find.ts";
import { deleteEntity } from "../entities/write.ts";
import { CommandError, UsageError } from "../errors.ts";
import { kindOf } from "../kinds/find-kind.ts";
import { withNetwork } from "../network/open-network.ts";
import { canAsk, confirm } from "../terminal/questions.ts";
import { visible } from "../terminal/visible.ts";
import type { Configure } from "./configure.ts";
import { type NetworkOption, withNetworkOption } from "./shared-options.ts";

const EXAMPLES = `
Examples:
  sallyport delete service web
  sallyport delete identities laptop phone --yes
`;

export const configureDelete: Configure = (command, context) => {
  command
    .description("Deletes entities. Asks first; without a terminal it needs --yes.")
    .argument("<kind>", "such as identity, service, service-policy")
    .argument("<names...>", "names or ids")
    .option("-y, --yes", "do not ask");
  withNetworkOption(command)
    .addHelpText("after", EXAMPLES)
    .action(
      async (word: string, given: readonly string[], { network, yes }: NetworkOption & { readonly yes?: true }) => {
        const kind = kindOf(word, "delete");
        const names = [...new Set(given)];
        if (yes !== true && !canAsk(context)) throw new UsageError("there is no terminal to ask: add --yes");
        await withNetwork(network, context, async ({ name, caller }) => {
          const entities = await findEntities(kind, names, caller);
          const titles = entities.map((entity) => visible(titleOf(entity)));
          const question = `Delete ${entities.length === 1 ? kind.name : kind.plural} ${titles.join(", ")} of ${name}?`;
          if (yes !== true && !(await confirm(question, context))) throw new CommandError("nothing was deleted");
          let failures = 0;
          for (const [at, entity] of entities.entries()) {
            try {
              await deleteEntity(kind, String(entity.id), caller);
              context.stdout.write(`deleted ${kind.name}/${titles[at]}\n`);
            } catch (error) {
              if (entities.length === 1) throw error;
              failures++;
              context.stderr.write(`sallyport: ${kind.name}/${titles[at]}: ${visible(errorText(error))}\n`);
            }
          }
          if (failures > 0) throw new CommandError(`${failures} of ${entities.length} ${kind.plural} were not deleted`);
        });
      },
    );
};
