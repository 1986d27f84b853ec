import { BoundedMap } from "@sallyport/async";

const MAX_CERTIFICATES = 10_000;
const LIFE_MS = 5_000;

interface Answer {
  readonly isRouter: Promise<boolean>;
  readonly until: number;
}

/**
 * Which certificates are those of routers that may pass requests on, for counting attempts. An answer is kept for a few seconds, also "no": who repeats its
 * attempts makes the store no work. Bounded: the oldest answer goes first.
 */
export class ProxyingRouters {
  readonly #ask: (fingerprint: string) => Promise<boolean>;
  readonly #now: () => number;
  readonly #answers = new BoundedMap<string, Answer>(MAX_CERTIFICATES);

  /** @param now milliseconds of a clock that does not go back */
  constructor(ask: (fingerprint: string) => Promise<boolean>, now: () => number = () => performance.now()) {
    this.#ask = ask;
    this.#now = now;
  }

  async has(fingerprint: string): Promise<boolean> {
    const known = this.#answers.get(fingerprint);
    if (known !== undefined && this.#now() < known.until) return known.isRouter;
    const answer = { isRouter: this.#ask(fingerprint), until: this.#now() + LIFE_MS };
    this.#answers.set(fingerprint, answer);
    try {
      return await answer.isRouter;
    } catch (error) {
      if (this.#answers.get(fingerprint) === answer) this.#answers.delete(fingerprint);
      throw error;
    }
  }
}
