import { backoffDelay, pause } from "@sallyport/async";

/** Times are milliseconds of this clock. */
const now = (): number => performance.now();

/**
 * When the next request to a network may go out: so many a second, and none while its controller asks to be left alone. Shared by
 * everything that talks to the network.
 */
export class RequestPace {
  readonly #intervalMs: number;
  readonly #burstMs: number;
  /** When the next request would go out if requests were spread evenly. */
  #next = 0;
  #pausedUntil = 0;

  /** As many as `perSecond` may go out at once after a silence. */
  constructor(perSecond: number) {
    this.#intervalMs = 1000 / perSecond;
    this.#burstMs = 1000 - this.#intervalMs;
  }

  /** Takes the next turn and waits for it. @throws the signal's reason */
  async turn(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    const at = now();
    this.#next = Math.max(this.#next, at) + this.#intervalMs;
    await wait(this.#next - this.#intervalMs - this.#burstMs - at, signal);
    // The pause may have begun, or grown, meanwhile.
    while (this.pausedMs > 0) await wait(this.pausedMs, signal);
  }

  /** No request for so long; a longer pause stays. */
  pause(delayMs: number): void {
    this.#pausedUntil = Math.max(this.#pausedUntil, now() + delayMs);
  }

  /** How much of the pause is left. */
  get pausedMs(): number {
    return Math.max(0, this.#pausedUntil - now());
  }
}

async function wait(delayMs: number, signal: AbortSignal): Promise<void> {
  if (delayMs <= 0) return;
  await pause(delayMs, signal);
  signal.throwIfAborted();
}

const MAX_WAIT_MS = 15 * 60_000;

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
    this.#closedUntil = performance.now() + backoffDelay(this.#refusals, { firstMs: this.#waitMs, maxMs: MAX_WAIT_MS });
  }

  /** Forgets what was refused: a user asks for another attempt. */
  open(): void {
    this.#refusals = 0;
    this.#closedUntil = 0;
  }
}
