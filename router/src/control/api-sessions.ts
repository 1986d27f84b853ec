/** An API session as the controllers announced it (docs/protocol/control.md, "API sessions"). */
export interface ApiSessionRecord {
  readonly id: string;
  readonly token: string;
  readonly identityId: string;
  /** SHA-1 fingerprints (40 lower-case hex characters) of the certificates that may use it. */
  readonly fingerprints: readonly string[];
}
