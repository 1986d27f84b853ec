import { Listeners } from "@sallyport/async";
import type { ApiSessionRecord } from "@sallyport/wire";
import type { ModelChange } from "../../fabric/change-port.ts";
import type { ChangeRow } from "../../store/changes/change-log-reads.ts";
import type {
  ApiSessionBefore,
  AuthPolicyBefore,
  ChangeKind,
  IdentityBefore,
  MfaBefore,
  RevocationBefore,
  SessionBefore,
} from "../../store/changes/logged-write.ts";
import { isIdOfOidcSession } from "../../store/ids.ts";
import type { ModelContext } from "../context.ts";
import { identitiesRevoked, sessionRecords, sessionsWithoutCode } from "./fabric-sessions.ts";

/** Changes of these can take access away, except when they are created. */
const ACCESS_KINDS: ReadonlySet<string> = new Set<ChangeKind>([
  "service_policy",
  "identity",
  "service",
  "posture_check",
]);

/** Beyond this number, routers get all sessions again: that takes fewer messages. */
const MAX_ANNOUNCED = 1_000;

/** Gives the fabric the changes of the log that concern routers, in the order in which they were written. */
export class FabricChanges {
  readonly #ctx: ModelContext;
  readonly #handlers = new Listeners<[change: ModelChange]>();
  #unsubscribe: (() => void) | undefined;

  constructor(ctx: ModelContext) {
    this.#ctx = ctx;
  }

  add(handler: (change: ModelChange) => void): () => void {
    const remove = this.#handlers.add(handler);
    this.#unsubscribe ??= this.#ctx.store.changes.subscribe({
      name: "fabric",
      onChanges: (rows) => this.#apply(rows),
      onReset: () => this.#handlers.emit({ kind: "changes-lost" }),
    });
    return () => {
      remove();
      if (this.#handlers.size === 0) this.close();
    };
  }

  close(): void {
    this.#unsubscribe?.();
    this.#unsubscribe = undefined;
  }

  async #apply(rows: readonly ChangeRow[]): Promise<void> {
    // Routers are told of no session that its client proves by tokens: each login and each refresh would be read for nothing.
    const isTold = ({ kind, op, key }: ChangeRow) =>
      kind === "api_session" && op !== "delete" && !isIdOfOidcSession(key);
    const changed = rows.filter(isTold).map((row) => row.key);
    const records = changed.length === 0 ? [] : await sessionRecords(this.#ctx, [...new Set(changed)]);
    const sessions = new Map(records.map((record) => [record.id, record]));
    const issuedBefore = await this.#issuedBefore(rows);
    for (const row of rows) {
      const change = row.kind === "revocation" ? revoked(row, issuedBefore) : changeOf(row, sessions);
      if (change !== undefined) this.#handlers.emit(change);
    }
    await this.#announceWhole(rows);
    if (rows.some((row) => ACCESS_KINDS.has(row.kind) && row.op !== "create")) {
      this.#handlers.emit({ kind: "access-changed" });
    }
  }

  /** By identity: which tokens of it the revocations in these rows concern. */
  async #issuedBefore(rows: readonly ChangeRow[]): Promise<ReadonlyMap<string, Date>> {
    const identities = rows.filter((row) => row.kind === "revocation" && revocationOf(row)?.type === "IDENTITY");
    if (identities.length === 0) return new Map();
    const ids = [...new Set(identities.map(({ key }) => key))];
    const found = await identitiesRevoked(this.#ctx.store.db, ids);
    return new Map(found.map(({ id, issuedBefore }) => [id, issuedBefore]));
  }

  /**
   * Announces sessions that became full because no code is required any more. It looks them up now, so sessions made meanwhile are included. Announcing
   * one twice does no harm.
   */
  async #announceWhole(rows: readonly ChangeRow[]): Promise<void> {
    const identityIds = rows.flatMap((row) => identityWithoutCode(row) ?? []);
    const policyIds = rows.filter(isTotpGone).map((row) => row.key);
    if (identityIds.length === 0 && policyIds.length === 0) return;
    const sessions = await sessionsWithoutCode(this.#ctx, { identityIds, policyIds }, MAX_ANNOUNCED + 1);
    if (sessions.length > MAX_ANNOUNCED) this.#handlers.emit({ kind: "api-sessions-added" });
    else for (const session of sessions) this.#handlers.emit({ kind: "api-session-added", session });
  }
}

/** The identity whose sessions may owe no one-time code any more by this change. */
function identityWithoutCode({ kind, key, op, before }: ChangeRow): string | undefined {
  if (kind === "mfa" && op === "delete") return (before as unknown as MfaBefore | null)?.identityId;
  if (kind !== "identity" || op !== "update") return undefined;
  return (before as unknown as IdentityBefore | null)?.isAuthPolicyChanged === true ? key : undefined;
}

function isTotpGone({ kind, op, before }: ChangeRow): boolean {
  return (
    kind === "auth_policy" &&
    op === "update" &&
    (before as unknown as AuthPolicyBefore | null)?.isTotpNoLongerRequired === true
  );
}

function revocationOf({ before }: ChangeRow): RevocationBefore | null {
  return before as unknown as RevocationBefore | null;
}

function revoked(row: ChangeRow, issuedBefore: ReadonlyMap<string, Date>): ModelChange | undefined {
  const type = revocationOf(row)?.type;
  // One that is removed has ended anyway.
  if (row.op === "delete" || type === undefined) return undefined;
  const until = type === "IDENTITY" ? issuedBefore.get(row.key) : undefined;
  return { kind: "revoked", type, id: row.key, ...(until && { issuedBefore: until }) };
}

function changeOf(row: ChangeRow, sessions: ReadonlyMap<string, ApiSessionRecord>): ModelChange | undefined {
  const isGone = row.op === "delete";
  switch (row.kind) {
    case "api_session": {
      if (isGone) {
        const before = row.before as ApiSessionBefore | null;
        const token = before?.kind === "oidc" ? "" : (before?.token ?? "");
        return { kind: "api-session-removed", id: row.key, token };
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
    // Also when one of its configs has changed.
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
