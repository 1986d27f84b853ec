import { mapLimit } from "@sallyport/async";
import { type Entity, titleOf } from "../entities/entity.ts";
import { findEntity } from "../entities/find.ts";
import { listPath } from "../entities/list.ts";
import { namesOfIds } from "../entities/names.ts";
import { kindOf } from "../kinds/find-kind.ts";
import { KINDS } from "../kinds/generated/kinds.ts";
import type { Kind } from "../kinds/kind.ts";
import type { ApiCaller } from "../network/api-caller.ts";
import { withNetwork } from "../network/open-network.ts";
import { description, type Related } from "../output/description.ts";
import type { Configure } from "./configure.ts";
import { type NetworkOption, withNetworkOption } from "./shared-options.ts";

/** Of each list below the entity so many are named. */
const MAX_RELATED = 20;
const AT_ONCE = 4;

const EXAMPLES = `
Examples:
  sallyport describe identity alice
  sallyport describe service-policy web-dial
`;

export const configureDescribe: Configure = (command, context) => {
  command
    .description("Shows all fields of an entity and what belongs to it, with names in place of ids.")
    .argument("<kind>", "such as identity, service, service-policy")
    .argument("<name>", "name or id");
  withNetworkOption(command)
    .addHelpText("after", EXAMPLES)
    .action(async (word: string, called: string, { network }: NetworkOption) => {
      const kind = kindOf(word, "list");
      await withNetwork(network, context, async ({ caller }) => {
        const entity = await findEntity(kind, called, caller);
        const [names, related] = await Promise.all([namesOfIds(kind, entity, caller), relatedOf(kind, entity, caller)]);
        context.stdout.write(await description(kind, entity, { names, related }));
      });
    });
};

/** What lists below the entity name. */
async function relatedOf({ path, related }: Kind, { id }: Entity, caller: ApiCaller): Promise<Related[]> {
  return await mapLimit(related, AT_ONCE, async (name) => {
    const below = KINDS.find(({ plural }) => plural === name);
    const kind = below ?? { plural: name, isPaged: true, hasName: false };
    const list = `${path}/${encodeURIComponent(String(id))}/${name}`;
    const found = await listPath(list, kind, { limit: MAX_RELATED + 1 }, caller);
    return { name, titles: found.slice(0, MAX_RELATED).map(titleOf), hasMore: found.length > MAX_RELATED };
  });
}
