import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { setTimeout as delay } from "node:timers/promises";
import type { Logger } from "@sallyport/wire";
import type pg from "pg";
import { LEADER_LOCK, type LockHolder, leaderLockHolder, leasesNow } from "../replicas/lease.ts";
import { beginEpoch, currentEpoch } from "./epoch.ts";
import { ANSWER_MS, ask, CONNECTION_LIMITS, StoreClient, withClient } from "./store-client.ts";
import { isSilence, storeErrorOf } from "./store-error.ts";

/** Another controller works on this database. The message names it. */
export class DatabaseHeldError extends Error {
  override name = "DatabaseHeldError";
  /** How the holder named itself: program, host and process number. */
  readonly holder: string;

  constructor(
    holder: string,
    since: string,
    message = `the database is in use by ${holder}${since}: only one controller may work on a database; stop that one first, or give this one a database of its own`,
  ) {
    super(message);
    this.holder = holder;
  }
}

const NAME_PREFIX = "sallyport-controller ";
const MAX_NAME_LENGTH = 63;
const AGAIN_MS = 100;
const FIRST_RECONNECT_MS = 500;
const RECONNECT_MS = 1_000;
/** How often the connection is asked whether it and the epoch still stand. */
const WATCH_MS = 2_000;

export interface HolderLockOptions {
  connection: pg.ClientConfig;
  /** The name of this controller in the error of a second one; default: host and process number. */
  name?: string;
  /** How long to wait for a holder that has just been killed: its server side ends a moment after it. */
  patienceMs?: number;
  /** How long the server may take to answer; default five seconds. */
  answerMs?: number;
  /** Asked before the controller goes on after a lost connection. Rejects with a DatabaseHeldError when it does not fit to the schema any more. */
  requireSchema?: (client: pg.Client) => Promise<void>;
  /** Called when another controller has taken the database: stop. Nothing is read or written from then on. */
  onLost: (error: DatabaseHeldError) => void;
  /** Called when the lock is held again after a lost connection. `isNewLife`: the numbers of earlier transactions are no longer valid. */
  onRegained?: (isNewLife: boolean) => void;
  log: Logger;
}

/**
 * The right to be the only controller on a database: an advisory lock of PostgreSQL, held by a connection of its own until the controller ends, in whatever
 * way; and an epoch, without which nothing is written ({@link beginEpoch}). The lock is lost with its connection: until the controller has it again, it
 * serves nothing. Source: docs/protocol/store.md, "One controller".
 */
export class HolderLock {
  readonly #options: HolderLockOptions;
  readonly #name: string;
  #client: pg.Client | undefined;
  #epoch: string | undefined;
  /** The epoch that was last begun here. It may run although its beginning failed: then the answer to the commit was lost. */
  #attempted: string | undefined;
  #closed = false;
  #timer: NodeJS.Timeout | undefined;
  readonly #answerMs: number;
  /** Server processes of our connections since the database was last held. */
  #pids: number[] = [];

  private constructor(options: HolderLockOptions) {
    this.#options = options;
    this.#answerMs = options.answerMs ?? ANSWER_MS;
    this.#name = (NAME_PREFIX + (options.name ?? `on ${hostname()}, process ${process.pid}`)).slice(0, MAX_NAME_LENGTH);
  }

  /** @throws DatabaseHeldError naming the holder; StoreError when the server does not answer in time */
  static async acquire(options: HolderLockOptions): Promise<HolderLock> {
    const lock = new HolderLock(options);
    lock.#hold(await lock.#connect());
    return lock;
  }

  /** Is the lock ours now, as far as can be known? */
  get isHeld(): boolean {
    return this.#client !== undefined;
  }

  /** For the setting `sallyport.epoch` of connections that write. */
  get epoch(): string | undefined {
    return this.#epoch;
  }

  /** Ends every other controller's right to write. The schema must be there. @throws DatabaseHeldError while replicas work on the database */
  async begin(): Promise<void> {
    const client = this.#client;
    if (client === undefined) throw new Error("the connection that holds the database was lost");
    // While no replica leads, the lock is free.
    const [replica] = await leasesNow(client, this.#answerMs);
    if (replica !== undefined) throw new DatabaseHeldError(replica.name, "");
    if (await this.#beginEpoch(client)) {
      this.#options.log.info({}, "the database begins a new life: change log and router data model start from empty");
    }
    this.#watch(client);
  }

  /** @returns whether a new life began */
  async #beginEpoch(client: pg.Client): Promise<boolean> {
    const epoch = randomUUID();
    this.#attempted = epoch;
    const isNewLife = await beginEpoch(client, this.#name, epoch, this.#answerMs);
    this.#epoch = epoch;
    return isNewLife;
  }

  /** A write was refused: another controller's epoch runs. */
  fenced(): void {
    const client = this.#client;
    if (this.#closed || client === undefined) return;
    this.#client = undefined;
    clearTimeout(this.#timer);
    void this.#whoseEpoch(client).then((error) => {
      client.end().catch(() => undefined);
      if (!this.#closed) this.#options.onLost(error);
    });
  }

  async release(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#timer);
    const client = this.#client;
    this.#client = undefined;
    await client?.end().catch(() => undefined);
  }

  /** A connection that has the lock. */
  async #connect(): Promise<pg.Client> {
    const { connection, patienceMs = 3_000 } = this.#options;
    const client = new StoreClient({ ...connection, ...CONNECTION_LIMITS, application_name: this.#name });
    client.on("error", (error) => this.#lost(client, error));
    client.on("end", () => this.#lost(client, undefined));
    try {
      await client.connect();
      this.#pids.push(processOf(client));
      const deadline = performance.now() + patienceMs;
      for (;;) {
        if (await tryLock(client, this.#answerMs)) return client;
        if (performance.now() > deadline) throw await holderError(client, this.#answerMs);
        // A connection that is lost here may live on at the server, for hours.
        await ask(
          client,
          `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
           WHERE pid = ANY ($1) AND pid <> pg_backend_pid() AND application_name = $2`,
          [this.#pids, this.#name],
          this.#answerMs,
        );
        await delay(AGAIN_MS);
      }
    } catch (error) {
      client.end().catch(() => undefined);
      throw isSilence(error) ? storeErrorOf(connection, error) : error;
    }
  }

  #hold(client: pg.Client): void {
    this.#client = client;
    this.#pids = [processOf(client)];
    if (this.#epoch !== undefined) this.#watch(client);
  }

  #lost(client: pg.Client, error: unknown): void {
    if (this.#closed || this.#client !== client) return;
    this.#client = undefined;
    clearTimeout(this.#timer);
    this.#options.log.warn(
      { error: String(error ?? "connection ended") },
      "the connection that holds the database was lost: nothing is served until it is taken again",
    );
    client.end().catch(() => undefined);
    this.#again(FIRST_RECONNECT_MS);
  }

  #watch(client: pg.Client): void {
    this.#timer = setTimeout(async () => {
      try {
        const found = await currentEpoch(client, this.#answerMs);
        if (this.#client !== client) return;
        if (found?.epoch !== this.#epoch) this.fenced();
        else this.#watch(client);
      } catch (error) {
        this.#lost(client, error);
      }
    }, WATCH_MS).unref();
  }

  #again(pauseMs: number): void {
    this.#timer = setTimeout(async () => {
      try {
        const client = await this.#connect();
        await this.#regain(client).catch((error: unknown) => {
          client.end().catch(() => undefined);
          throw error;
        });
      } catch (error) {
        if (this.#closed) return;
        if (error instanceof DatabaseHeldError) this.#options.onLost(error);
        else this.#again(RECONNECT_MS);
      }
    }, pauseMs).unref();
  }

  /** Goes on with the lock, unless another controller had it meanwhile. @throws DatabaseHeldError */
  async #regain(client: pg.Client): Promise<void> {
    let isNewLife = false;
    if (this.#epoch !== undefined) {
      const found = await currentEpoch(client, this.#answerMs);
      if (found?.epoch !== this.#epoch) {
        if (found === undefined || found.epoch !== this.#attempted) throw await this.#whoseEpoch(client);
        // Only a new life is begun under a controller that goes on.
        isNewLife = true;
      }
      await this.#options.requireSchema?.(client);
      if (!found.isSameServer) isNewLife = await this.#beginEpoch(client);
      else this.#epoch = found.epoch;
    }
    if (this.#closed) throw new Error("closed meanwhile");
    this.#hold(client);
    this.#options.log.info({ isNewLife }, "the database is held again");
    // Before its first epoch a controller has read nothing that could have changed.
    if (this.#epoch !== undefined) this.#options.onRegained?.(isNewLife);
  }

  async #whoseEpoch(client: pg.Client): Promise<DatabaseHeldError> {
    const found = await currentEpoch(client, this.#answerMs).catch(() => undefined);
    return new DatabaseHeldError(
      found?.holder ?? "another controller",
      found === undefined ? "" : ` since ${found.beganAt.toISOString()}`,
    );
  }
}

/**
 * Asks whether a controller holds the database at `connection`; without a server, or while it starts or stops, none does.
 * @throws DatabaseHeldError when one does; Error when the server runs and does not answer the question
 */
export async function requireUnheld(connection: pg.ClientConfig, patienceMs = 20_000): Promise<void> {
  const deadline = performance.now() + patienceMs;
  for (;;) {
    try {
      return await askOnce(connection, Math.min(ANSWER_MS, patienceMs));
    } catch (error) {
      if (error instanceof DatabaseHeldError) throw error;
      if (isAway(error)) return;
      if (performance.now() > deadline) {
        throw new Error(
          `the database server does not say whether a controller works on it (${(error as Error).message}); stop the server first if none does`,
          { cause: error },
        );
      }
      await delay(AGAIN_MS);
    }
  }
}

function askOnce(connection: pg.ClientConfig, answerMs: number): Promise<void> {
  return withClient({ ...connection, connectionTimeoutMillis: answerMs }, async (client) => {
    const deadline = performance.now() + 3_000;
    while (await isHeld(client, answerMs)) {
      if (performance.now() > deadline) throw await holderError(client, answerMs);
      await delay(AGAIN_MS);
    }
  });
}

async function isHeld(client: pg.Client, answerMs: number): Promise<boolean> {
  if (!(await tryLock(client, answerMs))) return true;
  await ask(client, "SELECT pg_advisory_unlock($1, $2)", [...LEADER_LOCK], answerMs);
  return false;
}

async function tryLock(client: pg.Client, answerMs: number): Promise<boolean> {
  const text = "SELECT pg_try_advisory_lock($1, $2) AS held";
  const rows = await ask<{ held: boolean }>(client, text, [...LEADER_LOCK], answerMs);
  return rows[0]?.held === true;
}

/** Number of the server process that serves a connection. */
function processOf(client: pg.Client): number {
  return (client as unknown as { processID?: number }).processID ?? 0;
}

/** No server listens, or it starts, stops or has ended (SQLSTATE class 57P). */
function isAway(error: unknown): boolean {
  const { code = "", message = "" } = error as { code?: string; message?: string };
  return /^(ECONNREFUSED|ENOENT|ECONNRESET|EPIPE|57P0\d)$/.test(code) || /terminated unexpectedly/.test(message);
}

async function holderError(client: pg.ClientBase, answerMs: number): Promise<DatabaseHeldError> {
  const holder = await leaderLockHolder(client, answerMs);
  if (holder === undefined) return new DatabaseHeldError("another controller (which has just ended)", "");
  return heldBy(holder);
}

export function heldBy({ application, address, since }: LockHolder): DatabaseHeldError {
  const at = address === null ? "" : ` (${address})`;
  const from = since === null ? "" : ` since ${since.toISOString()}`;
  return new DatabaseHeldError(`${application || "another program"}${at}`, from);
}
