/** Prints entities again when they change. */
import { isDeepStrictEqual } from "node:util";
import { pause } from "@sallyport/async";
import type { CommandContext } from "../context.ts";
import { type Entity, titleOf } from "../entities/entity.ts";
import { CommandError, ExitStatus } from "../errors.ts";
import type { Kind } from "../kinds/kind.ts";
import { visible } from "../terminal/visible.ts";
import { entityTable } from "./entity-table.ts";
import { documentText, type Format } from "./format.ts";

/** The controller is asked again after so long. */
const PAUSE_MS = 2_000;

export interface Watch {
  readonly kind: Kind;
  readonly read: () => Promise<Entity[]>;
  readonly format: Format;
  readonly hasHeadings: boolean;
}

/** Runs until the user interrupts. An entity that was deleted is printed once more, as a line of its own on the standard error. */
export async function watchEntities(
  { kind, read, format, hasHeadings }: Watch,
  context: CommandContext,
): Promise<void> {
  let known = new Map<unknown, Entity>();
  for (let isFirst = true; !context.signal.aborted; isFirst = false) {
    const found = new Map(
      (await read().catch(retried(isFirst, known, context))).map((each) => [each.id ?? each.name, each]),
    );
    const changed = [...found].flatMap(([id, entity]) => (isDeepStrictEqual(known.get(id), entity) ? [] : [entity]));
    const gone = [...known].flatMap(([id, entity]) => (found.has(id) ? [] : [entity]));
    if (changed.length > 0) await print(changed, isFirst && hasHeadings);
    for (const entity of gone) context.stderr.write(`deleted: ${kind.name}/${visible(titleOf(entity))}\n`);
    known = found;
    await pause(PAUSE_MS, context.signal);
  }

  async function print(entities: readonly Entity[], hasHeading: boolean): Promise<void> {
    const { stdout } = context;
    if (format.kind === "table")
      stdout.write(await entityTable(kind, entities, { isWide: format.isWide, hasHeading }, context));
    else if (format.kind === "name")
      stdout.write(entities.map((each) => `${kind.name}/${visible(titleOf(each))}\n`).join(""));
    else
      for (const each of entities) {
        const text = await documentText(each, format, stdout.isTTY === true);
        stdout.write(format.kind === "yaml" ? `---\n${text}` : text);
      }
  }
}

/** A controller that is away for a while ends no watch that has begun; it is told once in each case. */
function retried(isFirst: boolean, known: ReadonlyMap<unknown, Entity>, { stderr }: CommandContext) {
  return (error: unknown): Entity[] => {
    if (isFirst || !(error instanceof CommandError) || error.status !== ExitStatus.Unreachable) throw error;
    stderr.write(`${visible(error.message)}; asking again\n`);
    return [...known.values()];
  };
}
