import { sql } from "kysely";
import type { Page } from "../http/pages.ts";
import type { Db } from "../model/context.ts";

/** What a check found, as it is sent. */
interface CheckState {
  readonly id: string;
  readonly healthy: boolean;
  readonly lastCheckDuration: string;
  readonly lastCheckTime: string;
  readonly err?: string;
  readonly consecutiveFailures?: number;
  readonly failingSince?: string;
}

/** Any caller may ask for a check: its cost does not grow with the number of requests. */
const FRESH_MS = 5_000;
const LIMIT_MS = 3_000;

interface Outcome {
  readonly at: Date;
  readonly milliseconds: number;
  readonly error: string | undefined;
}

export interface HealthOptions {
  readonly db: Db;
  /** Since when the database cannot be used. */
  readonly outage: { readonly since: Date | undefined };
  readonly now?: () => Date;
}

/** Reads the database for real, at most once in five seconds; an outage that requests have met counts at once. */
export class HealthChecks {
  readonly #options: HealthOptions;
  #last: Outcome | undefined;
  #running: Promise<Outcome> | undefined;
  #failures = 0;
  #failingSince: Date | undefined;

  constructor(options: HealthOptions) {
    this.#options = options;
  }

  /**
   * The document. It is sent with status 200 whatever it says, as clients of other controllers expect; `data.healthy` tells.
   * @param isShort without the single checks
   * @param isRaft with what clients ask of a member of a cluster, which this controller is not
   */
  async document({ isShort, isRaft }: { readonly isShort: boolean; readonly isRaft: boolean }): Promise<object> {
    const database = await this.#database();
    return {
      meta: {},
      data: {
        healthy: database.healthy,
        ...(isShort ? {} : { checks: [database] }),
        ...(isRaft ? { isRaftEnabled: false, isLeader: true } : {}),
      },
    };
  }

  async #database(): Promise<CheckState> {
    const now = (this.#options.now ?? (() => new Date()))();
    const isStale =
      this.#last === undefined ||
      now.getTime() - this.#last.at.getTime() >= FRESH_MS ||
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
      ...(error === undefined
        ? {}
        : {
            err: error,
            consecutiveFailures: this.#failures,
            failingSince: (this.#failingSince ?? at).toISOString(),
          }),
    };
  }

  async #look(at: Date): Promise<Outcome> {
    const began = performance.now();
    const error = await this.#read();
    this.#last = { at, milliseconds: performance.now() - began, error };
    this.#failures = error === undefined ? 0 : this.#failures + 1;
    this.#failingSince = error === undefined ? undefined : (this.#failingSince ?? at);
    return this.#last;
  }

  /** What is wrong, without what only administrators may know: where the database is. */
  async #read(): Promise<string | undefined> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<string>((resolve) => {
      timer = setTimeout(() => resolve("the database did not answer in time"), LIMIT_MS);
    });
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
