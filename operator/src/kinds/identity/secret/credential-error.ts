/** Credentials of an identity could not be got or renewed. The message is for people and holds no secret. */
export class CredentialError extends Error {
  override readonly name = "CredentialError";
  readonly reason: string;
  /** It may pass by itself; else somebody has to do something. */
  readonly isPassing: boolean;

  constructor(reason: string, message: string, o: { readonly isPassing: boolean; readonly cause?: unknown }) {
    super(message, o.cause === undefined ? undefined : { cause: o.cause });
    this.reason = reason;
    this.isPassing = o.isPassing;
  }
}
