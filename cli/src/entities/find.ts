/** Entities by what users call them. */
import { nearestName } from "@sallyport/config-file/nearest-name";
import { CommandError, ExitStatus } from "../errors.ts";
import type { Kind } from "../kinds/kind.ts";
import type { ApiCaller } from "../network/api-caller.ts";
import { type Entity, titleOf } from "./entity.ts";
import { quoted } from "./filter-text.ts";
import { listEntities } from "./list.ts";

/** Names that are looked through for the nearest one. */
const MAX_NAMES = 500;

/**
 * The entity with this name or id. A name counts more than an id.
 *
 * @throws CommandError `NotFound`, with the nearest name
 */
export async function findEntity(kind: Kind, called: string, caller: ApiCaller): Promise<Entity> {
  const [found] = await findEntities(kind, [called], caller);
  if (found === undefined) throw new Error("each name has its entity");
  return found;
}

/** The same for several, in their order. */
export async function findEntities(kind: Kind, called: readonly string[], caller: ApiCaller): Promise<Entity[]> {
  const candidates = kind.isPaged
    ? await listEntities(kind, { filter: filterFor(kind, called) }, caller)
    : await listEntities(kind, {}, caller);
  const found: Entity[] = [];
  for (const name of called) {
    const entity =
      candidates.find((each) => kind.hasName && each.name === name) ?? candidates.find((each) => each.id === name);
    if (entity === undefined) throw await missing(kind, name, caller);
    found.push(entity);
  }
  return found;
}

function filterFor({ hasId, hasName }: Kind, called: readonly string[]): string {
  const list = called.map(quoted).join(", ");
  const parts = [...(hasName ? [`name in [${list}]`] : []), ...(hasId ? [`id in [${list}]`] : [])];
  return parts.join(" or ");
}

async function missing(kind: Kind, name: string, caller: ApiCaller): Promise<CommandError> {
  const what = `no ${kind.name} '${name}'`;
  if (!kind.hasName) {
    return new CommandError(`${what}: ${kind.plural} have no names, only ids`, ExitStatus.NotFound);
  }
  const known = await listEntities(kind, { limit: MAX_NAMES }, caller).catch(() => []);
  const titles = known.map(titleOf);
  const wanted = name.toLowerCase();
  const nearest = nearestName(name, titles) ?? titles.find((title) => title.toLowerCase().includes(wanted));
  const hint = nearest === undefined ? `'sallyport get ${kind.name}' lists them` : `did you mean '${nearest}'?`;
  return new CommandError(`${what}: ${hint}`, ExitStatus.NotFound);
}
