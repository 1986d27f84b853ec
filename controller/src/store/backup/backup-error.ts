/** A backup cannot be made, read or restored; the message says why and what to do. */
export class BackupError extends Error {
  override name = "BackupError";
  /** Where the reason is of use to programs. */
  readonly code: "EXISTS" | undefined;

  constructor(message: string, options?: ErrorOptions & { readonly code?: "EXISTS" }) {
    super(message, options);
    this.code = options?.code;
  }
}
