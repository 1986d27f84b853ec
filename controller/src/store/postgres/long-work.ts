import type pg from "pg";
import { ask } from "./ask.ts";
import { ANSWER_MS, CONNECTION_LIMITS } from "./connection-limits.ts";
import { StoreClient, socketOf } from "./store-client.ts";
import { silence } from "./store-error.ts";

/** If this program is gone and the server does not learn of it, locks of its connection end after this time. */
const WITHOUT_CLIENT = "SET idle_in_transaction_session_timeout = '5min'; SET idle_session_timeout = '5min'";
const LOOK_MS = 10_000;
/** Looks, one after the other, that must find nothing before the connection is given up. */
const MOST_SILENT_LOOKS = 3;

/**
 * Watches a connection whose statements may take as long as they need: migrations, a backup, a restore. Every ten seconds another connection asks the server
 * what it does for this one. After three looks without an answer, or while the server waits for this program and no byte passes, the connection ends with an
 * error. The watch ends with the connection.
 */
export async function watchLongWork(
  client: pg.ClientBase,
  connection: pg.ClientConfig,
  answerMs = ANSWER_MS,
): Promise<void> {
  // The query that runs fails with the error, too.
  client.on("error", () => undefined);
  await ask(client, WITHOUT_CLIENT, undefined, answerMs);
  const [row] = await ask<{ pid: number }>(client, "SELECT pg_backend_pid() AS pid", [], answerMs);
  const pid = row?.pid ?? 0;
  const lookMs = Math.min(LOOK_MS, 2 * answerMs);
  let silentLooks = 0;
  let passed = bytesOf(client);
  let timer: NodeJS.Timeout | undefined;
  let isEnded = false;
  const look = async () => {
    const isAtWork = await worksFor(pid, connection, answerMs).catch(() => false);
    const now = bytesOf(client);
    silentLooks = isAtWork || now !== passed ? 0 : silentLooks + 1;
    passed = now;
    if (isEnded) return;
    if (silentLooks < MOST_SILENT_LOOKS) next();
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

function bytesOf(client: pg.ClientBase): number {
  const { bytesRead, bytesWritten } = socketOf(client);
  return bytesRead + bytesWritten;
}

/** Does the server work for that connection? If it waits for its client, or has ended the connection, it does not. */
async function worksFor(pid: number, connection: pg.ClientConfig, answerMs: number): Promise<boolean> {
  const client = new StoreClient({
    ...connection,
    ...CONNECTION_LIMITS,
    connectionTimeoutMillis: answerMs,
    application_name: "sallyport watch",
  });
  client.on("error", () => undefined);
  try {
    await client.connect();
    const rows = await ask<{ isAtWork: boolean }>(
      client,
      `SELECT wait_event_type IS DISTINCT FROM 'Client' AS "isAtWork" FROM pg_stat_activity WHERE pid = $1`,
      [pid],
      answerMs,
    );
    return rows[0]?.isAtWork === true;
  } finally {
    await client.end();
  }
}
