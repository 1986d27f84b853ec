import type pg from "pg";
import { ask } from "./ask.ts";

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
 * How many times {@link ANSWER_MS} a statement of a request waits for its answer: longer than the server works on it ({@link REQUEST_SETTINGS}). Then the server is
 * taken for silent, and the connection ends.
 */
export const STATEMENT_ANSWERS = 3;

/** Allows the statements of one transaction five minutes each. */
export const LONG_STATEMENTS = "SET LOCAL statement_timeout = '5min'";

/** How long such a statement waits for its answer. */
export const LONG_ANSWER_MS = 320_000;

/**
 * Settings of the connections that serve requests. No statement outlasts the request that it belongs to, no lock is waited for longer, and a
 * transaction whose program forgot it holds nothing for ever.
 */
const REQUEST_SETTINGS =
  "SET statement_timeout = '10s'; SET lock_timeout = '9s'; SET idle_in_transaction_session_timeout = '60s'";

/** Gives a new connection the settings of those that serve requests. */
export async function setForRequests(client: pg.ClientBase, answerMs: number): Promise<void> {
  await ask(client, REQUEST_SETTINGS, undefined, answerMs);
}
