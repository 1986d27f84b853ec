import { ApiError, ApiTransportError } from "@sallyport/api/client";
import { abortable, Backoff, errorText, pause } from "@sallyport/async";

const FIRST_PAUSE_MS = 50;
const MAX_PAUSE_MS = 1_000;
const SERVICE_UNAVAILABLE = 503;
/** Failures of the way to the controller, as the operating system names them; not those of its certificate. */
const systemFailure = /^E(?!RR_)[A-Z_]+$/;

/**
 * The patience of one dial with a controller that is away: what is asked of it is asked again, as long as the dial's
 * signal allows. A refusal is an answer and ends it.
 */
export class ControllerOutage {
  readonly #signal: AbortSignal;
  /** Why the controller could not be asked the last time; undefined when it answered. */
  reason: string | undefined;

  constructor(signal: AbortSignal) {
    this.#signal = signal;
  }

  /** What `ask` gives, once the controller can be reached. @throws what the controller says, or the signal's reason */
  async outlast<T>(ask: () => Promise<T>): Promise<T> {
    const backoff = new Backoff({ firstMs: FIRST_PAUSE_MS, maxMs: MAX_PAUSE_MS });
    for (;;) {
      try {
        const answer = await abortable(ask(), this.#signal);
        this.reason = undefined;
        return answer;
      } catch (error) {
        if (!isAway(error)) throw error;
        this.reason = errorText(error);
      }
      await pause(backoff.next(), this.#signal);
      this.#signal.throwIfAborted();
    }
  }
}

/** The failure, or one that it was caused by, says that the controller is not there; not that it refuses. */
function isAway(error: unknown): boolean {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if (cause instanceof ApiError) return cause.status === SERVICE_UNAVAILABLE;
    if (cause instanceof ApiTransportError) {
      const way = cause.cause;
      if (!(way instanceof Error)) return false;
      return way.name === "TimeoutError" || ("code" in way && systemFailure.test(String(way.code)));
    }
  }
  return false;
}
