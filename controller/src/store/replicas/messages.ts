import type pg from "pg";
import { ask } from "../postgres/store-client.ts";

/** What the processes on one database tell each other by NOTIFY: as short as may be, because PostgreSQL keeps it in a queue. */

/** The channel that all of them listen on. */
export const CHANNEL = "sallyport_change";

export type ReplicaMessage =
  /** `from` has written; `count` numbers its messages. */
  | { readonly kind: "written"; readonly from: string; readonly count: number }
  /** `from` knows everything that `to` had written when it sent the message of this number. */
  | { readonly kind: "seen"; readonly from: string; readonly to: string; readonly count: number };

/**
 * A message is a transaction of its own, which others wait for. It waits neither for the disk nor for standbys: no message outlives the server, and the log
 * that messages are about has been committed before.
 */
const NOTIFY = `WITH unflushed AS (SELECT set_config('synchronous_commit', 'off', true))
  SELECT pg_notify($1, message) FROM unflushed, unnest($2::text[]) AS message`;

export async function notify(client: pg.ClientBase, messages: readonly string[], answerMs: number): Promise<void> {
  await ask(client, NOTIFY, [CHANNEL, messages], answerMs);
}

export function messageText(message: ReplicaMessage): string {
  const { kind, from, count } = message;
  return kind === "written" ? `w ${from} ${count}` : `s ${from} ${count} ${message.to}`;
}

/** Undefined for a message of a command, which says only that something was written. */
export function readMessage(text: string | undefined): ReplicaMessage | undefined {
  const [kind, from = "", number, to = ""] = (text ?? "").split(" ");
  const count = Number(number);
  if (from === "" || !Number.isSafeInteger(count)) return undefined;
  if (kind === "w") return { kind: "written", from, count };
  if (kind === "s" && to !== "") return { kind: "seen", from, to, count };
  return undefined;
}
