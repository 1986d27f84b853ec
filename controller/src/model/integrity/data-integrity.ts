import { apiError } from "@sallyport/api";
import { errorText } from "@sallyport/async";
import { beginLongWork } from "../../store/driver/statement.ts";
import type { ModelContext } from "../context.ts";
import type { PolicyMirror } from "../policy/policy-mirror.ts";
import { derivedChecks } from "./derived.ts";
import type { IntegrityCheck, Violation } from "./integrity-check.ts";
import { networkChecks } from "./network-rules.ts";
import { policyInMemory } from "./policy-in-memory.ts";
import { referenceChecks } from "./references.ts";

export type IntegrityReport = ReturnType<DataIntegrity["report"]>;

/** Results that are kept; a check ends with the next one, a fix goes on. */
const MAX_RESULTS = 1_000;
const FIX_BATCH = 500;

/**
 * Holds the stored network against its rules, and repairs what can be repaired. One run at a time, in the background, in short transactions, so that no
 * request waits for it. The rules are listed in docs/controller.md, "Integrity".
 */
export class DataIntegrity {
  readonly #ctx: ModelContext;
  readonly #mirror: PolicyMirror;
  readonly #stopping = new AbortController();
  #running: Promise<void> | undefined;
  #isFix = false;
  #start: Date | null = null;
  #end: Date | null = null;
  #error: string | null = null;
  #results: { readonly description: string; fixed: boolean }[] = [];
  #isMore = false;

  constructor(ctx: ModelContext, mirror: PolicyMirror) {
    this.#ctx = ctx;
    this.#mirror = mirror;
  }

  /** Begins a run. @throws ApiError 429 `RATE_LIMITED` while one is under way */
  start({ fix }: { readonly fix: boolean }): void {
    if (this.#running) throw apiError("RATE_LIMITED", undefined, { headers: { "retry-after": "5" } });
    this.#isFix = fix;
    this.#start = this.#ctx.now();
    this.#end = null;
    this.#error = null;
    this.#results = [];
    this.#isMore = false;
    this.#running = this.#run()
      .catch((error: unknown) => {
        this.#error = errorText(error);
        if (!this.#stopping.signal.aborted) this.#ctx.log.error({ error }, "a data integrity run failed");
      })
      .finally(() => {
        this.#end = this.#ctx.now();
        this.#running = undefined;
      });
  }

  /** What a run found; of a run that is under way: so far. */
  report() {
    return {
      inProgress: this.#running !== undefined,
      fixingErrors: this.#isFix,
      /** There is more than `results` holds. */
      tooManyErrors: this.#isMore,
      startTime: this.#start,
      endTime: this.#end,
      error: this.#error,
      results: this.#results,
    };
  }

  /** Ends a run that is under way. */
  async stop(): Promise<void> {
    this.#stopping.abort(new Error("the controller was stopped"));
    await this.#running;
  }

  async #run(): Promise<void> {
    const { db } = this.#ctx.store;
    // Rules of the database itself first: what they then do, no fix has to.
    const checks = [
      ...(await derivedChecks(db)),
      ...(await referenceChecks(db)),
      ...networkChecks(),
      policyInMemory(this.#mirror),
    ];
    for (const check of checks) {
      this.#stopping.signal.throwIfAborted();
      if (this.#isFix) await this.#fix(check);
      else await this.#find(check);
      if (this.#isMore && !this.#isFix) break;
    }
    const { length } = this.#results;
    const fixed = this.#results.filter((result) => result.fixed).length;
    this.#ctx.log.info({ found: length, fixed, isMore: this.#isMore }, "data integrity run finished");
  }

  async #find(check: IntegrityCheck): Promise<void> {
    const limit = MAX_RESULTS + 1 - this.#results.length;
    const found = await this.#ctx.store.db.transaction().execute(async (trx) => {
      await beginLongWork(trx);
      return check.find(trx, limit);
    });
    this.#note(found, false);
  }

  /** Finds and repairs by turns, each time in one transaction, until nothing is found or nothing gets better. */
  async #fix(check: IntegrityCheck): Promise<void> {
    let before = new Set<string>();
    for (;;) {
      this.#stopping.signal.throwIfAborted();
      const found = await this.#repaired(check, before);
      if (found.every(({ description }) => before.has(description))) return;
      before = new Set(found.map(({ description }) => description));
    }
  }

  async #repaired(check: IntegrityCheck, before: ReadonlySet<string>): Promise<Violation[]> {
    const { fix } = check;
    let found: Violation[] = [];
    try {
      await this.#ctx.store.transaction(async (trx) => {
        await beginLongWork(trx);
        found = await check.find(trx, FIX_BATCH);
        if (found.length > 0 && fix && !isStuck(found, before)) await fix(trx, found);
      });
    } catch (error) {
      if (found.length === 0) throw error;
      // The rule stays broken; the other rules are still worth looking after.
      this.#ctx.log.warn({ error, check: check.name }, "a data integrity error could not be fixed");
      this.#note(found, false);
      return [];
    }
    if (isStuck(found, before)) {
      for (const result of this.#results) if (before.has(result.description)) result.fixed = false;
      return found;
    }
    this.#note(found, fix !== undefined);
    return fix === undefined ? [] : found;
  }

  #note(found: readonly Violation[], fixed: boolean): void {
    const room = MAX_RESULTS - this.#results.length;
    this.#results.push(...found.slice(0, room).map(({ description }) => ({ description, fixed })));
    if (found.length > room) this.#isMore = true;
  }
}

/** The same came again: the fix does not help. */
function isStuck(found: readonly Violation[], before: ReadonlySet<string>): boolean {
  return found.length > 0 && found.every(({ description }) => before.has(description));
}
