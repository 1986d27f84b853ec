import { sql } from "kysely";
import {
  type ApiSessionRecord,
  type Denial,
  DenialCode,
  type FabricModel,
  type SessionClaim,
  type SessionGrant,
} from "../fabric/ports.ts";
import type { DialBind } from "../store/schema.ts";
import { mayUseRouter } from "./access.ts";
import { fingerprintsOf } from "./api-sessions.ts";
import type { ModelContext } from "./context.ts";
import { circuitService } from "./fabric-terminators.ts";
import type { Model } from "./model.ts";

type SessionPart = Pick<
  FabricModel,
  "apiSessionsAfter" | "touchApiSessions" | "unknownSessions" | "authorizeDial" | "authorizeBind"
>;

/** What the fabric asks about API sessions and sessions. */
export function fabricSessions(ctx: ModelContext, model: Model): SessionPart {
  const { db } = ctx.store;
  return {
    async apiSessionsAfter(afterId, limit) {
      const rows = await db
        .selectFrom("api_session")
        .select("id")
        .where("id", ">", afterId)
        .orderBy("id")
        .limit(limit)
        .execute();
      return sessionRecords(
        ctx,
        rows.map((row) => row.id),
      );
    },
    touchApiSessions: (tokens) => model.apiSessions.touchTokens(tokens),
    async unknownSessions(tokens) {
      if (tokens.length === 0) return [];
      const { rows } = await sql<{ token: string }>`SELECT t.token FROM unnest(${tokens}::text[]) AS t (token)
        WHERE NOT EXISTS (SELECT 1 FROM session s WHERE s.token = t.token)`.execute(db);
      return rows.map((row) => row.token);
    },
    authorizeDial: (claim) => authorize(ctx, model, claim, "Dial"),
    authorizeBind: (claim) => authorize(ctx, model, claim, "Bind"),
  };
}

/** The sessions with these ids as routers are told of them, in id order. */
export async function sessionRecords(ctx: ModelContext, ids: readonly string[]): Promise<ApiSessionRecord[]> {
  if (ids.length === 0) return [];
  const { db } = ctx.store;
  const rows = await db
    .selectFrom("api_session")
    .select(["id", "token", "identity_id"])
    .where("id", "in", [...ids])
    .orderBy("id")
    .execute();
  const prints = await fingerprintsOf(db, ids);
  return rows.map((row) => ({
    id: row.id,
    token: row.token,
    identityId: row.identity_id,
    certFingerprints: prints.get(row.id) ?? [],
  }));
}

async function authorize(
  ctx: ModelContext,
  model: Model,
  claim: SessionClaim,
  type: DialBind,
): Promise<SessionGrant | Denial> {
  const { db } = ctx.store;
  const session = await db.selectFrom("session").selectAll().where("token", "=", claim.sessionToken).executeTakeFirst();
  if (session === undefined) return { denied: DenialCode.InvalidSession };
  const apiSession = await db
    .selectFrom("api_session")
    .select(["id", "token", "last_activity_at"])
    .where("id", "=", session.api_session_id)
    .executeTakeFirst();
  if (apiSession === undefined || model.apiSessions.isExpired(apiSession)) {
    return { denied: DenialCode.InvalidApiSession };
  }
  if (claim.apiSessionToken !== "" && claim.apiSessionToken !== apiSession.token) {
    return { denied: DenialCode.InvalidApiSession };
  }
  if (session.type !== type) return { denied: DenialCode.WrongSessionType };
  const identity = await model.identities.find(db, session.identity_id);
  if (identity === undefined) return { denied: DenialCode.InvalidApiSession };
  const service = await model.services.find(db, session.service_id);
  const router = await model.routers.find(db, claim.routerId);
  const isAllowed =
    router !== undefined && service !== undefined && (await mayUseRouter(db, identity, service, router));
  if (service === undefined) return { denied: DenialCode.InvalidService };
  if (!isAllowed) return { denied: DenialCode.InvalidEdgeRouterForSession };
  model.apiSessions.touch(apiSession.id);
  return {
    identityId: identity.id,
    sessionId: session.id,
    apiSessionId: apiSession.id,
    service: circuitService(service),
  };
}
