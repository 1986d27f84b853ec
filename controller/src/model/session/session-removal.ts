/**
 * Ending API sessions and sessions. Every removal goes through here, because each removed row has to be in the change log with
 * its token: routers get the token, and the row cannot be read any more.
 */

import { type RawBuilder, type SqlBool, sql } from "kysely";
import {
  API_SESSION_BEFORE,
  type LoggedRows,
  loggedWrite,
  REVOCATION_BEFORE,
  SESSION_BEFORE,
  TERMINATOR_BEFORE,
} from "../../store/changes/logged-write.ts";
import type { Db } from "../context.ts";

export interface EndedSession {
  readonly id: string;
  readonly identityId: string;
}

/** The columns of a removed API session that its end needs: for the change log, and for {@link revokeEnded}. */
export const ENDED_API_SESSION = "id, token, identity_id, kind, access_until";

/** Routers get revocations by the clock of their network: what is left of a token there is covered, too. */
const REVOCATION_MARGIN = "1 minute";

/**
 * What becomes of a revocation (`r`) when its id is revoked again: it keeps what holds for more tokens, and for longer. Ids of tokens, sessions and identities
 * are never the same: who revokes one as what it is not, and then as what it is, must not find the first in the way.
 */
export const REVOKED_AGAIN = `ON CONFLICT (id) DO UPDATE SET
      type = CASE WHEN 'IDENTITY' IN (r.type, excluded.type) THEN 'IDENTITY'
        WHEN 'API_SESSION' IN (r.type, excluded.type) THEN 'API_SESSION' ELSE 'JTI' END,
      identity_id = coalesce(r.identity_id, excluded.identity_id), issued_before = greatest(r.issued_before, excluded.issued_before),
      expires_at = greatest(r.expires_at, excluded.expires_at), tags = r.tags || excluded.tags, updated_at = now()`;

/**
 * A part of a statement that removes API sessions: `revoked` revokes the access tokens that are left of the removed rows in the part `of`, which returns
 * {@link ENDED_API_SESSION}. Verifiers that hold no rows, such as routers, refuse them by that.
 */
export function revokeEnded(of: string): string {
  return `revoked AS (
    INSERT INTO revocation AS r (id, type, identity_id, expires_at)
    SELECT id, 'API_SESSION', identity_id, access_until + interval '${REVOCATION_MARGIN}' FROM ${of}
    WHERE kind = 'oidc' AND access_until > now()
    ${REVOKED_AGAIN}
    RETURNING id, type, expires_at)`;
}

/** How {@link revokeEnded} stands in the change log. */
export const REVOKED: LoggedRows = { kind: "revocation", op: "create", of: "revoked", before: REVOCATION_BEFORE };

/**
 * Deletes the API sessions (`a`) that fulfil the condition, with their sessions. Answers the ids. They are locked first: a session that is being made below
 * one is then there for the statement that deletes, and its end is in the change log.
 *
 * @param options `isRevoked`: their tokens need no revocation of their own
 */
export async function endApiSessions(
  trx: Db,
  condition: RawBuilder<SqlBool>,
  { isRevoked = false }: { readonly isRevoked?: boolean } = {},
): Promise<string[]> {
  const { rows } = await sql<{ id: string }>`SELECT a.id FROM api_session a WHERE ${condition} FOR UPDATE OF a`.execute(
    trx,
  );
  if (rows.length === 0) return [];
  const ids = rows.map((row) => row.id);
  await loggedWrite(
    trx,
    sql`
    WITH gone AS (DELETE FROM api_session a WHERE a.id = ANY (${ids}::text[]) RETURNING ${sql.raw(ENDED_API_SESSION)}),
    sessions AS (SELECT s.* FROM session s JOIN gone ON gone.id = s.api_session_id)
    ${isRevoked ? sql`` : sql.raw(`, ${revokeEnded("gone")}`)}`,
    {
      changes: [
        { kind: "session", op: "delete", of: "sessions", before: SESSION_BEFORE },
        { kind: "api_session", op: "delete", of: "gone", before: API_SESSION_BEFORE },
        ...(isRevoked ? [] : [REVOKED]),
      ],
    },
  );
  return ids;
}

/** Deletes the sessions (`s`) that fulfil the condition. Answers whose they were. */
export async function endSessions(db: Db, condition: RawBuilder<SqlBool>): Promise<EndedSession[]> {
  return loggedWrite(
    db,
    sql`WITH gone AS (
      DELETE FROM session s WHERE ${condition}
      RETURNING s.id, s.token, s.api_session_id, s.identity_id, s.service_id, s.type)`,
    {
      changes: [{ kind: "session", op: "delete", of: "gone", before: SESSION_BEFORE }],
      answer: sql<EndedSession>`SELECT id, identity_id AS "identityId" FROM gone`,
    },
  );
}

/** Deletes the terminators (`t`) that fulfil the condition. Answers the ids. */
export async function removeTerminators(db: Db, condition: RawBuilder<SqlBool>): Promise<string[]> {
  const rows = await loggedWrite(
    db,
    sql`WITH gone AS (DELETE FROM terminator t WHERE ${condition} RETURNING t.id, t.router_id, t.service_id)`,
    {
      changes: [{ kind: "terminator", op: "delete", of: "gone", before: TERMINATOR_BEFORE, isPacked: true }],
      answer: sql<{ id: string }>`SELECT id FROM gone`,
    },
  );
  return rows.map((row) => row.id);
}

const POLICIES_BY_SIDE = {
  identity: ["service_policy", "edge_router_policy"],
  service: ["service_policy", "service_edge_router_policy"],
  router: ["edge_router_policy", "service_edge_router_policy"],
  posture_check: ["service_policy"],
} as const;

/**
 * Takes an entity that is about to be deleted out of the policies that name it, and records a change of each of them.
 * (Deleting the entity would remove its selectors too, but silently.)
 */
export async function dropFromPolicies(db: Db, side: keyof typeof POLICIES_BY_SIDE, id: string): Promise<void> {
  for (const policy of POLICIES_BY_SIDE[side]) {
    await loggedWrite(
      db,
      sql`WITH gone AS (
        DELETE FROM ${sql.table(`${policy}_ref`)} WHERE ${sql.ref(`${side}_id`)} = ${id} RETURNING policy_id)`,
      { changes: [{ kind: policy, op: "update", of: "gone", key: "policy_id" }], isPipelined: true },
    );
  }
}
