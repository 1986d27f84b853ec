/** A signal that ends after a time, or with another signal. Release it when the work that it limits has ended: then nothing of it is left behind. */
export class Deadline {
  readonly #controller = new AbortController();
  readonly #outer: AbortSignal | undefined;
  readonly #timer: NodeJS.Timeout;
  #isOver = false;

  constructor(timeoutMs: number, outer?: AbortSignal) {
    this.#outer = outer;
    this.#timer = setTimeout(() => {
      this.#isOver = true;
      this.#controller.abort(new DOMException(`it took longer than ${timeoutMs} ms`, "TimeoutError"));
    }, timeoutMs);
    outer?.addEventListener("abort", this.#onOuter, { once: true });
    if (outer?.aborted) this.#onOuter();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** True when it was the time that ended the signal. */
  get isOver(): boolean {
    return this.#isOver;
  }

  release(): void {
    clearTimeout(this.#timer);
    this.#outer?.removeEventListener("abort", this.#onOuter);
  }

  readonly #onOuter = (): void => {
    clearTimeout(this.#timer);
    this.#controller.abort(this.#outer?.reason);
  };
}
