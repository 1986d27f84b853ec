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
