/** What the processes on one database tell each other by NOTIFY: as short as may be, because PostgreSQL keeps it in a queue. */

/** The channel that all of them listen on. */
export const CHANNEL = "sallyport_change";

export type ReplicaMessage =
  /** `from` has written; `count` numbers its messages. */
  | { readonly kind: "written"; readonly from: string; readonly count: number }
  /** `from` knows everything that `to` had written when it sent the message of this number. */
  | { readonly kind: "seen"; readonly from: string; readonly to: string; readonly count: number };

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
