import { ApiError } from "@sallyport/api/client";

/** Requests of one kind that are under way at the same time: more of them would carry fewer questions each. */
const UNDER_WAY = 1;
const MAX_QUESTIONS = 100;
/** What the questions of one request may be long together: they are in its URL. */
const MAX_LENGTH = 5_000;

interface RequestBatchOptions<Question, Answer> {
  readonly one: (question: Question) => Promise<Answer>;
  /** Answers in the order of the questions. */
  readonly many: (questions: readonly Question[]) => Promise<readonly Answer[]>;
  /** How long a question is as text in a URL, about. */
  readonly lengthOf: (question: Question) => number;
}

interface Queued<Question, Answer> {
  readonly question: Question;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Joins questions of one kind: a single one goes out at once, what comes while a request is under way is asked with the next one. So few questions wait for nothing,
 * and many take few requests.
 */
export class RequestBatch<Question, Answer> {
  readonly #o: RequestBatchOptions<Question, Answer>;
  readonly #waiting: Queued<Question, Answer>[] = [];
  #underWay = 0;
  #isDue = false;

  constructor(o: RequestBatchOptions<Question, Answer>) {
    this.#o = o;
  }

  /** @throws what the request throws, for each whose question it carried, and the signal's reason */
  async ask(question: Question, signal: AbortSignal): Promise<Answer> {
    signal.throwIfAborted();
    const { promise, resolve, reject } = Promise.withResolvers<Answer>();
    const waiting = { question, resolve, reject };
    const abort = (): void => {
      const index = this.#waiting.indexOf(waiting);
      if (index >= 0) this.#waiting.splice(index, 1);
      reject(signal.reason);
    };
    signal.addEventListener("abort", abort, { once: true });
    this.#waiting.push(waiting);
    this.#plan();
    return await promise.finally(() => signal.removeEventListener("abort", abort));
  }

  /** What is asked in one turn goes out together. */
  #plan(): void {
    if (this.#isDue || this.#underWay >= UNDER_WAY) return;
    this.#isDue = true;
    setImmediate(() => {
      this.#isDue = false;
      void this.#send();
    });
  }

  async #send(): Promise<void> {
    const batch = this.#next();
    if (batch.length === 0) return;
    this.#underWay += 1;
    if (this.#waiting.length > 0) this.#plan();
    try {
      await this.#answer(batch);
    } finally {
      this.#underWay -= 1;
      if (this.#waiting.length > 0) this.#plan();
    }
  }

  async #answer(batch: readonly Queued<Question, Answer>[]): Promise<void> {
    const [first] = batch;
    try {
      if (first !== undefined && batch.length === 1) return first.resolve(await this.#o.one(first.question));
      const answers = await this.#o.many(batch.map(({ question }) => question));
      for (const [index, { resolve }] of batch.entries()) resolve(answers[index] as Answer);
    } catch (error) {
      // One question may be what spoils the request; and servers differ in what filters they take.
      if (batch.length > 1 && error instanceof ApiError && error.status === 400) {
        await Promise.all(batch.map((each) => this.#answer([each])));
        return;
      }
      for (const { reject } of batch) reject(error);
    }
  }

  #next(): Queued<Question, Answer>[] {
    let length = 0;
    let count = 0;
    for (const { question } of this.#waiting) {
      length += this.#o.lengthOf(question) + QUOTED;
      if (count === MAX_QUESTIONS || (count > 0 && length > MAX_LENGTH)) break;
      count += 1;
    }
    return this.#waiting.splice(0, count);
  }
}

/** Of quotes and comma, as a URL has them. */
const QUOTED = 9;
