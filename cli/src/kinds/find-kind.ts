/** Kinds by the words that users write. */
import { UsageError, wordHint } from "../errors.ts";
import { KINDS } from "./generated/kinds.ts";
import type { Action, Kind } from "./kind.ts";

/** Every word for a kind. */
export function wordsOf({ name, plural, aliases }: Kind): readonly string[] {
  return [...new Set([name, plural, ...aliases])];
}

/**
 * The kind that a word means: its name in singular or plural, or an alias; case does not count.
 *
 * @param action what the kind must be capable of
 * @throws UsageError with the nearest name
 */
export function kindOf(word: string, action?: Action): Kind {
  const wanted = word.toLowerCase().replaceAll("_", "-");
  const kind = KINDS.find((each) => wordsOf(each).includes(wanted));
  const able = action === undefined ? KINDS : kindsWith(action);
  if (kind === undefined) {
    const known = able.flatMap((each) => wordsOf(each));
    const hint = wordHint(wanted, known, "'sallyport explain' lists the kinds");
    throw new UsageError(`unknown kind '${word}': ${hint}`);
  }
  if (!able.includes(kind)) throw new UsageError(`the API has no operation to ${action} ${kind.plural}`);
  return kind;
}

/** Kinds that an action is possible with. */
export function kindsWith(action: Action): readonly Kind[] {
  return KINDS.filter(({ actions }) => actions.includes(action));
}

/** The kind with this name. @throws Error for a name that the table does not have */
export function kindNamed(name: string): Kind {
  const found = KINDS.find((kind) => kind.name === name);
  if (found === undefined) throw new Error(`the table of kinds has no ${name}`);
  return found;
}
