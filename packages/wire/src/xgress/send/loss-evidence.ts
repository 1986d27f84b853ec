/**
 * What acknowledgements tell of those that did not come: late is not lost. A busy machine holds up a whole window, and
 * all of it sent twice makes it only busier. But what has no answer while something that was sent after it has one, was
 * lost, or its acknowledgement was (docs/protocol/xgress.md "Sender").
 */
export class LossEvidence {
  #sendings = 0;
  #answered = 0;
  #maybe = 0;
  #maybeAt = 0;

  /** The number of one more sending. */
  next(): number {
    return ++this.#sendings;
  }

  /** The only sending of a payload was answered. */
  answered(sending: number): void {
    this.#answered = Math.max(this.#answered, sending);
    this.#maybe = 0;
  }

  /**
   * A payload that was sent more than once was acknowledged, the last time by `sending`. Nobody knows for which of them:
   * if it was the first one, the others are acknowledged, too, any moment now.
   */
  maybeAnswered(sending: number, now: number): void {
    this.#maybe = Math.max(this.#maybe, sending);
    this.#maybeAt = now;
  }

  /** That moment was `ms` long. */
  settle(now: number, ms: number): void {
    if (this.#maybe > 0 && now - this.#maybeAt > ms) this.answered(this.#maybe);
  }

  /** Whether something was answered that was sent later than this. */
  isOvertaken(sending: number): boolean {
    return sending < this.#answered;
  }
}
