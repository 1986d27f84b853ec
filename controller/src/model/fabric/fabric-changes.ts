import type { ApiSessionRecord, ModelChange } from "../../fabric/ports.ts";
import type { ChangeRow } from "../../store/change-log.ts";
import type { ApiSessionBefore, ChangeKind, SessionBefore } from "../../store/logged-changes.ts";
import type { ModelContext } from "../context.ts";

/** Changes of these can take away what somebody may do, except when they come about. */
const ACCESS_KINDS: ReadonlySet<string> = new Set<ChangeKind>([
  "service_policy",
  "identity",
  "service",
  "posture_check",
]);

type Handler = (change: ModelChange) => void;

/** Gives the fabric the changes of the log that concern routers, in the order in which they were written. */
export class FabricChanges {
  readonly #ctx: ModelContext;
  readonly #sessionRecords: (ids: readonly string[]) => Promise<readonly ApiSessionRecord[]>;
  readonly #handlers = new Set<Handler>();
  #unsubscribe: (() => void) | undefined;

  constructor(ctx: ModelContext, sessionRecords: (ids: readonly string[]) => Promise<readonly ApiSessionRecord[]>) {
    this.#ctx = ctx;
    this.#sessionRecords = sessionRecords;
  }

  add(handler: Handler): () => void {
    this.#handlers.add(handler);
    this.#unsubscribe ??= this.#ctx.store.changes.subscribe({
      name: "fabric",
      onChanges: (rows) => this.#apply(rows),
      onReset: () => this.#reload(),
    });
    return () => {
      this.#handlers.delete(handler);
      if (this.#handlers.size === 0) this.close();
    };
  }

  close(): void {
    this.#unsubscribe?.();
    this.#unsubscribe = undefined;
  }

  async #apply(rows: readonly ChangeRow[]): Promise<void> {
    const changed = rows.filter((row) => row.kind === "api_session" && row.op !== "delete").map((row) => row.key);
    const records = changed.length === 0 ? [] : await this.#sessionRecords([...new Set(changed)]);
    const sessions = new Map(records.map((record) => [record.id, record]));
    for (const row of rows) {
      const change = changeOf(row, sessions);
      if (change !== undefined) for (const handler of this.#handlers) handler(change);
    }
    if (rows.some((row) => ACCESS_KINDS.has(row.kind) && row.op !== "create")) {
      for (const handler of this.#handlers) handler({ kind: "access-changed" });
    }
  }

  #reload(): void {
    for (const handler of this.#handlers) handler({ kind: "changes-lost" });
  }
}

function changeOf(row: ChangeRow, sessions: ReadonlyMap<string, ApiSessionRecord>): ModelChange | undefined {
  const isGone = row.op === "delete";
  switch (row.kind) {
    case "api_session": {
      if (isGone) {
        const before = row.before as ApiSessionBefore | null;
        return { kind: "api-session-removed", id: row.key, token: before?.token ?? "" };
      }
      const session = sessions.get(row.key);
      // Already gone again: its removal follows.
      if (session === undefined) return undefined;
      // Routers did not know of a session whose one-time code was still to be given.
      const isNew = row.op === "create" || (row.before as { isNowFull?: boolean } | null)?.isNowFull === true;
      return { kind: isNew ? "api-session-added" : "api-session-updated", session };
    }
    case "session": {
      const before = row.before as SessionBefore | null;
      if (!isGone) return undefined;
      const gone = { kind: "session-removed", id: row.key, token: before?.token ?? "" } as const;
      if (before === null) return gone;
      const { identityId, serviceId, type } = before;
      return { ...gone, session: { identityId, serviceId, type } };
    }
    case "router":
      return { kind: isGone ? "router-removed" : "router-changed", routerId: row.key };
    case "service":
      return isGone ? { kind: "service-removed", serviceId: row.key } : undefined;
    case "terminator":
      return isGone ? { kind: "terminator-removed", terminatorId: row.key } : undefined;
    default:
      return undefined;
  }
}
