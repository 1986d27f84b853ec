import { CONTROLLER_DEFAULTS } from "@sallyport/controller-config";
import type { Logger } from "@sallyport/wire";
import { Kysely, PostgresDialect, type Transaction } from "kysely";
import pg from "pg";
import { ChangeHints } from "./change-hints.ts";
import { ChangeLog } from "./change-log.ts";
import { storeDialect } from "./driver/driver.ts";
import { migrate } from "./migrate.ts";
import { migrations } from "./migrations/all.ts";
import { Outage } from "./outage.ts";
import { type EmbeddedOptions, EmbeddedPostgres } from "./postgres/embedded.ts";
import { type DatabaseHeldError, HolderLock, requireUnheld } from "./postgres/holder-lock.ts";
import { longWorkPool } from "./postgres/long-work.ts";
import {
  ANSWER_MS,
  ask,
  CONNECTION_LIMITS,
  POOL_WAIT_MS,
  STATEMENT_ANSWERS,
  StoreClient,
  setForRequests,
  withClient,
} from "./postgres/store-client.ts";
import { isSilence, StoreError, storeErrorOf } from "./postgres/store-error.ts";
import type { Database, EngineTables } from "./schema.ts";

export interface StoreOptions {
  /** A PostgreSQL of the user's: `postgres://user:password@host/database`. */
  url?: string;
  /** Or our own, beside the controller. */
  embedded?: Omit<EmbeddedOptions, "log" | "onSurvivor">;
  /** Or one that runs already, as `pg` takes it. */
  connection?: pg.ClientConfig;
  /** Most connections at once for queries; three more are for the lock, the hints and the migrations. Default 16. */
  poolSize?: number;
  /** Take the right to be the only controller on the database; default true. */
  hold?: boolean;
  /** Called when that right was lost for good: the controller must stop. */
  onLost?: (error: DatabaseHeldError) => void;
  /** How long the server may take to answer a short query; default five seconds. */
  answerMs?: number;
  /** How long changes are kept for those who follow them; default one hour. */
  changeLogSeconds?: number;
  /** Called after every statement: how long it took, and whether it succeeded. */
  onQuery?: (seconds: number, isOk: boolean) => void;
  log: Logger;
}

/** The store: PostgreSQL with our schema, and the log of its changes. */
export interface Store {
  readonly db: Kysely<Database>;
  readonly pool: pg.Pool;
  readonly changes: ChangeLog;
  /** Whether the database can be used now. */
  readonly outage: Pick<Outage, "since">;
  /** How to reach the database with another client. */
  readonly connection: pg.ClientConfig;
  /**
   * Runs `work` in one READ COMMITTED transaction. It is run again, up to five times, when PostgreSQL ends it because of other
   * transactions (deadlock, serialisation failure), so it must have no effect but on the database. The change log is read afterwards.
   */
  transaction<T>(work: (trx: Transaction<Database>) => Promise<T>): Promise<T>;
  /** Stops reading, closes the connections, and stops the embedded server. */
  close(): Promise<void>;
}

const MAX_TRIES = 5;
const OLDEST_SERVER = 150_000;

/**
 * Opens the store: starts the embedded server or reaches the given one, takes the right to be its only controller, brings the schema up
 * to date and starts following the change log.
 * @throws DatabaseHeldError naming the controller that holds the database; StoreError, MigrationError, EmbeddedPostgresError.
 */
export async function openStore(options: StoreOptions): Promise<Store> {
  const { log, onQuery, answerMs = ANSWER_MS } = options;
  let connection: pg.ClientConfig | undefined;
  const stops: (() => Promise<unknown>)[] = [];
  const close = async () => {
    for (const stop of stops.splice(0).reverse()) await stop();
  };
  try {
    connection = await reach(options, stops, answerMs);
    let lock: HolderLock | undefined;
    if (options.hold ?? true) {
      const onLost = options.onLost ?? ((error) => log.error({ holder: error.holder }, error.message));
      const onRegained = (isNewLife: boolean) => void (isNewLife ? changes.restart() : changes.wake());
      lock = await HolderLock.acquire({ connection, answerMs, onLost, onRegained, log });
      stops.push(lock.release.bind(lock));
    }
    const applied = await migrateApart(connection, answerMs, log);
    if (applied.length > 0) log.info({ migrations: applied }, "database schema brought up to date");
    await lock?.begin();
    const pool = new pg.Pool({
      ...connection,
      ...CONNECTION_LIMITS,
      connectionTimeoutMillis: POOL_WAIT_MS,
      query_timeout: STATEMENT_ANSWERS * answerMs,
      Client: StoreClient,
      max: options.poolSize ?? CONTROLLER_DEFAULTS.poolSize,
      application_name: "sallyport",
      // See driver/driver.ts. The library's types do not know it yet.
      ...{ pipeline: true },
      onConnect: (client) => setForRequests(client, answerMs),
    });
    // The pool listens to idle connections only. Code that uses a lost connection learns of it from the query that fails; without
    // a listener of its own the loss would end the process.
    pool.on("connect", (client) => client.on("error", () => undefined));
    pool.on("error", (error) => log.debug({ error: error.message }, "an idle connection to the database was lost"));
    const outage = new Outage(log);
    let onAppended = (): void => undefined;
    const db = new Kysely<Database>({
      dialect: storeDialect({ pool, outage, onAppended: () => onAppended(), holding: lock, answerMs }),
      ...(onQuery && {
        log: ({ level, queryDurationMillis }) => onQuery(queryDurationMillis / 1_000, level === "query"),
      }),
    });
    stops.push(() => db.destroy());
    const changes: ChangeLog = new ChangeLog({
      db: db as unknown as Kysely<EngineTables>,
      onLocalWrite: () => hints.notify(),
      isSoleWriter: options.hold ?? true,
      isHeld: () => lock?.isHeld ?? true,
      ...(options.changeLogSeconds !== undefined && { maxAgeSeconds: options.changeLogSeconds }),
      log,
    });
    const hints = new ChangeHints({ connection, answerMs, onHint: () => void changes.wake(), log });
    onAppended = () => changes.poke();
    await hints.start();
    stops.push(() => hints.close());
    await changes.start();
    stops.push(() => changes.close());
    return { db, pool, changes, outage, connection, close, transaction: (work) => transaction(db, work) };
  } catch (error) {
    await close();
    throw connection !== undefined && isSilence(error) ? storeErrorOf(connection, error) : error;
  }
}

/** On a connection of its own: those that serve requests belong to an epoch, which needs the schema. */
async function migrateApart(connection: pg.ClientConfig, answerMs: number, log: Logger): Promise<string[]> {
  const pool = longWorkPool(connection, "sallyport migrations", { answerMs, log });
  const db = new Kysely<never>({ dialect: new PostgresDialect({ pool }) });
  try {
    return await migrate(db, migrations);
  } finally {
    await db.destroy();
  }
}

async function reach(
  options: StoreOptions,
  stops: (() => Promise<unknown>)[],
  answerMs: number,
): Promise<pg.ClientConfig> {
  const { url, embedded, connection, log } = options;
  if ([url, embedded, connection].filter((way) => way !== undefined).length !== 1) {
    throw new StoreError("a store needs exactly one of: a database URL, an embedded database, a connection");
  }
  if (embedded) {
    const server = await EmbeddedPostgres.start({ ...embedded, log, onSurvivor: requireUnheld });
    stops.push(() => server.stop());
    return server.connection;
  }
  const config = connection ?? { connectionString: url ?? "" };
  const text = "SELECT current_setting('server_version_num') AS version, current_setting('server_version') AS name";
  const [server] = await withClient({ ...config, connectionTimeoutMillis: 2 * answerMs }, (client) =>
    ask<{ version: string; name: string }>(client, text, [], answerMs),
  ).catch((error: unknown) => {
    throw storeErrorOf(config, error);
  });
  if (Number(server?.version) < OLDEST_SERVER) {
    throw new StoreError(`the database server is PostgreSQL ${server?.name}: version 15 or newer is needed`);
  }
  return config;
}

async function transaction<T>(db: Kysely<Database>, work: (trx: Transaction<Database>) => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await db.transaction().execute(work);
    } catch (error) {
      const { code } = error as { code?: string };
      if (attempt === MAX_TRIES || (code !== "40P01" && code !== "40001")) throw error;
    }
  }
}
