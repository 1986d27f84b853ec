import { findEntity } from "../entities/find.ts";
import { withIds } from "../entities/references.ts";
import { changeEntity } from "../entities/write.ts";
import { UsageError } from "../errors.ts";
import { addFieldOptions, fieldValues } from "../fields/field-options.ts";
import { withNetwork } from "../network/open-network.ts";
import { visible } from "../terminal/visible.ts";
import type { Configure } from "./configure.ts";
import { kindCommand } from "./kind-command.ts";
import { type NetworkOption, withNetworkOption } from "./shared-options.ts";

const HELP = `
Fields are options, as with 'create'; all others stay as they are. Lists and maps are replaced as a whole. 'sallyport patch KIND --help' lists the fields.

Examples:
  sallyport patch identity laptop --role-attributes clients,east
  sallyport patch service-policy dial --service-roles @web,@db
  sallyport patch edge-router r1 --disabled
  sallyport patch edge-router r1 --no-disabled
  sallyport patch service web --name website
`;

export const configurePatch: Configure = (command, context, words) => {
  command.description("Changes fields of an entity.").addHelpText("after", HELP);
  const below = kindCommand(command, "patch", words);
  if (below === undefined) return;
  const { kind } = below;
  below.command.argument("<name>", "name or id");
  addFieldOptions(below.command, kind, "patch");
  withNetworkOption(below.command).action(async (called: string, options: NetworkOption & Record<string, unknown>) => {
    const values = await fieldValues(kind, "patch", options, context);
    if (values.size === 0)
      throw new UsageError(`nothing to change: name a field; see 'sallyport patch ${kind.name} --help'`);
    await withNetwork(options.network, context, async ({ caller }) => {
      const entity = await findEntity(kind, called, caller);
      await changeEntity(kind, entity, await withIds(kind, values, caller), caller);
      context.stdout.write(`changed ${kind.name}/${visible(called)}\n`);
    });
  });
};
