import type { ChangeLog } from "../store/changes/change-log.ts";
import type { ChangeRow } from "../store/changes/change-log-reads.ts";
import type { ChangeKind } from "../store/changes/logged-write.ts";

/** Whose connection it is, as changes name it. */
interface WatchedSession {
  readonly apiSessionId: string;
  readonly identityId: string;
  /** Of the access token that opened it. */
  readonly jti: string | undefined;
}

/** Changes that can end any session. */
const OF_ALL: ReadonlySet<string> = new Set<ChangeKind>(["auth_policy", "ext_jwt_signer", "token_key"]);
/** Those that name the session, its identity or its token. */
const OF_ONE: ReadonlySet<string> = new Set<ChangeKind>(["api_session", "identity", "revocation"]);

/** Says at once when a change may have ended the session of a connection that lasts. */
export class SessionWatch {
  readonly #watched = new Map<WatchedSession, () => void>();
  readonly #unsubscribe: () => void;

  constructor(changes: Pick<ChangeLog, "subscribe">) {
    this.#unsubscribe = changes.subscribe({
      name: "connections of sessions",
      isPrompt: true,
      onChanges: (rows) => this.#apply(rows),
      onReset: () => this.#tell(() => true),
    });
  }

  /** @param mayHaveEnded returns at once @returns the way to end the watch */
  watch(session: WatchedSession, mayHaveEnded: () => void): () => void {
    const watched = { ...session };
    this.#watched.set(watched, mayHaveEnded);
    return () => this.#watched.delete(watched);
  }

  close(): void {
    this.#unsubscribe();
    this.#watched.clear();
  }

  #apply(rows: readonly ChangeRow[]): void {
    if (this.#watched.size === 0) return;
    const changed = rows.filter(({ op, kind }) => op !== "create" || kind === "revocation");
    const concernsAll = changed.some(({ kind }) => OF_ALL.has(kind));
    const keys = new Set(changed.filter(({ kind }) => OF_ONE.has(kind)).map(({ key }) => key));
    this.#tell(({ apiSessionId, identityId, jti = "" }) => {
      return concernsAll || keys.has(apiSessionId) || keys.has(identityId) || keys.has(jti);
    });
  }

  #tell(concerns: (session: WatchedSession) => boolean): void {
    for (const [session, mayHaveEnded] of [...this.#watched]) if (concerns(session)) mayHaveEnded();
  }
}
