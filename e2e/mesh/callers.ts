import { eventually } from "../network/eventually.ts";

/** Callers that call one after the other, again and again, until they are told to stop. */
export class Callers {
  answered = 0;
  /** What calls threw, with its time. */
  readonly failures: string[] = [];
  #isOn = true;
  readonly #done: Promise<unknown>;

  /** @param call of the caller with this number; resolves when it was answered as it should be */
  constructor(count: number, call: (caller: number) => Promise<void>) {
    this.#done = Promise.all(Array.from({ length: count }, (_, caller) => this.#goOn(() => call(caller))));
  }

  /** Until so many more calls were answered, or one was not. */
  async more(count: number): Promise<void> {
    const until = this.answered + count;
    await eventually(`${count} more answers`, () => this.answered >= until || this.failures.length > 0);
  }

  async stop(): Promise<void> {
    this.#isOn = false;
    await this.#done;
  }

  async #goOn(call: () => Promise<void>): Promise<void> {
    while (this.#isOn) {
      try {
        await call();
        this.answered++;
      } catch (error) {
        const why = error instanceof Error ? `${error.message} ${String(error.cause ?? "")}` : String(error);
        this.failures.push(`${new Date().toISOString()} ${why}`);
      }
    }
  }
}
