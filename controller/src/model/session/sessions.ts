import { randomUUID } from "node:crypto";
import { ApiError, apiError, fieldError, notFound, unhandledCause } from "@sallyport/api";
import { isAtLeast, type Permission } from "@sallyport/wire";
import { decodeProtectedHeader } from "jose";
import { type RawBuilder, type Selectable, type SqlBool, sql } from "kysely";
import { isSignedToken, namesIn } from "../../fabric/token-names.ts";
import type { Attributed } from "../../policy/selector.ts";
import { appendChange } from "../../store/changes/change-log.ts";
import type { ChangeRow } from "../../store/changes/change-log-reads.ts";
import { loggedWrite } from "../../store/changes/logged-write.ts";
import { timeOrderedId } from "../../store/ids.ts";
import type { Tags } from "../../store/schema.ts";
import type { ApiSessionKind, SessionTable } from "../../store/session-tables.ts";
import type { Db, ModelContext } from "../context.ts";
import { findEntity, found, getEntity, json, keepEntity } from "../entity.ts";
import { DialRefusal, FailedDials } from "../fabric/failed-dials.ts";
import type { IdentityRow } from "../identity/identities.ts";
import { grantsOf, hasGrant, permissionsOn, routersOfIdentity, routersOfService } from "../policy/access.ts";
import { selectsRow } from "../policy/selection-sql.ts";
import type { Posture } from "../posture/posture.ts";
import { transact } from "../store-errors.ts";
import type { ApiSessionRow } from "./api-sessions.ts";
import { MAX_SESSIONS, SessionCount } from "./session-count.ts";
import { endSessions } from "./session-removal.ts";

export type SessionRow = Selectable<SessionTable>;

/** How long a full count is believed before a session is refused: to count so many rows takes time. */
const REFUSE_FOR_MS = 10_000;

/** A token that ends sooner is signed again. */
const RENEW_AHEAD_MS = 30 * 86_400_000;

/** A router that a session may use. */
export interface SessionRouter {
  readonly id: string;
  readonly name: string;
  /** As it announced it last; null before it first connected. */
  readonly version: string | null;
}

/** The first generation of OpenZiti whose routers admit applications with signed tokens only. */
const SINCE_SIGNED_TOKENS = [2, 0, 0] as const;

export function needsSignedTokens(version: string | null): boolean {
  return version !== null && isAtLeast(version, SINCE_SIGNED_TOKENS);
}

interface SessionRequest {
  readonly serviceId: string;
  readonly type: Permission;
  readonly tags?: Tags;
  /** Its token is no signed one, whatever routers there are. */
  readonly isOpaque?: boolean;
}

/** Permissions to dial or bind one service, made under an API session. */
export class Sessions {
  readonly #ctx: ModelContext;
  readonly #posture: Posture;
  readonly #failedDials: Pick<FailedDials, "add">;
  readonly #count: SessionCount;

  constructor(
    ctx: ModelContext,
    posture: Posture,
    count = new SessionCount(),
    failedDials: Pick<FailedDials, "add"> = new FailedDials(ctx.now),
  ) {
    this.#ctx = ctx;
    this.#posture = posture;
    this.#failedDials = failedDials;
    this.#count = count;
  }

  /**
   * The session of this API session, service and type: the existing one while policy allows it, else a new one. One transaction decides and makes it, and
   * holds the identity, the service and a policy that grants it: a request that takes the access away waits for it, and then finds the session.
   * Its token is signed by the present key, unless it is to be opaque: see {@link isOpaqueHost}. Posture of API sessions with access tokens is looked at for each circuit only: their
   * clients report it to routers.
   * @throws ApiError 404 when the identity cannot see the service or the API session ended; 400 when it may not dial or bind it; 409 `INVALID_POSTURE` when
   * checks of every policy that allows it fail; 400 `NO_EDGE_ROUTERS_AVAILABLE` when no edge router serves both; 429 when the identity has too many sessions
   */
  async create(
    apiSession: Pick<ApiSessionRow, "id" | "kind">,
    identity: Pick<IdentityRow, "id" | "attrs">,
    request: SessionRequest,
  ): Promise<SessionRow> {
    const { store } = this.#ctx;
    const existing = await this.#existing(store.db, apiSession.id, request);
    if (existing !== undefined) return request.isOpaque === true ? existing : this.#current(existing);
    const failures =
      apiSession.kind === "oidc"
        ? []
        : await this.#posture.failures(identity, apiSession.id, request.serviceId, request.type);
    let isKnown = false;
    const made = transact(store, async (trx) => {
      const caller = found(await keepEntity(trx, "identity", identity.id), "identity", identity.id);
      const service = found(await keepEntity(trx, "service", request.serviceId), "service", request.serviceId);
      isKnown = true;
      if (!(await hasGrant(trx, caller, service, request.type))) {
        const visible = caller.is_admin || permissionsOn(await grantsOf(trx, caller), service).length > 0;
        if (!visible) throw notFound("service", request.serviceId);
        throw fieldError("ServiceId", "service not found", request.serviceId);
      }
      if (failures.length > 0) {
        const refused = { identityId: caller.id, apiSessionId: apiSession.id, service, type: request.type };
        throw await this.#posture.refuse(trx, failures, refused);
      }
      const routers = await this.commonRouters(trx, caller, service);
      if (routers.length === 0) throw apiError("NO_EDGE_ROUTERS_AVAILABLE");
      await this.#requireRoom(trx, caller.id, service.id, request.type);
      const made = {
        id: timeOrderedId(this.#ctx.store.clock.now()),
        api_session_id: apiSession.id,
        identity_id: caller.id,
        service_id: service.id,
        type: request.type,
      };
      const isOpaque = request.isOpaque === true || isOpaqueHost({ ...made, kind: apiSession.kind }, routers);
      const token = isOpaque ? randomUUID() : this.#sign(made, apiSession.kind);
      const row = await trx
        .insertInto("session")
        .values({ ...made, token, tags: json(request.tags ?? {}) })
        .onConflict((conflict) => conflict.columns(["api_session_id", "service_id", "type"]).doNothing())
        .returningAll()
        .executeTakeFirst();
      if (row === undefined) {
        const other = await this.#existing(trx, apiSession.id, request);
        return found(other, "service", request.serviceId);
      }
      await appendChange(trx, { kind: "session", key: row.id, op: "create" });
      return row;
    });
    return made.catch((error: unknown) => {
      // What does not exist is nothing that a dial could have reached.
      if (isKnown && error instanceof ApiError) this.#noteRefusal(identity.id, request, error);
      throw error;
    });
  }

  #noteRefusal(identityId: string, { serviceId, type }: SessionRequest, { code, message }: ApiError): void {
    const refusal = REFUSALS[code] ?? { code, message };
    this.#failedDials.add(identityId, { serviceId, type, ...refusal });
  }

  /**
   * The session with a token that the present key has signed. The stored one counts besides: clients that read a session keep the token that they were given
   * when they created it.
   * @throws ApiError 404 when the session ended meanwhile
   */
  async renewed(row: SessionRow): Promise<SessionRow> {
    if (this.#isCurrent(row.token)) return row;
    const { db } = this.#ctx.store;
    const { kind } = found(await findEntity(db, "api_session", row.api_session_id, ["kind"]), "session", row.id);
    if (!isSignedToken(row.token) && isOpaqueHost({ ...row, kind }, await this.#routersOf(row))) return row;
    return { ...row, token: this.#sign(row, kind) };
  }

  /**
   * As {@link renewed}, and stores the new token: a client that creates its session again uses what it gets. The token that it had before counts until its key
   * ends; an opaque one, of an earlier version, counts no more.
   */
  async #current(row: SessionRow): Promise<SessionRow> {
    const renewed = await this.renewed(row);
    if (renewed === row) return row;
    const { store } = this.#ctx;
    const [stored] = await store.transaction((trx) =>
      loggedWrite(
        trx,
        sql`WITH signed AS (UPDATE session SET token = ${renewed.token}
          WHERE id = ${row.id} AND token = ${row.token} RETURNING *)`,
        { changes: [{ kind: "session", op: "update", of: "signed" }], answer: sql<SessionRow>`SELECT * FROM signed` },
      ),
    );
    // Another request was first, or the session has ended.
    return stored ?? getEntity(store.db, "session", row.id);
  }

  /**
   * Is it a token of a session of the API session? A signed one whose key has ended is not: routers refuse it, and its client is to create the session again.
   */
  async hasToken(apiSessionId: string, token: string): Promise<boolean> {
    const { store, tokens } = this.#ctx;
    const sessions = store.db.selectFrom("session").select("id").where("api_session_id", "=", apiSessionId);
    if (!isSignedToken(token)) return (await sessions.where("token", "=", token).executeTakeFirst()) !== undefined;
    const signed = await tokens.own.service(token);
    if (signed === undefined || "refused" in signed || signed.claims.z_asid !== apiSessionId) return false;
    return (await sessions.where("id", "=", signed.claims.jti).executeTakeFirst()) !== undefined;
  }

  async #routersOf(row: SessionRow): Promise<SessionRouter[]> {
    const { db } = this.#ctx.store;
    const identity = found(await findEntity(db, "identity", row.identity_id, ["id", "attrs"]), "session", row.id);
    const service = found(await findEntity(db, "service", row.service_id, ["id", "attrs"]), "session", row.id);
    return this.commonRouters(db, identity, service);
  }

  #isCurrent(token: string): boolean {
    const end = namesIn(token)?.expiresAt;
    if (end === undefined || end * 1_000 - RENEW_AHEAD_MS < this.#ctx.now().getTime()) return false;
    return decodeProtectedHeader(token).kid === this.#ctx.tokens.keys.signer().kid;
  }

  #sign(
    row: Pick<SessionRow, "id" | "api_session_id" | "identity_id" | "service_id" | "type">,
    kind: ApiSessionKind,
  ): string {
    const { id, api_session_id: apiSessionId, identity_id: identityId, service_id: serviceId, type } = row;
    const subject = { id, apiSessionId, identityId, serviceId, type };
    return this.#ctx.tokens.issuer.service(subject, { isLegacy: kind === "legacy" }).token;
  }

  /** The oldest session of the same kind makes room, below whichever API session it is. @throws ApiError 429 when there is none */
  async #requireRoom(trx: Db, identityId: string, serviceId: string, type: Permission): Promise<void> {
    if (this.#count.take(identityId)) return;
    const { rows } = await oldestOfKind(identityId, serviceId, type).execute(trx);
    const [oldest] = rows;
    // No identity loses a session while there is room. A refusal costs a count now and then.
    if (await this.#count.takeCounted(trx, identityId, oldest === undefined ? REFUSE_FOR_MS : 0)) return;
    this.#ctx.log.warn({ identityId, serviceId, ended: rows.length }, "an identity has too many sessions");
    if (oldest !== undefined) return void (await endSessions(trx, sql`s.id = ${oldest.id}`));
    const detail = `identity ${identityId} has ${MAX_SESSIONS} sessions`;
    throw apiError(
      "SERVER_TOO_MANY_REQUESTS",
      unhandledCause("the identity has too many sessions: end some, or log out"),
      { detail, headers: { "retry-after": String(REFUSE_FOR_MS / 1_000) } },
    );
  }

  /** @throws ApiError 404, also for a session of another API session than `owner` */
  async delete(id: string, owner?: string): Promise<void> {
    const mine = owner === undefined ? sql`true` : sql`s.api_session_id = ${owner}`;
    const gone = await this.#end(sql`s.id = ${id} AND ${mine}`);
    if (gone === 0) throw notFound("session", id);
  }

  /** Those of the ids that are no session are left out. */
  async end(ids: readonly string[]): Promise<void> {
    await this.#end(sql`s.id = ANY (${ids}::text[])`);
  }

  /** Sessions also end with their API sessions, services and policies. */
  onChanges(rows: readonly ChangeRow[]): void {
    for (const { kind, op, before } of rows) {
      const identityId = kind === "session" && op === "delete" ? before?.identityId : undefined;
      if (typeof identityId === "string") this.#count.ended(identityId);
    }
  }

  /** The enabled edge routers that identity and service may both use. */
  async commonRouters(db: Db, identity: Attributed, service: Attributed): Promise<SessionRouter[]> {
    const forIdentity = await routersOfIdentity(db, identity, "r");
    const forService = await routersOfService(db, service, "r");
    const { rows } = await sql<SessionRouter>`
      SELECT r.id, r.name, r.report #>> '{version,version}' AS version FROM router r WHERE r.kind = 'edge' AND NOT r.disabled AND ${forIdentity} AND ${forService}
      ORDER BY r.id`.execute(db);
    return rows;
  }

  /**
   * Ends the sessions that no policy allows any more; administrators keep theirs. Answers how many.
   * @param among where to look: a condition on the session `s`, its identity `i` and its service `v`
   */
  async endUnauthorized(among: RawBuilder<SqlBool> = sql<SqlBool>`true`): Promise<number> {
    const { rows } = await sql<{ id: string }>`
      SELECT s.id FROM session s JOIN identity i ON i.id = s.identity_id JOIN service v ON v.id = s.service_id
      WHERE ${among} AND ${UNAUTHORIZED}`.execute(this.#ctx.store.db);
    if (rows.length === 0) return 0;
    const ids = rows.map((row) => row.id);
    // Asked again: a policy may allow them since, and their client goes on with them then.
    return this.#end(sql`s.id = ANY (${ids}::text[]) AND ${IS_UNAUTHORIZED}`);
  }

  async #end(condition: RawBuilder<SqlBool>): Promise<number> {
    const gone = await this.#ctx.store.transaction((trx) => endSessions(trx, condition));
    for (const { identityId } of gone) this.#count.ended(identityId);
    return gone.length;
  }

  async #existing(
    db: Db,
    apiSessionId: string,
    request: { readonly serviceId: string; readonly type: Permission },
  ): Promise<SessionRow | undefined> {
    return db
      .selectFrom("session as s")
      .innerJoin("identity as i", "i.id", "s.identity_id")
      .innerJoin("service as v", "v.id", "s.service_id")
      .selectAll("s")
      .where("s.api_session_id", "=", apiSessionId)
      .where("s.service_id", "=", request.serviceId)
      .where("s.type", "=", request.type)
      .where(ALLOWED)
      .executeTakeFirst();
  }
}

/** Refusals whose API error does not say what it means for an existing service. */
const REFUSALS: Readonly<Record<string, { readonly code: string; readonly message: string }>> = {
  NOT_FOUND: { code: DialRefusal.AccessDenied, message: "no service policy shows the service to the identity" },
  COULD_NOT_VALIDATE: { code: DialRefusal.AccessDenied, message: "no service policy of this type grants the service" },
  INVALID_POSTURE: { code: DialRefusal.PostureCheckFailed, message: "posture checks fail" },
};

/** The identity's oldest session of this kind that no other request is ending, locked. */
export function oldestOfKind(identityId: string, serviceId: string, type: Permission): RawBuilder<{ id: string }> {
  return sql`SELECT id FROM session WHERE identity_id = ${identityId} AND service_id = ${serviceId} AND type = ${type}
    ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED`;
}

/** "Policy allows the session `s` of the identity `i` for the service `v`"; administrators keep what they have. */
const ALLOWED = sql<SqlBool>`(i.is_admin OR EXISTS (SELECT 1 FROM service_policy p WHERE p.type = s.type
  AND ${selectsRow("service_policy", "identity", "i", "p")} AND ${selectsRow("service_policy", "service", "v", "p")}))`;

/** "No policy allows the session `s` of the identity `i` for the service `v`." */
export const UNAUTHORIZED = sql<SqlBool>`NOT ${ALLOWED}`;

/** The same of a session `s` alone. */
export const IS_UNAUTHORIZED = sql<SqlBool>`EXISTS (SELECT 1 FROM identity i, service v
  WHERE i.id = s.identity_id AND v.id = s.service_id AND ${UNAUTHORIZED})`;

/**
 * Whether a session has an opaque token still: one to host, below an opaque API session, and over routers that take opaque ones. Routers of OpenZiti 1.6 close
 * what is hosted under an opaque token when its session ends, and then refuse that token by themselves; of signed tokens they notice nothing.
 */
function isOpaqueHost(
  { kind, type }: { readonly kind: ApiSessionKind; readonly type: Permission },
  routers: readonly SessionRouter[],
): boolean {
  return kind === "legacy" && type === "Bind" && !routers.some(({ version }) => needsSignedTokens(version));
}
