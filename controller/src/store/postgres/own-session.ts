import { randomUUID } from "node:crypto";
import type pg from "pg";
import { ask, withClient } from "./store-client.ts";

/** A pooler may have given a transaction by chance to another session than the one that was just used. */
const ROUNDS = 3;

/** A pooler lends a client a session of the server for a transaction or a statement only. */
export class SharedSessionError extends Error {
  override name = "SharedSessionError";

  constructor() {
    super(
      "a connection pooler in front of it shares the server's sessions between clients, as PgBouncer does in transaction and statement mode: " +
        "locks, notifications, settings and prepared statements of the controller need sessions of their own; connect to the server itself, " +
        "or set pool_mode = session in the pooler for this database",
    );
  }
}

/**
 * Makes sure that the connection of `client` has a session of its own: a mark that one connection leaves in its session is there at its next statement, and
 * no other connection sees it, also while that one has a transaction open. No server without a pooler can fail this.
 * @throws SharedSessionError
 */
export async function requireOwnSession(
  client: pg.ClientBase,
  connection: pg.ClientConfig,
  answerMs: number,
): Promise<void> {
  await withClient(connection, async (other) => {
    for (let round = 0; round < ROUNDS; round++) {
      const mark = randomUUID();
      await ask(client, "SELECT set_config('sallyport.session', $1, false)", [mark], answerMs);
      await ask(other, "BEGIN", undefined, answerMs).catch((error: { code?: string }) => {
        // Statement mode, in which there are no transactions.
        throw /statement pooling/.test(String(error)) ? new SharedSessionError() : error;
      });
      const isSeen = (await markOf(other, answerMs)) === mark;
      const isKept = (await markOf(client, answerMs)) === mark;
      await ask(other, "ROLLBACK", undefined, answerMs);
      if (isSeen || !isKept) throw new SharedSessionError();
    }
  });
}

async function markOf(client: pg.ClientBase, answerMs: number): Promise<string | null | undefined> {
  const text = "SELECT current_setting('sallyport.session', true) AS mark";
  return (await ask<{ mark: string | null }>(client, text, undefined, answerMs))[0]?.mark;
}
