import { type SqlBool, sql } from "kysely";
import { PUBLISH_MS } from "../auth/tokens/token-keys.ts";
import type { ChangeRow } from "../store/changes/change-log-reads.ts";
import { DatabaseUnavailableError } from "../store/outage.ts";
import type { ModelContext } from "./context.ts";
import { expiries } from "./expiry.ts";
import type { Model } from "./model.ts";
import { FLUSH_MS } from "./session/api-sessions.ts";
import { lostAccess, removeUnhosted } from "./session/lost-access.ts";

const SWEEP_MS = 5_000;
/** A controller that is killed loses the posture reports of so long at most, of those that repeated what is known. */
const POSTURE_FLUSH_MS = 1_000;
/** Changes that can take access away. */
const ACCESS_KINDS: ReadonlySet<string> = new Set(["service_policy", "service", "identity"]);

/**
 * What the model does by time and after changes: ends expired API sessions, writes noted activity and posture reports, and ends sessions that policy
 * no longer allows. Of several controllers, the leader does it, except for what each has noted itself. A failure is logged and the work tried again at its
 * next time.
 * @param onSwept called with the number of rows that were removed because their time was over
 */
export function startUpkeep(ctx: ModelContext, model: Model, onSwept?: (what: string, count: number) => void) {
  const running = new Set<Promise<void>>();
  let stopped = false;

  const { replica } = ctx.store;
  const run = (name: string, work: () => Promise<unknown>) => {
    if (stopped) return;
    const done = work()
      .then(() => undefined)
      .catch((error: unknown) => {
        // An outage of the database is reported once, by the store.
        if (!(error instanceof DatabaseUnavailableError) && !stopped)
          ctx.log.error({ error, job: name }, "upkeep failed, it will be tried again");
      })
      .finally(() => running.delete(done));
    running.add(done);
  };

  const sweep = alone(async () => {
    const ended = await model.apiSessions.sweep();
    if (ended > 0) ctx.log.info({ ended }, "expired API sessions ended");
    if (ended > 0) onSwept?.("API sessions", ended);
  });

  const holdPosture = alone(async () => {
    const ended = await model.posture.sweep();
    if (ended > 0) ctx.log.info({ ended }, "sessions ended whose posture checks fail");
  });

  const lead = (name: string, work: () => Promise<unknown>) => {
    if (replica.isLeader) run(name, work);
  };

  // One check at a time; what changes while it runs is covered by one more.
  let isChecking = false;
  let unchecked: (ChangeRow[] | "everything")[] = [];
  const checkAccess = async (changes: ChangeRow[] | "everything") => {
    unchecked.push(changes);
    if (isChecking) return;
    isChecking = true;
    try {
      while (unchecked.length > 0 && !stopped) {
        const batch = unchecked;
        unchecked = [];
        const isEverything = batch.includes("everything");
        const rows = batch.flatMap((each) => (each === "everything" ? [] : each));
        const among = isEverything ? sql<SqlBool>`true` : lostAccess(rows);
        const ended = among === undefined ? 0 : await model.sessions.endUnauthorized(among);
        if (ended > 0) ctx.log.info({ ended }, "sessions ended that policy no longer allows");
        const removed = among === undefined ? 0 : await removeUnhosted(ctx.store, among);
        if (removed > 0) ctx.log.info({ removed }, "terminators removed whose host may not host any more");
      }
    } catch (error) {
      // What was to be checked is not known any more: the next sweep checks everything.
      unchecked.push("everything");
      throw error;
    } finally {
      isChecking = false;
    }
  };

  const sweeper = setInterval(() => {
    lead("sweep", sweep);
    lead("posture", holdPosture);
    if (unchecked.length > 0) lead("access", () => checkAccess([]));
  }, SWEEP_MS).unref();
  const stopping = new AbortController();
  const expire = alone(async () => {
    if (await ctx.tokens.keys.rotateIfDue()) {
      ctx.log.info({ minutes: PUBLISH_MS / 60_000 }, "a new key is published; it signs tokens after that time");
    }
    const revocations = { what: "revocations", sweep: (signal: AbortSignal) => model.revocations.sweep(signal) };
    for (const { what, sweep: remove } of [...expiries(ctx), model.posture.stored.expiry, revocations]) {
      const removed = await remove(stopping.signal);
      if (removed > 0) ctx.log.info({ removed, what }, "removed what had expired");
      if (removed > 0) onSwept?.(what, removed);
    }
  });
  const expirer = setInterval(() => lead("expiry", expire), ctx.settings.upkeepMs).unref();
  const flusher = setInterval(() => run("flush", () => model.apiSessions.flush()), FLUSH_MS).unref();
  const postureFlusher = setInterval(() => {
    if (model.posture.reports.hasUnwritten) run("posture reports", () => model.posture.stored.flush());
  }, POSTURE_FLUSH_MS).unref();
  const unsubscribe = ctx.store.changes.subscribe({
    name: "upkeep",
    onChanges: (rows) => {
      model.posture.onChanges(rows);
      model.sessions.onChanges(rows);
      for (const { kind, op, key } of rows) if (kind === "identity" && op === "delete") model.failedDials.forget(key);
      const taking = rows.filter((row) => ACCESS_KINDS.has(row.kind) && row.op !== "create");
      if (taking.length > 0) lead("access", () => checkAccess(taking));
    },
    onReset: () => lead("access", () => checkAccess("everything")),
  });
  lead("access", () => checkAccess("everything"));
  // What changed while no process led, or the former leader did not come to.
  const unlead = replica.onLeadership(() => lead("access", () => checkAccess("everything")));
  // Loaded before the first request needs it, and stamping changes from the beginning.
  run("policy", () => model.policy.current());

  return {
    /** Stops the timers, waits for what runs, and writes the activity and posture reports that are only noted. */
    async stop(): Promise<void> {
      clearInterval(sweeper);
      clearInterval(expirer);
      stopping.abort();
      clearInterval(flusher);
      clearInterval(postureFlusher);
      unsubscribe();
      unlead();
      await Promise.all([model.integrity.stop(), model.snapshots.stop()]);
      model.policy.close();
      stopped = true;
      await Promise.all(running);
      await Promise.all([model.apiSessions.flush(), model.posture.stored.flush()]);
    },
  };
}

/** Work that is left out while the same work still runs. */
function alone(work: () => Promise<void>): () => Promise<void> {
  let isRunning = false;
  return async () => {
    if (isRunning) return;
    isRunning = true;
    try {
      await work();
    } finally {
      isRunning = false;
    }
  };
}
