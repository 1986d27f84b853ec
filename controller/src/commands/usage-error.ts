/** A command line that says nothing we can do. The message says what is wrong with it. */
export class UsageError extends Error {
  override name = "UsageError";
}
