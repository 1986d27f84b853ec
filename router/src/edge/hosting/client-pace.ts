import type { Outgoing } from "@sallyport/wire";

/** Whose requests are refused: the channel of an SDK. */
interface Asker {
  /** Does nothing when it is closed. */
  send(answer: Outgoing): void;
}

const REFUSED_LATELY_MS = 5_000;
const REFUSAL_DELAY_MS = 1_000;
/** Refusals of one channel that wait; what is more is refused at once. */
export const MAX_WAITING_REFUSALS = 1_000;

/**
 * Refuses what one channel asks again and again more slowly: SDKs of OpenZiti repeat a refused Bind at once, thousands of times until they
 * have a new session. The first refusal goes out at once, those within five seconds of another one after a second.
 */
export class PacedRefusals {
  readonly #of = new WeakMap<Asker, { lastAt: number; waiting: number }>();

  /** What waits is the answer alone: the request may be large. */
  send(asker: Asker, answer: Outgoing): void {
    const refused = this.#of.get(asker) ?? { lastAt: Number.NEGATIVE_INFINITY, waiting: 0 };
    this.#of.set(asker, refused);
    const isAgain = performance.now() - refused.lastAt < REFUSED_LATELY_MS;
    refused.lastAt = performance.now();
    if (!isAgain || refused.waiting >= MAX_WAITING_REFUSALS) {
      asker.send(answer);
      return;
    }
    refused.waiting++;
    const resume = (): void => {
      refused.waiting--;
      refused.lastAt = performance.now();
      asker.send(answer);
    };
    setTimeout(resume, REFUSAL_DELAY_MS).unref();
  }
}

/** Whose health is reported: a listener of an SDK. */
interface Reporter {
  readonly sdk: { readonly session: { readonly identityId: string } };
  readonly ended: AbortController;
}

const INTERVAL_MS = 1_000;
/** Of one client in an interval, whatever the number of its listeners. */
const MAX_OF_ONE = 20;

/**
 * Passes on the results of health checks, as often as the controller can bear: one per second for a listener, twenty for a
 * client. Of results that come faster, the last one of each listener follows.
 */
export class HealthReports<L extends Reporter> {
  readonly #send: (binding: L, passed: boolean) => void;
  /** What follows, in the order in which it came. */
  readonly #waiting = new Map<L, boolean>();
  /** Of this interval. */
  readonly #sent = new Set<L>();
  readonly #sentBy = new Map<string, number>();
  #timer: NodeJS.Timeout | undefined;

  constructor(send: (binding: L, passed: boolean) => void) {
    this.#send = send;
  }

  report(binding: L, passed: boolean): void {
    if (this.#waiting.has(binding) || !this.#pass(binding, passed)) this.#waiting.set(binding, passed);
  }

  #pass(binding: L, passed: boolean): boolean {
    const { identityId } = binding.sdk.session;
    const sent = this.#sentBy.get(identityId) ?? 0;
    if (sent >= MAX_OF_ONE || this.#sent.has(binding)) return false;
    this.#sentBy.set(identityId, sent + 1);
    this.#sent.add(binding);
    this.#timer ??= setTimeout(() => this.#next(), INTERVAL_MS).unref();
    this.#send(binding, passed);
    return true;
  }

  #next(): void {
    this.#timer = undefined;
    this.#sent.clear();
    this.#sentBy.clear();
    for (const [binding, passed] of [...this.#waiting]) {
      if (binding.ended.signal.aborted || this.#pass(binding, passed)) this.#waiting.delete(binding);
    }
  }
}
