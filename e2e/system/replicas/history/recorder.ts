import type { Answer } from "./asker.ts";
import type { PresenceChange, PresenceSeen } from "./presence.ts";
import { presenceProblems } from "./presence.ts";
import { linearizationProblem, type RegisterOperation } from "./register.ts";

/** How an operation ended, as far as its client knows. */
export type Outcome = "ok" | "fail" | "unknown";

/** How long a replica may answer from memory what another one has changed without an answer. */
const SPREAD_MS = 1_000;

/** Collects what clients did and saw, and says what contradicts it. */
export class Recorder {
  readonly #registers = new Map<string, RegisterOperation[]>();
  readonly #changes: PresenceChange[] = [];
  readonly #seen: PresenceSeen[] = [];
  readonly #faults: string[] = [];
  #answers = 0;

  /** Answers of any kind; those among them that showed something. */
  get counts(): { readonly answers: number; readonly registerOperations: number; readonly views: number } {
    const registerOperations = [...this.#registers.values()].reduce((sum, { length }) => sum + length, 0);
    return { answers: this.#answers, registerOperations, views: this.#seen.length };
  }

  operationsOn(register: string): number {
    return this.#registers.get(register)?.length ?? 0;
  }

  /** Keys that have begun, with prefix `prefix`. */
  begun(prefix: string): string[] {
    return this.#changes.filter(({ key, kind }) => kind === "begin" && key.startsWith(prefix)).map(({ key }) => key);
  }

  /** An unavailable replica may answer 503 or not at all; any other failure of the server is a fault, and so is an answer that `expected` does not name. */
  outcome(answer: Answer, ...expected: readonly number[]): Outcome {
    const { status, by, json } = answer;
    if (status !== 0) this.#answers += 1;
    if (status >= 200 && status < 400) return "ok";
    if (status === 0 || status === 503) return "unknown";
    if (status === 429) return "fail";
    if (!expected.includes(status)) this.#faults.push(`${by} answered ${status}: ${JSON.stringify(json)}`);
    return "fail";
  }

  write(register: string, value: string, answer: Answer): void {
    const outcome = this.outcome(answer);
    if (outcome === "fail") return;
    const ended = outcome === "ok" ? answer.ended : Number.POSITIVE_INFINITY;
    this.#operation(register, { kind: "write", value, began: answer.began, ended, by: answer.by });
  }

  read(register: string, answer: Answer, shown: (json: Answer["json"]) => string | undefined): void {
    if (this.outcome(answer) !== "ok") return;
    const { began, ended, by } = answer;
    this.#operation(register, { kind: "read", value: shown(answer.json), began, ended, by });
  }

  /**
   * @param isAgain an earlier try had no answer: it may have taken effect, and what it did is gone then (404, 401). It counts everywhere within a second.
   * @returns whether it has certainly taken effect
   */
  change(kind: PresenceChange["kind"], key: string, answer: Answer, isAgain = false): boolean {
    const isGone = isAgain && (answer.status === 404 || answer.status === 401);
    const outcome = isGone ? "ok" : this.outcome(answer);
    if (outcome === "fail") return false;
    const { began, by } = answer;
    const ended = outcome === "ok" ? answer.ended + (isAgain ? SPREAD_MS : 0) : Number.POSITIVE_INFINITY;
    this.#changes.push({ key, kind, began, ended, by });
    return outcome === "ok";
  }

  saw(key: string, isPresent: boolean, { began, ended, by }: Answer): void {
    this.#seen.push({ key, isPresent, began, ended, by });
  }

  /** A list that shows everything of a prefix. */
  sawAll(keys: readonly string[], present: ReadonlySet<string>, answer: Answer): void {
    for (const key of keys) this.saw(key, present.has(key), answer);
  }

  problems(): string[] {
    const registers = [...this.#registers].flatMap(([name, history]) => {
      const problem = linearizationProblem(history);
      return problem === undefined ? [] : `register ${name}: ${problem}`;
    });
    return [...this.#faults, ...presenceProblems(this.#changes, this.#seen), ...registers];
  }

  #operation(register: string, operation: RegisterOperation): void {
    const history = this.#registers.get(register) ?? [];
    this.#registers.set(register, history);
    history.push(operation);
  }
}
