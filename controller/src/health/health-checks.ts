import { sql } from "kysely";
import type { Page } from "../http/pages.ts";
import type { Db } from "../model/context.ts";

/** Any caller may ask for a check: its cost does not grow with the number of requests. */
const FRESH_MS = 5_000;
const LIMIT_MS = 3_000;

interface CheckOutcome {
  readonly at: Date;
  readonly milliseconds: number;
  readonly error: string | undefined;
}

export interface HealthOptions {
  readonly db: Db;
  /** Since when the database is unavailable. */
  readonly outage: { readonly since: Date | undefined };
  readonly now?: () => Date;
}

/** Reads the database at most once in five seconds. An outage that requests have met counts at once. */
export class HealthChecks {
  readonly #options: HealthOptions;
  #last: CheckOutcome | undefined;
  #running: Promise<CheckOutcome> | undefined;
  #failures = 0;
  #failingSince: Date | undefined;

  constructor(options: HealthOptions) {
    this.#options = options;
  }

  /**
   * The document. Its status is always 200, as clients of OpenZiti expect; `data.healthy` has the result.
   * @param isShort without the single checks
   * @param isRaft with the fields that clients read of a member of a cluster
   */
  async document({ isShort, isRaft }: { readonly isShort: boolean; readonly isRaft: boolean }): Promise<object> {
    const database = await this.#database();
    return {
      meta: {},
      data: {
        healthy: database.healthy,
        ...(!isShort && { checks: [database] }),
        ...(isRaft && { isRaftEnabled: false, isLeader: true }),
      },
    };
  }

  async #database() {
    const now = (this.#options.now ?? (() => new Date()))();
    const isStale =
      this.#last === undefined ||
      // A clock may be set back.
      Math.abs(now.getTime() - this.#last.at.getTime()) >= FRESH_MS ||
      (this.#options.outage.since === undefined) === (this.#last.error !== undefined);
    if (isStale) {
      this.#running ??= this.#look(now).finally(() => {
        this.#running = undefined;
      });
    }
    const { at, milliseconds, error } = (await this.#running) ?? this.#last ?? (await this.#look(now));
    return {
      id: "database.read",
      healthy: error === undefined,
      lastCheckDuration: `${milliseconds.toFixed(3)}ms`,
      lastCheckTime: at.toISOString(),
      ...(error !== undefined && {
        err: error,
        consecutiveFailures: this.#failures,
        failingSince: (this.#failingSince ?? at).toISOString(),
      }),
    };
  }

  async #look(at: Date): Promise<CheckOutcome> {
    const began = performance.now();
    const error = await this.#read();
    this.#last = { at, milliseconds: performance.now() - began, error };
    this.#failures = error === undefined ? 0 : this.#failures + 1;
    this.#failingSince = error === undefined ? undefined : (this.#failingSince ?? at);
    return this.#last;
  }

  /** Why the read failed, without the place of the database, which only administrators may know. */
  async #read(): Promise<string | undefined> {
    const { promise: late, resolve } = Promise.withResolvers<string>();
    const timer = setTimeout(() => resolve("the database did not answer in time"), LIMIT_MS);
    const read = sql`SELECT id FROM auth_policy LIMIT 1`.execute(this.#options.db).then(
      () => undefined,
      () => "the database cannot be read",
    );
    try {
      return await Promise.race([read, late]);
    } finally {
      clearTimeout(timer);
    }
  }
}

/** The pages that show health, without authentication. */
export function healthPages(checks: HealthChecks): Page[] {
  return ["/health-checks", "/health-checks/controller/raft"].map((path) => ({
    path,
    async handle({ query }) {
      const document = await checks.document({ isShort: query.type === "short", isRaft: path.endsWith("/raft") });
      return { status: 200, contentType: "application/json", body: JSON.stringify(document) };
    },
  }));
}
