import { CONTROLLER_DEFAULTS } from "@sallyport/controller-config";
import { type Logger, silentLogger } from "@sallyport/wire";
import { Kysely, type Transaction } from "kysely";
import pg from "pg";
import { ChangeHints } from "./changes/change-hints.ts";
import { ChangeLog } from "./changes/change-log.ts";
import { ClockWatch } from "./clock/clock-watch.ts";
import { DatabaseClock, OWN_CLOCK, type StoreClock } from "./clock/database-clock.ts";
import type { Holding } from "./driver/connection.ts";
import { storeDialect } from "./driver/driver.ts";
import { Outage } from "./outage.ts";
import { DatabaseServers } from "./postgres/database-servers.ts";
import { type EmbeddedOptions, EmbeddedPostgres } from "./postgres/embedded.ts";
import { type DatabaseHeldError, HolderLock, requireUnheld } from "./postgres/holder-lock.ts";
import { requireOwnSession } from "./postgres/own-session.ts";
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
import { MEMORY_MS, ReplicaLink } from "./replicas/replica-link.ts";
import type { OtherReplica } from "./replicas/spread.ts";
import { noteWrite } from "./request-signal.ts";
import { withCondition } from "./row-version.ts";
import type { Database, EngineTables } from "./schema.ts";
import { requireLevel } from "./upgrade/schema-state.ts";
import { type ProgramSchema, SchemaUpgrade } from "./upgrade/schema-upgrade.ts";

export interface StoreOptions {
  /** A PostgreSQL of the user's: `postgres://user:password@host/database`, also with several hosts. */
  url?: string;
  /** Or our own, beside the controller. */
  embedded?: Omit<EmbeddedOptions, "log" | "onSurvivor">;
  /** Or one that runs already, as `pg` takes it. */
  connection?: pg.ClientConfig;
  /** Most connections at once for queries; three more are for the lock, the hints and the migrations. Default 16. */
  poolSize?: number;
  /** Take the right to be the only controller on the database; default true, except for a replica. */
  hold?: boolean;
  /** Be one of several controllers on the database, under an id of its own. */
  replica?: { readonly id: string; readonly version?: string };
  /** What this program knows of the schema; default: all migrations. */
  program?: ProgramSchema;
  /** Called when the database belongs to another controller for good: this one must stop. */
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
  /** The time that decides about what is stored: that of the database. */
  readonly clock: StoreClock;
  /** Whether the database can be used now. */
  readonly outage: Pick<Outage, "since">;
  /** How to reach the database with another client. */
  readonly connection: pg.ClientConfig;
  /** This process among those on the database. */
  readonly replica: Replica;
  /**
   * Runs `work` in one READ COMMITTED transaction. It is run again, up to five times, when PostgreSQL ends it because of other
   * transactions (deadlock, serialisation failure), so it must have no effect but on the database. The change log is read afterwards.
   */
  transaction<T>(work: (trx: Transaction<Database>) => Promise<T>): Promise<T>;
  /** Stops reading, closes the connections, and stops the embedded server. */
  close(): Promise<void>;
}

/** A process among the controllers on one database. One that works alone leads as long as it runs. */
export interface Replica {
  /** Is it one of several, or may others come? */
  readonly isShared: boolean;
  /** The other processes on the database. */
  readonly others: readonly OtherReplica[];
  /** Is it told in time of what the others write? If not, it reads the log before it answers. */
  readonly isTold: boolean;
  /** Does it do what has to be done once? */
  readonly isLeader: boolean;
  /** Of this process; empty for one that works alone. */
  readonly instance: string;
  /**
   * Undefined while others may take over what this process has, because its lease ran out. Another number after each time when they could have.
   */
  readonly leaseTerm: number | undefined;
  /** Calls `listener` after every look at the leases. */
  onLook(listener: () => void): () => void;
  /** Writes through it are refused as soon as another process leads. */
  readonly leaderDb: Kysely<Database>;
  /** Calls `listener` when `isLeader` may have changed. */
  onLeadership(listener: () => void): () => void;
  /** Resolves when the others know what this process has written: before an answer that says so, and within a second. */
  known(): Promise<void>;
}

const MAX_TRIES = 5;
/** Connections for what the leader does. */
const LEADER_POOL = 2;
/** How often the time of the database is asked for: good clocks drift apart by a millisecond in that time. */
const CLOCK_MS = 10_000;
const OLDEST_SERVER = 150_000;

/**
 * Opens the store: starts the embedded server or reaches the given one, takes the right to be its only controller, brings the schema up
 * to date and starts following the change log.
 * @throws DatabaseHeldError naming the controller that holds the database; SchemaTooNewError, StoreError, MigrationError, EmbeddedPostgresError.
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
    let link: ReplicaLink | undefined;
    if (options.hold ?? options.replica === undefined) {
      const onLost = options.onLost ?? ((error) => log.error({ holder: error.holder }, error.message));
      const onRegained = (isNewLife: boolean) => void (isNewLife ? changes.restart() : changes.wake());
      const requireSchema = (client: pg.Client) => requireLevel(client, upgrade.level, answerMs);
      lock = await HolderLock.acquire({ connection, answerMs, requireSchema, onLost, onRegained, log });
      stops.push(lock.release.bind(lock));
    }
    const as = lock !== undefined ? "alone" : options.replica === undefined ? "command" : "replica";
    const upgrade: SchemaUpgrade = await SchemaUpgrade.run({ connection, answerMs, as, program: options.program, log });
    await lock?.begin();
    const outage = new Outage(log);
    const open = (max: number, holding: Holding | undefined, outage: Outage) => {
      const pool = poolOf(connection ?? {}, { max, answerMs, log });
      const db = new Kysely<Database>({
        dialect: storeDialect({
          ...{ pool, outage, holding, answerMs },
          onAppended: (isAwaited) => {
            if (isAwaited) noteWrite();
            changes.poke(isAwaited);
          },
        }),
        ...(onQuery && {
          log: ({ level, queryDurationMillis }) => onQuery(queryDurationMillis / 1_000, level === "query"),
        }),
      });
      stops.push(() => db.destroy());
      return { pool, db };
    };
    const { pool, db } = open(options.poolSize ?? CONTROLLER_DEFAULTS.poolSize, lock, outage);
    const databaseClock = new DatabaseClock(db);
    const clockWatch = new ClockWatch(databaseClock, log);
    const learnTime = async () => {
      await databaseClock.learn();
      clockWatch.look();
    };
    if (options.embedded === undefined) await learnTime();
    // A replica learns it with each renewal of its lease.
    if (options.embedded === undefined && options.replica === undefined) {
      const timer = setInterval(() => void learnTime().catch(() => undefined), CLOCK_MS).unref();
      stops.push(async () => clearInterval(timer));
    }
    const changes: ChangeLog = new ChangeLog({
      db: db as unknown as Kysely<EngineTables>,
      // Beside a controller that works alone only commands read the database.
      onLocalWrite: (isAwaited) => (link ?? hints)?.written(isAwaited),
      isTold: () => lock !== undefined || link?.isTold === true,
      ...(options.replica && { memoryMs: MEMORY_MS, requiresLife: true }),
      isHeld: () => lock?.isHeld ?? true,
      ...(options.changeLogSeconds !== undefined && { maxAgeSeconds: options.changeLogSeconds }),
      log,
    });
    let hints: ChangeHints | undefined;
    if (options.replica === undefined) {
      const heard = new ChangeHints({ connection, answerMs, onHint: () => void changes.wake(), log });
      await heard.start();
      stops.push(() => heard.close());
      if (lock === undefined) hints = heard;
    } else {
      const onLost = options.onLost ?? ((error) => log.error({ holder: error.holder }, error.message));
      const { id: replicaId, version } = options.replica;
      const readLog = () => changes.hinted();
      const own = { replicaId, version, level: upgrade.level, clock: databaseClock };
      link = new ReplicaLink({ connection, answerMs, ...own, readLog, onLost, log });
      link.onLook(() => clockWatch.look());
      stops.push(link.close.bind(link));
      await link.start();
    }
    await changes.start();
    stops.push(() => changes.close());
    upgrade.follow(() => (link === undefined ? lock?.isHeld === true : link.isLeader));
    stops.push(() => upgrade.close());
    // That this process does not lead is no outage.
    const leaderDb = link === undefined ? db : open(LEADER_POOL, leaderHolding(link), new Outage(silentLogger)).db;
    const alone = {
      ...{ isShared: false, others: [], isTold: true, isLeader: true, instance: "", leaseTerm: 0 },
      onLeadership: () => () => undefined,
      onLook: () => () => undefined,
      known: async () => undefined,
    };
    return {
      ...{ db, pool, changes, outage, connection, close },
      clock: options.embedded === undefined ? databaseClock : OWN_CLOCK,
      replica: link === undefined ? { ...alone, leaderDb } : replicaOf(link, leaderDb),
      transaction: (work) => transaction(db, work),
    };
  } catch (error) {
    await close();
    throw connection !== undefined && isSilence(error) ? storeErrorOf(connection, error) : error;
  }
}

function poolOf(
  connection: pg.ClientConfig,
  { max, answerMs, log }: { readonly max: number; readonly answerMs: number; readonly log: Logger },
): pg.Pool {
  const pool = new pg.Pool({
    ...connection,
    ...CONNECTION_LIMITS,
    connectionTimeoutMillis: POOL_WAIT_MS,
    query_timeout: STATEMENT_ANSWERS * answerMs,
    Client: StoreClient,
    max,
    application_name: "sallyport",
    // See driver/driver.ts. The library's types do not know it yet.
    ...{ pipeline: true },
    onConnect: (client) => setForRequests(client, answerMs),
  });
  // The pool listens to idle connections only. Code that uses a lost connection learns of it from the query that fails; without
  // a listener of its own the loss would end the process.
  pool.on("connect", (client) => client.on("error", () => undefined));
  pool.on("error", (error) => log.debug({ error: error.message }, "an idle connection to the database was lost"));
  return pool;
}

/** The right of the leader to write, as the driver asks for it. */
function leaderHolding(link: ReplicaLink): Holding {
  return {
    get isHeld() {
      return link.isLeader;
    },
    get epoch() {
      return link.epoch;
    },
    fenced: () => link.fenced(),
  };
}

function replicaOf(link: ReplicaLink, leaderDb: Kysely<Database>): Replica {
  return {
    isShared: true,
    get others() {
      return link.others;
    },
    get isTold() {
      return link.isTold;
    },
    get isLeader() {
      return link.isLeader;
    },
    instance: link.instance,
    get leaseTerm() {
      return link.leaseTerm;
    },
    onLook: (listener) => link.onLook(listener),
    leaderDb,
    onLeadership: (listener) => link.onLeadership(listener),
    known: () => link.known(),
  };
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
  const config = connection ?? new DatabaseServers(url ?? "", log).connection;
  const text = "SELECT current_setting('server_version_num') AS version, current_setting('server_version') AS name";
  const place = { ...config, connectionTimeoutMillis: 2 * answerMs };
  const [server] = await withClient(place, async (client) => {
    await requireOwnSession(client, place, answerMs);
    return ask<{ version: string; name: string }>(client, text, [], answerMs);
  }).catch((error: unknown) => {
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
      return await withCondition(db, work);
    } catch (error) {
      const { code } = error as { code?: string };
      if (attempt === MAX_TRIES || (code !== "40P01" && code !== "40001")) throw error;
    }
  }
}
