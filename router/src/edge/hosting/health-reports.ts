import type { SdkBinding } from "./binding.ts";

const INTERVAL_MS = 1_000;
/** Of one client in an interval, whatever the number of its listeners. */
const MAX_OF_ONE = 20;

/**
 * Passes the results of health checks on, as often as the controller can bear: of a listener one in a second, of a client twenty. Of what comes faster the
 * last result of each listener follows.
 */
export class HealthReports {
  readonly #send: (binding: SdkBinding, passed: boolean) => void;
  /** What follows, in the order in which it came. */
  readonly #waiting = new Map<SdkBinding, boolean>();
  /** Of this interval. */
  readonly #sent = new Set<SdkBinding>();
  readonly #sentBy = new Map<string, number>();
  #timer: NodeJS.Timeout | undefined;

  constructor(send: (binding: SdkBinding, passed: boolean) => void) {
    this.#send = send;
  }

  report(binding: SdkBinding, passed: boolean): void {
    if (this.#waiting.has(binding) || !this.#pass(binding, passed)) this.#waiting.set(binding, passed);
  }

  #pass(binding: SdkBinding, passed: boolean): boolean {
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
