import { setImmediate } from "node:timers/promises";
import type { ApiSessionRecord } from "@sallyport/wire";
import { type RawBuilder, sql } from "kysely";
import { TOTP_OPEN } from "../../auth/factors.ts";
import type { AccessQuestion } from "../../fabric/change-port.ts";
import type { FabricModel } from "../../fabric/ports.ts";
import { namesIn } from "../../fabric/token-names.ts";
import { likely } from "../../store/driver/statement.ts";
import type { Db, ModelContext } from "../context.ts";
import type { Model } from "../model.ts";

/** Without those whose one-time code is still to be given, and those whose tokens routers verify themselves. Conditions, order and limit follow. */
const KNOWN_TO_ROUTERS = sql`SELECT a.* FROM api_session a JOIN identity i ON i.id = a.identity_id
  WHERE a.kind = 'legacy' AND NOT ${TOTP_OPEN}`;

/** What the fabric asks about API sessions and sessions. */
export function fabricSessions(ctx: ModelContext, model: Model) {
  const { db } = ctx.store;
  /** Those of the values that the condition, on the value `t.value`, does not hold for. */
  const without = async (values: readonly string[], condition: RawBuilder<unknown>): Promise<string[]> => {
    if (values.length === 0) return [];
    const { rows } = await sql<{ value: string }>`SELECT t.value FROM unnest(${values}::text[]) AS t (value)
      WHERE NOT (${condition})`.execute(db);
    return rows.map((row) => row.value);
  };
  return {
    async apiSessionsAfter(afterId, limit) {
      return recordsOf(db, sql`${KNOWN_TO_ROUTERS} AND a.id > ${afterId} ORDER BY a.id LIMIT ${limit}`);
    },
    async changesRead() {
      // New sessions are not waited for by those who announce them, so what is in memory may be older.
      await ctx.store.changes.wake();
      await ctx.store.changes.caughtUp();
    },
    touchApiSessions: (tokens) => model.apiSessions.touchTokens(tokens),
    async unknownSessions(tokens) {
      const idOf = new Map(tokens.map((token) => [token, namesIn(token)?.id]));
      const unknown = new Set(
        await without(
          [...idOf].map(([token, id]) => id ?? token),
          IS_SESSION_OR_TOKEN,
        ),
      );
      return tokens.flatMap((token) => {
        const id = idOf.get(token);
        return unknown.has(id ?? token) ? [{ ...(id !== undefined && { id }), token }] : [];
      });
    },
    deniedAccess: (questions) => deniedAccess(ctx, model, questions),
    goneSessions: (ids) => without(ids, sql`EXISTS (SELECT 1 FROM session s WHERE s.id = t.value)`),
    goneApiSessions: (ids) => without(ids, sql`EXISTS (SELECT 1 FROM api_session a WHERE a.id = t.value)`),
    identitiesRevoked: (ids) => identitiesRevoked(db, ids),
  } satisfies Partial<FabricModel>;
}

/** Two conditions: no index serves both. */
const IS_SESSION_OR_TOKEN = sql`EXISTS (SELECT 1 FROM session s WHERE s.id = t.value)
  OR EXISTS (SELECT 1 FROM session s WHERE s.token = t.value)`;

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

/** The revocations of those identities that have one. */
export async function identitiesRevoked(db: Db, ids: readonly string[]): Promise<{ id: string; issuedBefore: Date }[]> {
  const { rows } = await sql<{ id: string; issuedBefore: Date }>`
    SELECT id, issued_before AS "issuedBefore" FROM revocation
    WHERE id = ANY (${likely(ids)}::text[]) AND issued_before IS NOT NULL`.execute(db);
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
  const serviceIds = [...new Set(questions.map((question) => question.serviceId))];
  const { rows: services } = await sql<{ id: string }>`
    SELECT id FROM service WHERE id = ANY (${serviceIds}::text[])`.execute(ctx.store.db);
  const existing = new Set(services.map(({ id }) => id));
  const denied: AccessQuestion[] = [];
  for (let at = 0; at < questions.length; at += QUESTIONS_AT_ONCE) {
    const index = await model.policy.current();
    for (const question of questions.slice(at, at + QUESTIONS_AT_ONCE)) {
      const identity = identities.get(question.identityId);
      const isAllowed =
        identity !== undefined &&
        !identity.is_disabled &&
        existing.has(question.serviceId) &&
        (identity.is_admin ||
          index.accessTo(identity, question.serviceId)?.permissions.includes(question.type) === true);
      if (!isAllowed) denied.push(question);
    }
    await setImmediate();
  }
  return denied;
}
