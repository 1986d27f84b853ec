import type { CommandContext } from "../context.ts";
import { withIds } from "../entities/references.ts";
import { createEntity, readEntity } from "../entities/write.ts";
import { UsageError } from "../errors.ts";
import { optionName, settableFields } from "../fields/field-option.ts";
import { addFieldOptions, type FieldValues, fieldValues } from "../fields/field-options.ts";
import type { Kind } from "../kinds/kind.ts";
import { standardOf } from "../kinds/standards.ts";
import { withNetwork } from "../network/open-network.ts";
import { entityTable } from "../output/entity-table.ts";
import { documentText } from "../output/format.ts";
import { visible } from "../terminal/visible.ts";
import type { Configure } from "./configure.ts";
import { kindCommand } from "./kind-command.ts";
import { type NetworkOption, type OutputOption, withNetworkOption, withOutputOption } from "./shared-options.ts";

const HELP = `
Fields are options: 'sallyport create KIND --help' lists them. Lists are written a,b or by several options, keys and values key=value. Other entities are
called by name; role selectors are @name, #attribute and #all. A text that begins with @ names a file (@- is standard input, @@ an @).

Examples:
  sallyport create identity laptop --role-attributes clients --enrollment-ott -o jsonpath=$.enrollment.ott.jwt > laptop.jwt
  sallyport create config web-host --config-type-id host.v1 --data '{"protocol":"tcp","address":"localhost","port":8080}'
  sallyport create service web --role-attributes web --configs web-host
  sallyport create service-policy dial --type Dial --identity-roles '#clients' --service-roles @web
  sallyport create edge-router r1 --role-attributes public -o jsonpath=$.enrollmentJwt > r1.jwt
`;

export const configureCreate: Configure = (command, context, words) => {
  command.description("Creates an entity.").addHelpText("after", HELP);
  const below = kindCommand(command, "create", words);
  if (below === undefined) return;
  const { kind } = below;
  if (kind.hasName) below.command.argument("<name>", `name of the new ${kind.name}`);
  addFieldOptions(below.command, kind, "create");
  withOutputOption(withNetworkOption(below.command), "name").action(async (...args: unknown[]) => {
    // Commander gives the arguments, then the options, then the command.
    const options = args.at(-2) as NetworkOption & OutputOption & Record<string, unknown>;
    const name = kind.hasName ? String(args[0]) : undefined;
    await create(kind, name, options, context);
  });
};

async function create(
  kind: Kind,
  name: string | undefined,
  options: NetworkOption & OutputOption & Record<string, unknown>,
  context: CommandContext,
): Promise<void> {
  const given = await fieldValues(kind, "create", options, context);
  const values = completed(kind, name, given);
  await withNetwork(options.network, context, async ({ caller }) => {
    const id = await createEntity(kind, await withIds(kind, values, caller), caller);
    const { stdout } = context;
    if (options.output.kind === "name") {
      stdout.write(`created ${kind.name}/${visible(name ?? id)}${name === undefined ? "" : ` (${id})`}\n`);
      return;
    }
    const entity = await readEntity(kind, id, caller);
    if (options.output.kind === "table")
      stdout.write(await entityTable(kind, [entity], { isWide: options.output.isWide, hasHeading: true }, context));
    else stdout.write(await documentText(entity, options.output, stdout.isTTY === true));
  });
}

/** With the required fields that the user left out. @throws UsageError where only the user can know one, or gave one of another type */
function completed(kind: Kind, name: string | undefined, given: FieldValues): Map<string, unknown> {
  const values = new Map<string, unknown>([...(name === undefined ? [] : [["name", name] as const]), ...given]);
  const type = values.get("typeId");
  for (const field of settableFields(kind, "create")) {
    const isOther = field.only !== undefined && type !== undefined && !field.only.includes(String(type));
    if (values.has(field.name)) {
      if (!isOther) continue;
      throw new UsageError(`--${optionName(field)} is for --type-id ${field.only?.join(" or ")}, not for ${type}`);
    }
    if (field.creation !== "required" || isOther || (field.only !== undefined && type === undefined)) continue;
    const standard = standardOf(kind, field);
    if (standard === undefined) {
      const choices = field.values === undefined ? "" : `: ${field.values.join(", ")}`;
      throw new UsageError(
        `a new ${kind.name} needs --${optionName(field)}${choices}; see 'sallyport create ${kind.name} --help'`,
      );
    }
    values.set(field.name, standard);
  }
  return values;
}
