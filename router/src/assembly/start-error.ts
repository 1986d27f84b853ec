/** The router cannot start as it is configured; the message says what to change. */
export class RouterStartError extends Error {
  override readonly name = "RouterStartError";
  readonly code = "CANNOT_START";
}
