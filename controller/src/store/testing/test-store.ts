import { randomBytes } from "node:crypto";
import { connect } from "node:net";
import { text } from "node:stream/consumers";
import { setTimeout as delay } from "node:timers/promises";
import { type Logger, silentLogger } from "@sallyport/wire";
import { Kysely, PostgresDialect, type PostgresPool, type PostgresPoolClient, sql } from "kysely";
import pg from "pg";
import { openStore, type Store } from "../database.ts";
import type { PostgresConnection } from "../postgres/embedded.ts";
import type { Database } from "../schema.ts";
import { urlOf } from "./oldest-server.ts";
import { TEMPLATE, TEST_SERVER_VARIABLE, TestServer } from "./test-server.ts";

export interface TestStore {
  store: Store;
  /** For further clients of the same database. */
  connection: PostgresConnection;
  /** Closes the store and removes its database. */
  drop(): Promise<void>;
}

export interface TestStoreOptions {
  log?: Logger;
  hold?: boolean;
  /** Another way to the same database, for example through something that can be cut. */
  through?(connection: PostgresConnection): Promise<PostgresConnection>;
}

/** An empty database with the whole schema, for one test or one file of tests; about 60 ms. */
export async function testStore(options: TestStoreOptions = {}): Promise<TestStore> {
  const made = await testDatabase();
  const { drop } = made;
  const connection = (await options.through?.(made.connection)) ?? made.connection;
  const store = await openStore({
    // A server that asks for a password is reached as a user reaches theirs.
    ...(connection.password === undefined ? { connection } : { url: urlOf(connection) }),
    hold: options.hold ?? false,
    poolSize: 10,
    log: options.log ?? silentLogger,
  });
  return {
    store,
    connection,
    async drop() {
      await store.close();
      await drop();
    },
  };
}

/** The database of a store, with `around` in place of each query: it gets the text and a function that runs it. For tests of races and failures. */
export function interposed(
  { pool }: Pick<Store, "pool">,
  around: (text: string, run: () => Promise<unknown>) => Promise<unknown>,
): Kysely<Database> {
  const between: PostgresPool = {
    options: {},
    connect: async () => {
      const client = await pool.connect();
      const query = (text: string, values: readonly unknown[]) => around(text, () => client.query(text, [...values]));
      return { query, release: () => client.release() } as unknown as PostgresPoolClient;
    },
    end: async () => undefined,
  };
  return new Kysely<Database>({ dialect: new PostgresDialect({ pool: between }) });
}

/** As {@link testStore}, the database only: for tests that start whole programs on it. */
export async function testDatabase(): Promise<{ connection: PostgresConnection; drop(): Promise<void> }> {
  const server = await serverConnection();
  const database = `test_${process.pid}_${randomBytes(4).toString("hex")}`;
  await asAdministrator(server, `CREATE DATABASE ${database} TEMPLATE ${TEMPLATE} STRATEGY wal_log`);
  return {
    connection: { ...server, database },
    drop: async () => {
      await asAdministrator(server, `DROP DATABASE ${database} WITH (FORCE)`);
      if (own) {
        const last = own;
        own = undefined;
        await (await last).stop();
      }
    },
  };
}

/**
 * Resolves when every transaction of the server that is open now has ended. Tests that run at the same time have databases of their own, but one server, and
 * what they have open holds back what counts as past.
 */
export async function settled({ db }: Pick<Store, "db">): Promise<void> {
  const { rows } = await sql<{ next: string }>`SELECT pg_snapshot_xmax(pg_current_snapshot())::text AS next`.execute(
    db,
  );
  for (;;) {
    const { rows: now } = await sql<{ isPast: boolean }>`
      SELECT pg_snapshot_xmin(pg_current_snapshot()) >= ${rows[0]?.next ?? "0"}::xid8 AS "isPast"`.execute(db);
    if (now[0]?.isPast) return;
    await delay(5);
  }
}

let asked: Promise<PostgresConnection> | undefined;
let own: Promise<TestServer> | undefined;

async function serverConnection(): Promise<PostgresConnection> {
  const path = process.env[TEST_SERVER_VARIABLE];
  if (path) {
    asked ??= ask(path);
    return asked;
  }
  // Outside a test run: a server for this process, stopped when a database of it is dropped.
  own ??= TestServer.start();
  return (await own).connection;
}

async function ask(path: string): Promise<PostgresConnection> {
  const answer = JSON.parse(await text(connect(path))) as { connection?: PostgresConnection; error?: string };
  if (!answer.connection) throw new Error(`the test run has no database server: ${answer.error}`);
  return answer.connection;
}

async function asAdministrator(server: PostgresConnection, statement: string): Promise<void> {
  const client = new pg.Client({ ...server, database: "postgres" });
  await client.connect();
  try {
    await client.query(statement);
  } finally {
    await client.end();
  }
}

/** Resolves when at least so many statements of the database wait for locks, or `isDone` says that none will. */
export async function lockWaits(db: Store["db"], count: number, isDone = () => false): Promise<void> {
  for (;;) {
    const { rows } = await sql`SELECT 1 FROM pg_stat_activity
      WHERE datname = current_database() AND wait_event_type = 'Lock'`.execute(db);
    if (isDone() || rows.length >= count) return;
    await delay(5);
  }
}
