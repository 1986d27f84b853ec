import type { JsonMap } from "./json.ts";

/** What goes wrong with a request. */
export type Fault =
  /** Answers a Status object instead of acting. */
  | {
      readonly kind: "status";
      readonly code: number;
      readonly reason?: string;
      readonly message?: string;
      readonly retryAfterSeconds?: number;
    }
  /** Answers text that is no JSON, as a proxy does. */
  | { readonly kind: "text"; readonly code: number; readonly text: string }
  /** Closes the connection: before it acts (`lost: "request"`) or after it, without an answer (`lost: "answer"`). */
  | { readonly kind: "cut"; readonly lost: "request" | "answer" }
  /** Sends half of the answer and closes the connection. */
  | { readonly kind: "half-answer" }
  /** Never answers. */
  | { readonly kind: "hang" }
  /** Acts and answers only then. */
  | { readonly kind: "late"; readonly until: Promise<unknown> }
  /** Sends the answer in pieces. */
  | { readonly kind: "slow"; readonly bytes: number; readonly everyMs: number }
  /** Another writer changes the object first. It gets the live object and changes it in place. */
  | { readonly kind: "writer"; readonly change: (object: JsonMap) => void }
  /** Of a watch: after so many events it is cut, ended well, cut within a line, gets a line that is no JSON, an unknown event, or an ERROR event with this code. */
  | {
      readonly kind: "stream";
      readonly afterEvents: number;
      readonly ends:
        | "cut"
        | "end"
        | "half-line"
        | "bad-line"
        | "odd-event"
        | { readonly code: number; readonly reason: string; readonly retryAfterSeconds?: number };
    };

export interface FaultRule {
  readonly fault: Fault;
  readonly method?: string;
  /** Is within the path with its query, or matches it. */
  readonly path?: string | RegExp;
  /** Requests of that sort that it happens to; default 1. */
  readonly times?: number;
}

/** Faults that wait for their requests. */
export class Faults {
  readonly #rules: { rule: FaultRule; left: number }[] = [];

  /** Answers a function that takes the fault back. */
  add(rule: FaultRule): () => void {
    const entry = { rule, left: rule.times ?? 1 };
    this.#rules.push(entry);
    return () => {
      entry.left = 0;
    };
  }

  /** The fault of this request, the first that fits. */
  next(method: string, path: string): Fault | undefined {
    for (const entry of this.#rules) {
      const { rule } = entry;
      if (entry.left <= 0 || (rule.method !== undefined && rule.method !== method) || !fits(rule.path, path)) continue;
      entry.left -= 1;
      return rule.fault;
    }
    return undefined;
  }

  clear(): void {
    this.#rules.length = 0;
  }
}

function fits(wanted: string | RegExp | undefined, path: string): boolean {
  if (wanted === undefined) return true;
  return typeof wanted === "string" ? path.includes(wanted) : wanted.test(path);
}
