/** An enrollment that cannot be done, or was not; `code` says which. */
export class RouterEnrollError extends Error {
  override readonly name = "RouterEnrollError";
  readonly code: string;

  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
