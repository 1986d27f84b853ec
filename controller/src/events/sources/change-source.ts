import { randomUUID } from "node:crypto";
import { type Logger, PROTOCOL_VERSION } from "@sallyport/wire";
import { type Kysely, sql } from "kysely";
import type { ChangeLog } from "../../store/changes/change-log.ts";
import type { ChangeRow } from "../../store/changes/change-log-reads.ts";
import type { ApiSessionBefore, ApiSessionUpdateBefore, SessionBefore } from "../../store/changes/logged-write.ts";
import { isIdOfOidcSession } from "../../store/ids.ts";
import type { Database } from "../../store/schema.ts";
import type { Dispatcher } from "../dispatcher.ts";
import type { TerminatorSource } from "./terminator-source.ts";

/** Changes that wait for their look-up. Beyond it events are lost: no part of the controller waits for them. */
const MAX_WAITING = 100_000;
const BATCH = 500;

const EVENT_TYPES = { create: "created", update: "updated", delete: "deleted" } as const;

interface ChangeSourceParts {
  readonly db: Kysely<Database>;
  readonly changes: Pick<ChangeLog, "subscribe">;
  readonly dispatcher: Dispatcher;
  readonly terminators: Pick<TerminatorSource, "changed">;
  readonly log: Logger;
}

/** Emits what was committed to the store: entities, API sessions, sessions, terminators. Reads the change log only while there is a subscriber. */
export class ChangeSource {
  readonly #parts: ChangeSourceParts;
  readonly #stopDemand: () => void;
  #unsubscribe: (() => void) | undefined;
  #waiting: ChangeRow[] = [];
  #working: Promise<void> | undefined;
  #dropped = 0;

  constructor(parts: ChangeSourceParts) {
    this.#parts = parts;
    this.#stopDemand = parts.dispatcher.onDemand(() => this.#demandChanged());
  }

  /** Resolves when everything the log has handed over is told. */
  async idle(): Promise<void> {
    await this.#working;
  }

  async stop(): Promise<void> {
    this.#stopDemand();
    this.#unsubscribe?.();
    this.#unsubscribe = undefined;
    await this.#working;
  }

  #isWanted(): boolean {
    const { dispatcher } = this.#parts;
    return (["entityChange", "apiSession", "session", "terminator"] as const).some((name) => dispatcher.wants(name));
  }

  #demandChanged(): void {
    if (!this.#isWanted()) {
      this.#unsubscribe?.();
      this.#unsubscribe = undefined;
      this.#waiting = [];
      return;
    }
    this.#unsubscribe ??= this.#parts.changes.subscribe({
      name: "events",
      onChanges: (rows) => this.#take(rows),
      onReset: () => this.#parts.log.warn({}, "changes came faster than the log keeps them: events of them are lost"),
    });
  }

  #take(rows: readonly ChangeRow[]): void {
    const room = MAX_WAITING - this.#waiting.length;
    for (const row of rows.slice(0, room)) this.#waiting.push(row);
    if (rows.length > room) {
      this.#dropped += rows.length - room;
      this.#parts.log.warn({ dropped: this.#dropped }, "events of changes were dropped: more come than can be told of");
    }
    this.#working ??= this.#work().finally(() => {
      this.#working = undefined;
    });
  }

  async #work(): Promise<void> {
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0, BATCH);
      try {
        await this.#emitBatch(batch);
      } catch (err) {
        this.#dropped += batch.length;
        this.#parts.log.warn(
          { dropped: this.#dropped, err },
          "events of changes were dropped: they cannot be looked up",
        );
      }
    }
  }

  async #emitBatch(batch: readonly ChangeRow[]): Promise<void> {
    const { dispatcher, terminators } = this.#parts;
    if (dispatcher.wants("apiSession")) await this.#apiSessions(batch);
    if (dispatcher.wants("session")) await this.#sessions(batch);
    const changes = dispatcher.wants("terminator") ? batch.filter((row) => row.kind === "terminator") : [];
    if (changes.length > 0) {
      await terminators.changed(changes.map(({ key, op, before }) => ({ id: key, type: EVENT_TYPES[op], before })));
    }
    if (dispatcher.wants("entityChange")) await this.#entities(batch);
  }

  async #entities(batch: readonly ChangeRow[]): Promise<void> {
    const { db, dispatcher } = this.#parts;
    const states = new Map<string, Map<string, EntityState>>();
    for (const [kind, rows] of Map.groupBy(batch, (row) => row.kind)) {
      const ids = rows.filter((row) => row.op !== "delete").map((row) => row.key);
      states.set(kind, await entityStates(db, kind, ids));
    }
    for (const { kind, key, op, before, at } of batch) {
      const known = KINDS[kind];
      // No entity, or one of a newer version.
      if (known === undefined) continue;
      const common = {
        namespace: "entityChange",
        timestamp: at.toISOString(),
        eventId: randomUUID(),
        entityType: known.entityType,
        isParentEvent: false,
      } as const;
      dispatcher.emit({
        ...common,
        eventType: EVENT_TYPES[op],
        metadata: { version: PROTOCOL_VERSION },
        initialState: op === "create" ? null : { id: key, ...(before && withoutSecrets(before)) },
        finalState: op === "delete" ? null : (states.get(kind)?.get(key) ?? { id: key }),
      });
      dispatcher.emit({ ...common, eventType: "committed" });
    }
  }

  async #apiSessions(batch: readonly ChangeRow[]): Promise<void> {
    const { db, dispatcher } = this.#parts;
    const rows = batch.filter((row) => row.kind === "api_session");
    if (rows.length === 0) return;
    const found = await sql<{ id: string; identity_id: string; ip_address: string }>`
      SELECT id, identity_id, ip_address FROM api_session
      WHERE id = ANY (${rows.map((row) => row.key)}::text[])`.execute(db);
    const present = new Map(found.rows.map((row) => [row.id, row]));
    for (const row of rows) {
      const session = present.get(row.key);
      const ended = row.before as unknown as ApiSessionBefore | null;
      const isOfToken = isIdOfOidcSession(row.key);
      const type = isOfToken ? tokenEventOf(row) : row.op === "update" ? "refreshed" : EVENT_TYPES[row.op];
      if (type === undefined) continue;
      dispatcher.emit({
        namespace: "apiSession",
        timestamp: row.at.toISOString(),
        event_type: type,
        id: row.key,
        type: isOfToken ? "jwt" : "legacy",
        token: row.key,
        identity_id: session?.identity_id ?? ended?.identityId ?? "",
        ip_address: session?.ip_address ?? "",
      });
    }
  }

  async #sessions(batch: readonly ChangeRow[]): Promise<void> {
    const { db, dispatcher } = this.#parts;
    const rows = batch.filter((row) => row.kind === "session" && row.op !== "update");
    if (rows.length === 0) return;
    const found = await sql<{ id: string } & SessionBefore>`
      SELECT id, '' AS token, api_session_id AS "apiSessionId", identity_id AS "identityId", service_id AS "serviceId", type
      FROM session WHERE id = ANY (${rows.map((row) => row.key)}::text[])`.execute(db);
    const present = new Map(found.rows.map((row) => [row.id, row]));
    for (const { key, op, before, at } of rows) {
      const session = present.get(key) ?? (before as SessionBefore | null);
      const apiSessionId = session?.apiSessionId ?? "";
      dispatcher.emit({
        namespace: "session",
        timestamp: at.toISOString(),
        event_type: op === "create" ? "created" : "deleted",
        session_type: session?.type ?? "",
        provider: isIdOfOidcSession(apiSessionId) ? "jwt" : "legacy",
        id: key,
        token: key,
        api_session_id: apiSessionId,
        identity_id: session?.identityId ?? "",
        service_id: session?.serviceId ?? "",
      });
    }
  }
}

/** The event of a change of a session that its client proves by tokens; undefined while its login is not complete, and where no token was made. */
function tokenEventOf({ op, before }: ChangeRow): "created" | "refreshed" | "exchanged" | "deleted" | undefined {
  if (op === "create") return undefined;
  if (op === "update") return (before as unknown as ApiSessionUpdateBefore | null)?.tokens;
  return (before as unknown as ApiSessionBefore | null)?.isPending === true ? undefined : "deleted";
}

type EntityState = Readonly<Record<string, unknown>>;

/** Kinds of the change log that are told: the collection that events name, and the table of their rows. A table without a column `id` has no state to show. */
const KINDS: Readonly<Record<string, { readonly entityType: string; readonly table?: string }>> = {
  api_session: { entityType: "apiSessions", table: "api_session" },
  api_session_certificate: { entityType: "apiSessionCertificates", table: "api_session_certificate" },
  auth_policy: { entityType: "authPolicies", table: "auth_policy" },
  authenticator: { entityType: "authenticators", table: "authenticator" },
  ca: { entityType: "cas", table: "ca" },
  config: { entityType: "configs", table: "config" },
  config_type: { entityType: "configTypes", table: "config_type" },
  edge_router_policy: { entityType: "edgeRouterPolicies", table: "edge_router_policy" },
  enrollment: { entityType: "enrollments", table: "enrollment" },
  ext_jwt_signer: { entityType: "externalJwtSigners", table: "ext_jwt_signer" },
  identity: { entityType: "identities", table: "identity" },
  identity_service_config: { entityType: "identityServiceConfigs" },
  mfa: { entityType: "mfas", table: "mfa" },
  posture_check: { entityType: "postureChecks", table: "posture_check" },
  revocation: { entityType: "revocations" },
  router: { entityType: "routers", table: "router" },
  service: { entityType: "services", table: "service" },
  service_edge_router_policy: { entityType: "serviceEdgeRouterPolicies", table: "service_edge_router_policy" },
  service_policy: { entityType: "servicePolicies", table: "service_policy" },
  session: { entityType: "sessions", table: "session" },
  terminator: { entityType: "terminators", table: "terminator" },
};

/** Columns whose values let a reader act as another identity. */
const SECRET = /(^|_)(secret|token|hash|codes|private)($|_)|^jwt$|^password$/;

/** The present rows of entities by id, in the names that events use; secrets are left out. */
async function entityStates(
  db: Kysely<Database>,
  kind: string,
  ids: readonly string[],
): Promise<Map<string, EntityState>> {
  const table = KINDS[kind]?.table;
  if (table === undefined || ids.length === 0) return new Map();
  const { rows } = await sql<{ id: string; state: EntityState }>`
    SELECT t.id, to_jsonb(t) AS state FROM ${sql.table(table)} t WHERE t.id = ANY (${[...new Set(ids)]}::text[])`.execute(
    db,
  );
  return new Map(rows.map((row) => [row.id, withoutSecrets(row.state)]));
}

/** Columns as events name them: `is_admin` is `isAdmin`, `attrs` is `roleAttributes`. */
export function withoutSecrets(row: EntityState): EntityState {
  const shown = Object.entries(row).filter(
    ([column]) => !SECRET.test(column.replace(/[A-Z]/g, (c) => `_${c.toLowerCase()}`)),
  );
  return Object.fromEntries(shown.map(([column, value]) => [nameOf(column), value]));
}

function nameOf(column: string): string {
  if (column === "attrs") return "roleAttributes";
  return column.replace(/_([a-z])/g, (_all, letter: string) => letter.toUpperCase());
}
