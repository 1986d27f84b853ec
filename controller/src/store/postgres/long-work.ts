import type { Logger } from "@sallyport/wire";
import pg from "pg";
import { ANSWER_MS, ask, CONNECTION_LIMITS, hasQuery, StoreClient, socketOf, withClient } from "./store-client.ts";
import { silence } from "./store-error.ts";

/** If this program is gone and the server does not learn of it, locks of its connection end after this time. */
const WITHOUT_CLIENT = "SET idle_in_transaction_session_timeout = '5min'; SET idle_session_timeout = '5min'";
const LOOK_MS = 10_000;
/** Looks, one after the other, that must find nothing before the connection is given up. */
const MAX_SILENT_LOOKS = 3;

/** How long the server may refuse further connections before the watched one is given up. */
const REFUSED_MS = 30 * 60_000;

export interface LongWorkOptions {
  /** How long the server may take to answer a short query; default five seconds. */
  readonly answerMs?: number | undefined;
  /** Asked while a query runs. False while this program does other work, such as writing to a disk: then the server may wait. */
  readonly isWaitingForServer?: () => boolean;
  /** Default 30 minutes. */
  readonly refusedMs?: number;
  readonly log?: Logger | undefined;
}

/**
 * Watches a connection whose statements may take as long as they need: migrations, a backup, a restore. Every ten seconds another connection asks the server
 * what it does for this one. While a query runs and this program waits for the server, the connection ends with an error after three looks without an answer,
 * or while the server waits for this program and no byte passes. A server that refuses the other connection has answered: many clients may have used up its
 * connections. The watch ends with the connection.
 */
export async function watchLongWork(
  client: pg.ClientBase,
  connection: pg.ClientConfig,
  { answerMs = ANSWER_MS, isWaitingForServer = () => true, refusedMs = REFUSED_MS, log }: LongWorkOptions = {},
): Promise<void> {
  // The query that runs fails with the error, too.
  client.on("error", () => undefined);
  await ask(client, WITHOUT_CLIENT, undefined, answerMs);
  const [row] = await ask<{ pid: number }>(client, "SELECT pg_backend_pid() AS pid", [], answerMs);
  const pid = row?.pid ?? 0;
  const sameServer = client instanceof StoreClient ? { ...connection, at: client.place } : connection;
  const lookMs = Math.min(LOOK_MS, 2 * answerMs);
  let silentLooks = 0;
  let goodAt = performance.now();
  let isRefusalTold = false;
  let passed = bytesOf(client);
  let timer: NodeJS.Timeout | undefined;
  let isEnded = false;
  const look = async () => {
    const found = await lookFor(pid, sameServer, answerMs);
    const now = bytesOf(client);
    const isGood = found === "works" || now !== passed || !hasQuery(client) || !isWaitingForServer();
    passed = now;
    if (isEnded) return;
    if (isGood) goodAt = performance.now();
    silentLooks = isGood || found instanceof Error ? 0 : silentLooks + 1;
    if (!isGood && found instanceof Error && !isRefusalTold) {
      isRefusalTold = true;
      log?.warn(
        { error: found.message },
        "the database server refuses a further connection: whether it still works on a long statement is not known",
      );
    }
    if (silentLooks < MAX_SILENT_LOOKS && performance.now() - goodAt < refusedMs) next();
    else socketOf(client).destroy(silence());
  };
  const next = () => {
    timer = setTimeout(() => void look(), lookMs).unref();
  };
  client.once("end", () => {
    isEnded = true;
    clearTimeout(timer);
  });
  next();
}

/** A pool of one connection, which is watched by {@link watchLongWork}. */
export function longWorkPool(connection: pg.ClientConfig, name: string, options: LongWorkOptions): pg.Pool {
  const pool = new pg.Pool({
    ...connection,
    ...CONNECTION_LIMITS,
    max: 1,
    application_name: name,
    Client: StoreClient,
    onConnect: (client) => watchLongWork(client, connection, options),
  });
  pool.on("error", () => undefined);
  return pool;
}

function bytesOf(client: pg.ClientBase): number {
  const { bytesRead, bytesWritten } = socketOf(client);
  return bytesRead + bytesWritten;
}

/** Does the server work for that connection? Not if it waits for its client, or has ended the connection. Returns the error of a server that refuses to say. */
async function lookFor(
  pid: number,
  connection: pg.ClientConfig,
  answerMs: number,
): Promise<"works" | "rests" | "silent" | Error> {
  const config = { ...connection, connectionTimeoutMillis: answerMs, application_name: "sallyport watch" };
  const text = `SELECT wait_event_type IS DISTINCT FROM 'Client' AS "isAtWork" FROM pg_stat_activity WHERE pid = $1`;
  try {
    const rows = await withClient(config, (client) => ask<{ isAtWork: boolean }>(client, text, [pid], answerMs));
    return rows[0]?.isAtWork === true ? "works" : "rests";
  } catch (error) {
    return error instanceof pg.DatabaseError ? error : "silent";
  }
}
