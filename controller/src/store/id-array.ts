/** What PostgreSQL takes for the length of an array that it does not know. */
const GUESSED_LENGTH = 10;

/**
 * Ids for `= ANY ($1::text[])`, at least ten: fewer are filled up by repeating the first, which changes nothing in the result. A prepared statement whose
 * array is shorter than PostgreSQL guesses looks cheaper planned for that array alone, and so it would be planned anew with each call; for
 * statements of several tables that costs more than running them.
 */
export function likely(ids: readonly string[]): readonly string[] {
  const [first] = ids;
  if (first === undefined || ids.length >= GUESSED_LENGTH) return ids;
  return [...ids, ...new Array<string>(GUESSED_LENGTH - ids.length).fill(first)];
}
