import { backoffDelay } from "@sallyport/async";

const LONGEST_WAIT_MS = 15 * 60_000;

/**
 * Whether a login may be tried. Controllers lock an identity after a few wrong passwords, so a password that was
 * refused is tried once more after a while, since the identity may have been disabled for a time, and then not before it changes.
 * Other credentials lock nothing: they are tried again and again, ever more rarely.
 */
export class LoginGate {
  readonly #waitMs: number;
  readonly #mayLock: boolean;
  #refusals = 0;
  #closedUntil = 0;
  #reason = "";

  /**
   * @param waitMs between the first refusal and the second attempt
   * @param mayLock attempts with wrong credentials may lock the identity
   */
  constructor(waitMs: number, mayLock: boolean) {
    this.#waitMs = waitMs;
    this.#mayLock = mayLock;
  }

  /** Undefined while logins may be tried; else why not, and for how long unless a person acts. */
  get closed(): { readonly reason: string; readonly forMs: number | undefined } | undefined {
    if (this.#mayLock && this.isStuck) return { reason: this.#reason, forMs: undefined };
    const forMs = this.#closedUntil - performance.now();
    return forMs > 0 ? { reason: this.#reason, forMs } : undefined;
  }

  /** Refused again: it does not pass by itself. */
  get isStuck(): boolean {
    return this.#refusals > 1;
  }

  accepted(): void {
    this.open();
  }

  /** The controller looked at the credentials and said no. */
  refused(reason: string): void {
    this.#refusals += 1;
    this.#reason = reason;
    this.#closedUntil =
      performance.now() + backoffDelay(this.#refusals, { firstMs: this.#waitMs, maxMs: LONGEST_WAIT_MS });
  }

  /** Forgets what was refused: a user asks for another attempt. */
  open(): void {
    this.#refusals = 0;
    this.#closedUntil = 0;
  }
}
