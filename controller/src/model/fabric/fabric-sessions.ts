import { setImmediate } from "node:timers/promises";
import type { ApiSessionRecord, Permission } from "@sallyport/wire";
import { type RawBuilder, sql } from "kysely";
import { TOTP_OPEN } from "../../auth/factors.ts";
import {
  type AccessQuestion,
  type Denial,
  DenialCode,
  type FabricModel,
  type SessionClaim,
  type SessionGrant,
} from "../../fabric/ports.ts";
import { likely } from "../../store/driver/statement.ts";
import type { Db, ModelContext } from "../context.ts";
import type { Model } from "../model.ts";
import type { CircuitFacts, Claimed } from "./circuit-facts.ts";
import { circuitService } from "./fabric-terminators.ts";

/** Without those whose one-time code is still to be given. Conditions, order and limit follow. */
const KNOWN_TO_ROUTERS = sql`SELECT a.* FROM api_session a JOIN identity i ON i.id = a.identity_id WHERE NOT ${TOTP_OPEN}`;

/** What the fabric asks about API sessions and sessions. */
export function fabricSessions(ctx: ModelContext, model: Model, facts: CircuitFacts) {
  const { db } = ctx.store;
  /** Those of the values that no session has. */
  const withoutSession = async (column: "id" | "token", values: readonly string[]): Promise<string[]> => {
    if (values.length === 0) return [];
    const { rows } = await sql<{ value: string }>`SELECT t.value FROM unnest(${values}::text[]) AS t (value)
      WHERE NOT EXISTS (SELECT 1 FROM session s WHERE ${sql.ref(`s.${column}`)} = t.value)`.execute(db);
    return rows.map((row) => row.value);
  };
  return {
    async apiSessionsAfter(afterId, limit) {
      return recordsOf(db, sql`${KNOWN_TO_ROUTERS} AND a.id > ${afterId} ORDER BY a.id LIMIT ${limit}`);
    },
    touchApiSessions: (tokens) => model.apiSessions.touchTokens(tokens),
    unknownSessions: async (tokens) => (await withoutSession("token", tokens)).map((token) => ({ token })),
    authorizeDial: (claim) => authorize(ctx, model, facts, claim, "Dial"),
    authorizeBind: (claim) => authorize(ctx, model, facts, claim, "Bind"),
    // Only the session of an access token dials so, and there is none yet.
    authorizeService: async () => ({ denied: DenialCode.InvalidApiSession }),
    deniedAccess: (questions) => deniedAccess(ctx, model, questions),
    goneSessions: (ids) => withoutSession("id", ids),
    async goneApiSessions(ids) {
      const { rows } = await sql<{ id: string }>`SELECT t.id FROM unnest(${ids}::text[]) AS t (id)
        WHERE NOT EXISTS (SELECT 1 FROM api_session a WHERE a.id = t.id)`.execute(db);
      return rows.map((row) => row.id);
    },
  } satisfies Partial<FabricModel>;
}

/** The sessions with these ids as routers get them, in id order. */
export async function sessionRecords(ctx: ModelContext, ids: readonly string[]): Promise<ApiSessionRecord[]> {
  if (ids.length === 0) return [];
  return recordsOf(ctx.store.db, sql`${KNOWN_TO_ROUTERS} AND a.id = ANY (${likely(ids)}::text[])`);
}

/**
 * Sessions without a one-time code that routers know: those of the given identities, and of identities with the given auth policies. In id order, up to
 * a limit.
 */
export async function sessionsWithoutCode(
  ctx: ModelContext,
  of: { readonly identityIds: readonly string[]; readonly policyIds: readonly string[] },
  limit: number,
): Promise<ApiSessionRecord[]> {
  return recordsOf(
    ctx.store.db,
    sql`${KNOWN_TO_ROUTERS} AND NOT a.is_mfa_complete
      AND (i.id = ANY (${likely(of.identityIds)}::text[]) OR i.auth_policy_id = ANY (${of.policyIds}::text[]))
      ORDER BY a.id LIMIT ${limit}`,
  );
}

/** One statement: a session that ends between two would make a full page look like the last one, and routers would drop all that follow. */
async function recordsOf(db: Db, sessions: RawBuilder<unknown>): Promise<ApiSessionRecord[]> {
  const { rows } = await sql<ApiSessionRecord>`
    SELECT a.id, a.token, a.identity_id AS "identityId", a.cert_fingerprints || ARRAY(
      SELECT c.fingerprint FROM api_session_certificate c WHERE c.api_session_id = a.id ORDER BY c.id) AS "certFingerprints"
    FROM (${sessions}) a ORDER BY a.id`.execute(db);
  return rows;
}

/** Questions that are answered before the event loop turns. */
const QUESTIONS_AT_ONCE = 200;

async function deniedAccess(
  ctx: ModelContext,
  model: Model,
  questions: readonly AccessQuestion[],
): Promise<AccessQuestion[]> {
  const ids = [...new Set(questions.map((question) => question.identityId))];
  const { rows } = await sql<{ id: string; attrs: string[]; is_admin: boolean; is_disabled: boolean }>`
    SELECT id, attrs, is_admin,
      disabled_at IS NOT NULL AND (disabled_until IS NULL OR disabled_until > ${ctx.now()}) AS is_disabled
    FROM identity WHERE id = ANY (${ids}::text[])`.execute(ctx.store.db);
  const identities = new Map(rows.map((row) => [row.id, row]));
  const denied: AccessQuestion[] = [];
  for (let at = 0; at < questions.length; at += QUESTIONS_AT_ONCE) {
    const index = await model.policy.current();
    for (const question of questions.slice(at, at + QUESTIONS_AT_ONCE)) {
      const identity = identities.get(question.identityId);
      const isAllowed =
        identity !== undefined &&
        !identity.is_disabled &&
        (identity.is_admin ||
          index.accessTo(identity, question.serviceId)?.permissions.includes(question.type) === true);
      if (!isAllowed) denied.push(question);
    }
    await setImmediate();
  }
  return denied;
}

/** Rows that are mostly known already, and one look into the policy index: this is done for every circuit. */
async function authorize(
  ctx: ModelContext,
  model: Model,
  facts: CircuitFacts,
  claim: SessionClaim,
  type: Permission,
): Promise<SessionGrant | Denial> {
  // Everything that was committed before is known from here on.
  const index = await model.policy.current();
  const row = await facts.claim(claim.sessionToken, () => claimed(ctx, claim.sessionToken));
  // The rows go together: a session cannot outlive its API session, identity or service.
  if (row === undefined) return { denied: DenialCode.InvalidSession };
  const { api_session_id: id, kind, last_activity_at, expires_at } = row;
  const apiSession = { id, kind, last_activity_at, expires_at };
  const isForeign = claim.apiSessionToken !== "" && claim.apiSessionToken !== row.api_token;
  if (isForeign || model.apiSessions.isExpired(apiSession)) return { denied: DenialCode.InvalidApiSession };
  if (row.type !== type) return { denied: DenialCode.WrongSessionType };
  const identity = { id: row.identity_id, attrs: row.identity_attrs };
  await model.posture.ready([identity.id]);
  // Access that was just taken away counts at once, though the session's own removal is still under way.
  const access = index.accessTo(identity, row.service_id);
  if (!row.is_admin && access?.permissions.includes(type) !== true) return { denied: DenialCode.InvalidSession };
  const failures = model.posture.failuresIn(index, identity, apiSession.id, row.service_id, type);
  if (failures.length > 0) {
    const service = { id: row.service_id, name: row.service_name };
    const request = { identityId: identity.id, apiSessionId: apiSession.id, service, type };
    await model.posture.record(ctx.store.db, failures, request);
    // The client learns of the end and asks for a new session: that answer names the checks that failed.
    await model.posture.end(row.session_id, identity.id);
    return { denied: DenialCode.InvalidSession };
  }
  if (!index.routersFor(identity, row.service_id).includes(claim.routerId)) {
    return { denied: DenialCode.InvalidEdgeRouterForSession };
  }
  model.apiSessions.touch(apiSession);
  return {
    kind: "session",
    identityId: identity.id,
    sessionId: row.session_id,
    apiSessionId: apiSession.id,
    service: circuitService({ ...row, id: row.service_id, name: row.service_name }),
  };
}

async function claimed(ctx: ModelContext, token: string): Promise<Claimed | undefined> {
  const { rows } = await sql<Claimed>`
    SELECT s.id AS session_id, s.type, a.id AS api_session_id, a.token AS api_token, a.kind, a.expires_at, a.last_activity_at,
      i.id AS identity_id, i.attrs AS identity_attrs, i.is_admin, v.id AS service_id, v.name AS service_name, v.terminator_strategy,
      v.encryption_required, v.max_idle_time_millis
    FROM session s JOIN api_session a ON a.id = s.api_session_id JOIN identity i ON i.id = s.identity_id
      JOIN service v ON v.id = s.service_id
    WHERE s.token = ${token} AND NOT ${TOTP_OPEN}`.execute(ctx.store.db);
  return rows[0];
}
