import type { CommandContext } from "../context.ts";
import type { Entity } from "../entities/entity.ts";
import { titleOf } from "../entities/entity.ts";
import { findEntities } from "../entities/find.ts";
import { listEntities } from "../entities/list.ts";
import { UsageError } from "../errors.ts";
import { kindOf } from "../kinds/find-kind.ts";
import type { Kind } from "../kinds/kind.ts";
import { withNetwork } from "../network/open-network.ts";
import { entityTable } from "../output/entity-table.ts";
import { documentText, type Format } from "../output/format.ts";
import { visible } from "../terminal/visible.ts";
import type { Configure } from "./configure.ts";
import {
  type NetworkOption,
  type OutputOption,
  once,
  positiveNumber,
  withNetworkOption,
  withOutputOption,
} from "./shared-options.ts";

interface GetOptions extends NetworkOption, OutputOption {
  readonly filter?: string;
  readonly limit?: number;
  readonly watch?: true;
  readonly headings: boolean;
}

const EXAMPLES = `
Examples:
  sallyport get identities
  sallyport get services web db -o yaml
  sallyport get identities --filter 'anyOf(roleAttributes) = "east" sort by createdAt desc'
  sallyport get edge-router r1 -o 'jsonpath=$.enrollmentJwt' > r1.jwt
  sallyport get terminators -w

Filters are described in docs/api.md, JSON path queries in RFC 9535. Several entities are a list, one named entity is an object.
`;

export const configureGet: Configure = (command, context) => {
  command
    .description("Lists the entities of a kind, or shows those with the names or ids.")
    .argument("<kind>", "such as identity, service, service-policy")
    .argument("[names...]", "names or ids")
    .option("--filter <filter>", "only entities that match", once("filter"))
    .option("--limit <number>", "at most so many", positiveNumber)
    .option("-w, --watch", "go on and print what changes")
    .option("--no-headings", "leave out the first line of tables");
  withOutputOption(withNetworkOption(command), "table")
    .addHelpText("after", EXAMPLES)
    .action(async (word: string, names: readonly string[], options: GetOptions) => {
      const kind = kindOf(word, "list");
      if (names.length > 0 && (options.filter !== undefined || options.limit !== undefined))
        throw new UsageError("--filter and --limit go with lists: leave out the names");
      await withNetwork(options.network, context, async ({ caller }) => {
        const read = async (): Promise<Entity[]> =>
          names.length > 0 ? await findEntities(kind, names, caller) : await listEntities(kind, options, caller);
        if (options.watch === true) {
          const { watchEntities } = await import("../output/watch.ts");
          const { output, headings: hasHeadings } = options;
          return await watchEntities({ kind, read, format: output, hasHeadings }, context);
        }
        const found = await read();
        const shown = names.length === 1 ? found[0] : found;
        context.stdout.write(await textOf(kind, found, shown, options, context));
        if (found.length === 0) context.stderr.write(`no ${kind.plural}\n`);
      });
    });
};

async function textOf(
  kind: Kind,
  found: readonly Entity[],
  shown: unknown,
  { output, headings }: { readonly output: Format; readonly headings: boolean },
  context: CommandContext,
): Promise<string> {
  switch (output.kind) {
    case "table":
      return found.length === 0
        ? ""
        : await entityTable(kind, found, { isWide: output.isWide, hasHeading: headings }, context);
    case "name":
      return found.map((entity) => `${kind.name}/${visible(titleOf(entity))}\n`).join("");
    default:
      return await documentText(shown, output, context.stdout.isTTY === true);
  }
}
