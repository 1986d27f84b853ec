import type { CommandContext } from "../context.ts";
import { differences, type Editable, editableOf, editableText, editedValues } from "../editing/editable.ts";
import { EditedFile, editorOf } from "../editing/editor.ts";
import type { Entity } from "../entities/entity.ts";
import { findEntity } from "../entities/find.ts";
import { namesOfIds } from "../entities/names.ts";
import { withIds } from "../entities/references.ts";
import { changeEntity, isOutdated, readVersion } from "../entities/write.ts";
import { CommandError, ExitStatus } from "../errors.ts";
import { kindOf } from "../kinds/find-kind.ts";
import type { Kind } from "../kinds/kind.ts";
import type { ApiCaller } from "../network/api-caller.ts";
import { withNetwork } from "../network/open-network.ts";
import { canAsk, confirm } from "../terminal/questions.ts";
import { visible } from "../terminal/visible.ts";
import type { Configure } from "./configure.ts";
import { type NetworkOption, withNetworkOption } from "./shared-options.ts";

const HELP = `
Only fields that you change are sent. If another administrator changed one of them meanwhile, nothing is sent: you see both values and edit again. The editor is
that of VISUAL or EDITOR, else vi. A text that cannot be used stays in its file.

Examples:
  sallyport edit service-policy dial
  EDITOR='code --wait' sallyport edit config web-host
`;

export const configureEdit: Configure = (command, context) => {
  command
    .description("Edits an entity as YAML in your editor.")
    .argument("<kind>", "such as identity, service, service-policy")
    .argument("<name>", "name or id");
  withNetworkOption(command)
    .addHelpText("after", HELP)
    .action(async (word: string, called: string, { network }: NetworkOption) => {
      const kind = kindOf(word, "patch");
      await withNetwork(network, context, async ({ caller }) => {
        const entity = await findEntity(kind, called, caller);
        editorOf(context);
        const file = await EditedFile.make(`${kind.name}-${called}.yml`);
        const isDone = await new Edit(kind, file, caller, context).run(await stateOf(kind, entity, caller));
        await file.remove();
        context.stdout.write(`${isDone ? "changed" : "did not change"} ${kind.name}/${visible(called)}\n`);
      });
    });
};

/** An entity as it was at some moment. */
interface State {
  readonly entity: Entity;
  readonly editable: Editable;
}

async function stateOf(kind: Kind, entity: Entity, caller: ApiCaller): Promise<State> {
  return { entity, editable: editableOf(kind, entity, await namesOfIds(kind, entity, caller)) };
}

class Edit {
  readonly #kind: Kind;
  readonly #file: EditedFile;
  readonly #caller: ApiCaller;
  readonly #context: CommandContext;

  constructor(kind: Kind, file: EditedFile, caller: ApiCaller, context: CommandContext) {
    this.#kind = kind;
    this.#file = file;
    this.#caller = caller;
    this.#context = context;
  }

  /** Whether something was changed. @throws CommandError naming the file with the user's text */
  async run(first: State): Promise<boolean> {
    const { name, id } = first.entity;
    const head = [`${this.#kind.name} ${visible(String(name ?? id))}. Save and close to change it.`];
    let base = first;
    let text = await editableText(base.editable, head);
    for (;;) {
      const edited = await this.#file.edit(text, this.#context);
      try {
        const wanted = differences(base.editable, await editedValues(this.#kind, edited, base.editable));
        if (wanted.size === 0) return false;
        const met = await this.#change(String(id), base, wanted);
        if (met === undefined) return true;
        const { now, conflicts } = met;
        // What the other administrator did is the new ground; on it lies what this one wants.
        base = now;
        text = await editableText(new Map([...now.editable, ...wanted]), head, notesOf(conflicts));
        await this.#file.keep(text);
        await this.#again(new CommandError(conflictText(conflicts), ExitStatus.Conflict));
      } catch (error) {
        if (error instanceof EditEnded) throw error;
        text = edited;
        await this.#again(error as Error);
      }
    }
  }

  /** Changes the entity as it is now, unless another administrator changed one of the fields: then the entity and these fields. */
  async #change(id: string, base: State, wanted: Editable): Promise<Met | undefined> {
    for (let attempt = 1; ; attempt++) {
      const { entity, etag } = await readVersion(this.#kind, id, this.#caller);
      const now = await stateOf(this.#kind, entity, this.#caller);
      const conflicts = conflictsBetween(base.editable, wanted, now.editable);
      if (conflicts.size > 0) return { now, conflicts };
      const values = await withIds(this.#kind, wanted, this.#caller);
      try {
        await changeEntity(this.#kind, entity, values, this.#caller, etag);
        return undefined;
      } catch (error) {
        // Changed since the line above: another look says whether in the same fields.
        if (!isOutdated(error) || attempt === ATTEMPTS) throw error;
      }
    }
  }

  /** Asks whether to go on after a failure. @throws EditEnded when the user does not, or cannot be asked */
  async #again(error: Error): Promise<void> {
    const status = error instanceof CommandError ? error.status : ExitStatus.Failed;
    if (canAsk(this.#context)) {
      this.#context.stderr.write(`sallyport: ${visible(error.message)}\n`);
      if (await confirm("Edit again?", this.#context)) return;
      throw new EditEnded(`nothing was changed; your text is in ${this.#file.path}`, status);
    }
    throw new EditEnded(`${error.message}; nothing was changed, and your text is in ${this.#file.path}`, status);
  }
}

/** Nothing was changed, and the user's text is kept. */
class EditEnded extends CommandError {}

/** So often an entity may change between its reading and its change. */
const ATTEMPTS = 10;

interface Met {
  readonly now: State;
  readonly conflicts: ReadonlyMap<string, Conflict>;
}

interface Conflict {
  readonly before: unknown;
  readonly theirs: unknown;
  readonly mine: unknown;
}

/** The fields that both changed, to different values. */
function conflictsBetween(base: Editable, mine: Editable, now: Editable): Map<string, Conflict> {
  const theirs = differences(base, now);
  return new Map(
    [...differences(now, mine)].flatMap(([name, value]) =>
      theirs.has(name) ? [[name, { before: base.get(name), theirs: theirs.get(name), mine: value }] as const] : [],
    ),
  );
}

function conflictText(conflicts: ReadonlyMap<string, Conflict>): string {
  const fields = [...conflicts].map(
    ([name, { before, theirs, mine }]) =>
      `${name} was ${JSON.stringify(before)}, is now ${JSON.stringify(theirs)}, and you want ${JSON.stringify(mine)}`,
  );
  return `another administrator changed it meanwhile: ${fields.join("; ")}`;
}

function notesOf(conflicts: ReadonlyMap<string, Conflict>): Map<string, string> {
  return new Map(
    [...conflicts].map(([name, { theirs }]) => [name, `another administrator changed it to ${JSON.stringify(theirs)}`]),
  );
}
