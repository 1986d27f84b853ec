import { createHash } from "node:crypto";
import { type CountedRate, waitFor } from "../../model/identity/failed-attempts.ts";
import type { Executor } from "../../store/driver/statement.ts";
import { ALL_ADDRESSES, type AttemptRates, type Origin } from "./attempt-limits.ts";
import { type Rate, tooManyRequests } from "./rate-limit.ts";

/**
 * How many guesses may fail for one subject (docs/protocol/authentication.md, "Limits"), over all controllers of the network. This slows guesses, and not an
 * identity that logs in often.
 */
export class GuessLimits {
  readonly #enabled: boolean;
  readonly #failures: Rate;

  constructor({ enabled, failures }: Pick<AttemptRates, "enabled" | "failures">) {
    this.#enabled = enabled;
    this.#failures = failures;
  }

  /** @param subject the subject of the attempts: a user name */
  of(subject: string, { key }: Origin): Guesses {
    if (!this.#enabled) return new Guesses(subject, []);
    const { burst, perMinute } = this.#failures;
    return new Guesses(subject, [
      counted(`${key} ${subject}`, { burst, perMinute }),
      counted(subject, { burst: burst * ALL_ADDRESSES, perMinute: perMinute * ALL_ADDRESSES }),
    ]);
  }
}

/** The guesses of one subject from one origin. */
export class Guesses {
  readonly #subject: string;
  readonly rates: readonly CountedRate[];

  constructor(subject: string, rates: readonly CountedRate[]) {
    this.#subject = subject;
    this.rates = rates;
  }

  /** @param waitMs as the store says, when the caller has asked it in a statement of its own. @throws ApiError 429 after too many failures */
  requireFew(waitMs: number): void {
    if (waitMs > 0) throw tooManyRequests(waitMs, `too many failed attempts for ${this.#subject}`);
  }

  /** @throws ApiError 429 after too many failures */
  async requireRoom(db: Executor): Promise<void> {
    this.requireFew(await waitFor(db, this.rates));
  }
}

/** The key is a hash, because user names and addresses behind routers are as long as callers make them. */
function counted(text: string, { burst, perMinute }: Rate): CountedRate {
  const pauseMs = 60_000 / perMinute;
  const key = `guess ${createHash("sha256").update(text).digest("base64url")}`;
  return { key, pauseMs, roomMs: (burst - 1) * pauseMs, keptMs: burst * pauseMs };
}
