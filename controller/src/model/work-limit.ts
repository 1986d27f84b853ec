import { apiError } from "@sallyport/api";
import { currentRequest } from "../store/request-signal.ts";

export interface WorkLimits {
  readonly atATime: number;
  readonly inLine: number;
  readonly retryAfterSeconds: number;
}

/**
 * A bound on expensive work: so many at a time, so many more in line. Administrators, and what the controller does by itself, have places and a line of their
 * own, so that no other caller keeps them waiting. Callers take turns: one with many requests is served once before another is served twice. When the line is
 * full, the newcomer is refused, unless another caller has more requests in it: then that caller's last one is refused.
 */
export class WorkLimit {
  readonly #administrators: Line;
  readonly #others: Line;

  constructor(limits: WorkLimits) {
    this.#administrators = new Line(limits);
    this.#others = new Line(limits);
  }

  /** @throws ApiError 429 with `Retry-After` when the line is full; the abort reason of the request; whatever the work throws */
  run<T>(work: () => Promise<T>): Promise<T> {
    const request = currentRequest();
    const line = request === undefined || request.caller.isAdministrator ? this.#administrators : this.#others;
    return line.run(request?.caller.key ?? "", work, request?.signal);
  }
}

interface WaitingCall {
  /** Its turn has come. */
  begin(): void;
  refuse(): void;
}

class Line {
  readonly #limits: WorkLimits;
  /** By caller; who comes first is served next, and goes behind the others then. */
  readonly #waiting = new Map<string, WaitingCall[]>();
  #length = 0;
  #running = 0;

  constructor(limits: WorkLimits) {
    this.#limits = limits;
  }

  async run<T>(key: string, work: () => Promise<T>, signal: AbortSignal | undefined): Promise<T> {
    if (this.#running < this.#limits.atATime) this.#running++;
    else await this.#turn(key, signal);
    try {
      return await work();
    } finally {
      const next = this.#next();
      if (next === undefined) this.#running--;
      else next.begin();
    }
  }

  #turn(key: string, signal: AbortSignal | undefined): Promise<void> {
    if (signal?.aborted) return Promise.reject(signal.reason);
    if (this.#length >= this.#limits.inLine) this.#makeRoom(key);
    return new Promise((resolve, reject) => {
      const leave = () => {
        this.#remove(key, waiting);
        reject(signal?.reason);
      };
      const waiting: WaitingCall = {
        begin: () => {
          signal?.removeEventListener("abort", leave);
          resolve();
        },
        refuse: () => {
          signal?.removeEventListener("abort", leave);
          reject(this.#tooMany());
        },
      };
      signal?.addEventListener("abort", leave, { once: true });
      const own = this.#waiting.get(key);
      if (own === undefined) this.#waiting.set(key, [waiting]);
      else own.push(waiting);
      this.#length++;
    });
  }

  /** @throws ApiError 429 when no caller has more in line than the newcomer would have */
  #makeRoom(key: string): void {
    let most: WaitingCall[] = [];
    let whose = "";
    for (const [caller, theirs] of this.#waiting) if (theirs.length > most.length) [whose, most] = [caller, theirs];
    const own = this.#waiting.get(key)?.length ?? 0;
    const last = most.at(-1);
    if (last === undefined || most.length <= own + 1) throw this.#tooMany();
    this.#remove(whose, last);
    last.refuse();
  }

  #next(): WaitingCall | undefined {
    for (const [key, theirs] of this.#waiting) {
      const [next] = theirs;
      if (next === undefined) continue;
      this.#remove(key, next);
      // Behind the others.
      if (theirs.length > 0) {
        this.#waiting.delete(key);
        this.#waiting.set(key, theirs);
      }
      return next;
    }
    return undefined;
  }

  #remove(key: string, waiting: WaitingCall): void {
    const theirs = this.#waiting.get(key) ?? [];
    const at = theirs.indexOf(waiting);
    if (at < 0) return;
    theirs.splice(at, 1);
    this.#length--;
    if (theirs.length === 0) this.#waiting.delete(key);
  }

  #tooMany(): Error {
    return apiError("SERVER_TOO_MANY_REQUESTS", undefined, {
      headers: { "retry-after": String(this.#limits.retryAfterSeconds) },
    });
  }
}
