/** What readiness needs of the controllers. */
export interface ConnectedControllers {
  all(): readonly unknown[];
  onConnected(listener: () => void): void;
}

/**
 * How long a router without a controller counts as ready: what it carries goes on, and a controller that restarts must not
 * take every router out of its Service.
 */
const WITHOUT_CONTROLLER_MS = 10 * 60_000;

/**
 * Whether clients should be sent here (docs/router/observability.md, "Health"): once a controller has been connected, until
 * none has been for ten minutes, or the router is about to stop.
 */
export class Readiness {
  readonly #controllers: ConnectedControllers;
  readonly #now: () => number;
  #seenAt: number | undefined;
  #isLeaving = false;

  /** @param now milliseconds of a clock that never jumps */
  constructor(controllers: ConnectedControllers, now: () => number = () => performance.now()) {
    this.#controllers = controllers;
    this.#now = now;
    controllers.onConnected(() => {
      this.#seenAt = now();
    });
  }

  get isReady(): boolean {
    if (this.#seenAt === undefined || this.#isLeaving) return false;
    if (this.#controllers.all().length > 0) this.#seenAt = this.#now();
    return this.#now() - this.#seenAt <= WITHOUT_CONTROLLER_MS;
  }

  /** The router is to stop: no further client should come. */
  leave(): void {
    this.#isLeaving = true;
  }
}
