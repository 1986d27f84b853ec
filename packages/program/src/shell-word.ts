/** A word of a POSIX shell: what is not harmless stands between quotes. */
export function shellWord(text: string): string {
  return /^[\w./][\w.@:/+=,-]*$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

/**
 * How a command calls an entity: by its name, where a terminal shows it as it is and it is no option, and by its id otherwise.
 */
export function subjectWord({ id, name }: { readonly id: string; readonly name: string }): string {
  return shellWord(isPrintable(name) && !name.startsWith("-") ? name : id);
}

/** Whether a terminal shows a text as it is. */
export function isPrintable(text: string): boolean {
  return /^[^\p{C}\p{Zl}\p{Zp}]+$/u.test(text);
}
