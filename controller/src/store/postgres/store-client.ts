import type { Socket } from "node:net";
import pg from "pg";

/** How long a server may take to end a connection. */
const END_MS = 2_000;

/** A client that is ended within two seconds: a server that has gone silent does not close its side. */
export class StoreClient extends pg.Client {
  override end(): Promise<void>;
  override end(callback: (error: Error) => void): void;
  override end(callback?: (error: Error) => void): Promise<void> | undefined {
    // Not earlier: TLS puts another socket in its place.
    const timer = setTimeout(() => socketOf(this).destroy(), END_MS).unref();
    this.once("end", () => clearTimeout(timer));
    if (callback === undefined) return super.end();
    super.end(callback);
    return undefined;
  }
}

/** The socket of a client, which the library's types do not show. */
export function socketOf(client: pg.ClientBase): Socket {
  return (client as unknown as { connection: { stream: Socket } }).connection.stream;
}

/** Does a query run on the client? The library's types do not show that, either. */
export function hasQuery(client: pg.ClientBase): boolean {
  return Boolean((client as unknown as { _activeQuery: unknown })._activeQuery);
}

/**
 * The rows of one query. Fails when the server does not answer within `answerMs`, because a connection does not report that its server has vanished. The
 * connection is unusable then.
 */
export async function ask<Row extends pg.QueryResultRow>(
  client: pg.ClientBase,
  text: string,
  values: unknown[] | undefined,
  answerMs: number,
): Promise<Row[]> {
  // The library's types know `query_timeout` of whole clients only.
  const query = { text, values, query_timeout: answerMs } as pg.QueryConfig;
  const { rows } = await client.query<Row>(query);
  return rows;
}

/** For every lasting connection to PostgreSQL: no wait is without end, neither for a free or new connection nor for a server that has silently gone. */
export const CONNECTION_LIMITS = {
  connectionTimeoutMillis: 10_000,
  keepAlive: true,
  keepAliveInitialDelayMillis: 10_000,
} as const;

/** How long a request waits for a free connection: shorter than the time that it has. */
export const POOL_WAIT_MS = 5_000;

/** How long the server may take to answer a short query. */
export const ANSWER_MS = 5_000;

/**
 * How many times {@link ANSWER_MS} a statement of a request waits for its answer: longer than the server works on it ({@link REQUEST_SETTINGS}). Then the
 * server is taken for silent, and the connection ends.
 */
export const STATEMENT_ANSWERS = 3;

/** Allows the statements of one transaction five minutes each. */
export const LONG_STATEMENTS = "SET LOCAL statement_timeout = '5min'";

/** How long such a statement waits for its answer. */
export const LONG_ANSWER_MS = 320_000;

/**
 * Settings of the connections that serve requests. No statement outlasts its request, no wait for a lock is longer, and a forgotten transaction ends after a
 * minute.
 */
const REQUEST_SETTINGS =
  "SET statement_timeout = '10s'; SET lock_timeout = '9s'; SET idle_in_transaction_session_timeout = '60s'";

/** Gives a new connection the settings of those that serve requests. */
export async function setForRequests(client: pg.ClientBase, answerMs: number): Promise<void> {
  await ask(client, REQUEST_SETTINGS, undefined, answerMs);
}

/** Runs `work` on a connection of its own, which is ended afterwards. Of {@link CONNECTION_LIMITS}, `config` can replace the time to connect only. */
export async function withClient<T>(config: pg.ClientConfig, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const { connectionTimeoutMillis = CONNECTION_LIMITS.connectionTimeoutMillis } = config;
  const client = new StoreClient({ ...config, ...CONNECTION_LIMITS, connectionTimeoutMillis });
  client.on("error", () => undefined);
  try {
    await client.connect();
    return await work(client);
  } finally {
    await client.end().catch(() => undefined);
  }
}
