import type { Permission } from "@sallyport/wire";
import { type RawBuilder, sql } from "kysely";
import { TOTP_OPEN } from "../../auth/factors.ts";
import type { AccessClaims } from "../../auth/tokens/claims.ts";
import {
  type Denial,
  DenialCode,
  type FabricModel,
  isDenial,
  type ServiceClaim,
  type SessionClaim,
  type SessionGrant,
} from "../../fabric/ports.ts";
import { isSignedToken, namesIn } from "../../fabric/token-names.ts";
import type { PolicyIndex } from "../../policy/policy-index.ts";
import type { ModelContext } from "../context.ts";
import type { Model } from "../model.ts";
import type { PolicyFailure } from "../posture/posture.ts";
import type { CircuitFacts, Claimed } from "./circuit-facts.ts";
import { circuitService } from "./fabric-terminators.ts";
import { DialRefusal } from "./failed-dials.ts";

/** Which circuits and terminators routers may have made, and for whom. */
export function fabricAuthorization(ctx: ModelContext, model: Model, facts: CircuitFacts) {
  const authorization = new Authorization(ctx, model, facts);
  return {
    authorizeDial: (claim) => authorization.ofSession(claim, "Dial"),
    authorizeBind: (claim) => authorization.ofSession(claim, "Bind"),
    authorizeService: (claim) => authorization.ofService(claim),
  } satisfies Partial<FabricModel>;
}

/**
 * Rows that are mostly known already, and one look into the policy index: this is done for every circuit. Tokens only say which rows those are. What an
 * identity may do is asked of policy each time, because a token lives longer than a right (docs/protocol/fabric.md, "Access").
 */
class Authorization {
  readonly #ctx: ModelContext;
  readonly #model: Model;
  readonly #facts: CircuitFacts;

  constructor(ctx: ModelContext, model: Model, facts: CircuitFacts) {
    this.#ctx = ctx;
    this.#model = model;
    this.#facts = facts;
  }

  /** A dial or bind with the token of a session. */
  async ofSession(claim: SessionClaim, type: Permission): Promise<SessionGrant | Denial> {
    // Everything that was committed before is known from here on.
    const index = await this.#model.policy.current();
    const row = await this.#sessionOf(claim.sessionToken);
    // The rows go together: a session cannot outlive its API session, identity or service.
    if (row === undefined) return { denied: DenialCode.InvalidSession };
    const proof = row.kind === "oidc" ? await this.#proofOf(row, claim.apiSessionToken) : undefined;
    if (proof !== undefined && isDenial(proof)) return proof;
    // Some routers name no API session of such sessions.
    const isForeign = row.kind === "legacy" && !["", row.api_token].includes(claim.apiSessionToken);
    if (isForeign || this.#model.apiSessions.isExpired(apiSessionOf(row))) {
      return { denied: DenialCode.InvalidApiSession };
    }
    if (row.type !== type) return { denied: DenialCode.WrongSessionType };
    // Access that was just taken away counts at once, though the session's own removal is still under way.
    const access = index.accessTo(identityOf(row), row.service_id);
    const isAllowed = row.is_admin || access?.permissions.includes(type) === true;
    if (!isAllowed) {
      this.#note(
        row,
        type,
        claim,
        DialRefusal.AccessDenied,
        "no service policy of this type grants the service any more",
      );
      return { denied: DenialCode.InvalidSession };
    }
    const refusal = await this.#refusalOf(index, row, type, claim);
    return refusal ?? { kind: "session", sessionId: row.session_id, ...this.#granted(row, proof?.issuedAt) };
  }

  /** A dial of a service by an access token alone. No session keeps a right alive here, not even an administrator's. */
  async ofService(claim: ServiceClaim): Promise<SessionGrant | Denial> {
    const { serviceId, identityId, apiSessionToken } = claim;
    const index = await this.#model.policy.current();
    const checked = await this.#ctx.tokens.own.access(apiSessionToken);
    if (checked === undefined || "refused" in checked) return { denied: DenialCode.InvalidApiSession };
    const { sub, z_asid: apiSessionId } = checked.claims;
    if (sub !== identityId) return { denied: DenialCode.InvalidApiSession };
    const row = await this.#facts.claim(`api-session ${apiSessionId} ${serviceId}`, () =>
      this.#one(sql`SELECT '' AS session_id, '' AS session_token, 'Dial' AS type, ${OF_API_SESSION}, ${OF_SERVICE}
        FROM api_session a JOIN identity i ON i.id = a.identity_id JOIN service v ON v.id = ${serviceId}
        WHERE a.id = ${apiSessionId} AND NOT ${TOTP_OPEN}`),
    );
    if (row === undefined) {
      const isThere = await this.#one(sql`SELECT a.id FROM api_session a JOIN identity i ON i.id = a.identity_id
        WHERE a.id = ${apiSessionId} AND NOT ${TOTP_OPEN}`);
      return { denied: isThere === undefined ? DenialCode.InvalidApiSession : DenialCode.InvalidService };
    }
    const proof = this.#proofIn(checked.claims, row);
    if (isDenial(proof)) return proof;
    if (this.#model.apiSessions.isExpired(apiSessionOf(row))) return { denied: DenialCode.InvalidApiSession };
    const access = index.accessTo(identityOf(row), serviceId);
    if (access?.permissions.includes("Dial") !== true) {
      this.#note(row, "Dial", claim, DialRefusal.AccessDenied, "no service policy of type Dial grants the service");
      return { denied: DenialCode.AccessDenied };
    }
    const refusal = await this.#refusalOf(index, row, "Dial", claim);
    return refusal ?? { kind: "token", sessionId: "", ...this.#granted(row, proof.issuedAt) };
  }

  /** The row of a session's token: of a signed one by the id in it. */
  async #sessionOf(token: string): Promise<Claimed | undefined> {
    const names = namesIn(token);
    const { id } = names ?? {};
    const [key, condition] =
      id === undefined ? [`token ${token}`, sql`s.token = ${token}`] : [`session ${id}`, sql`s.id = ${id}`];
    const find = () =>
      this.#facts.claim(key, () =>
        this.#one(sql`SELECT s.id AS session_id, s.token AS session_token, s.type, ${OF_API_SESSION}, ${OF_SERVICE}
          FROM session s JOIN api_session a ON a.id = s.api_session_id JOIN identity i ON i.id = s.identity_id
            JOIN service v ON v.id = s.service_id
          WHERE ${condition} AND NOT ${TOTP_OPEN}`),
      );
    let row = await find();
    if (row !== undefined && this.#model.apiSessions.isExpired(apiSessionOf(row))) {
      // Another process may have noted activity.
      this.#facts.forgetClaim(key);
      row = await find();
    }
    if (row === undefined || names === undefined) return row;
    return (await this.#isTokenOf(row, token, names.expiresAt ?? 0)) ? row : undefined;
  }

  /** @param end when the token ends, in seconds */
  async #isTokenOf(row: Claimed, token: string, end: number): Promise<boolean> {
    // What is stored was signed here, and counts longer than its key: the end of a key ends no session. Who knows the key cannot make the same text, because a
    // part of an ECDSA signature is random.
    if (token === row.session_token) return end * 1_000 > this.#ctx.now().getTime();
    // The session has a newer one: an earlier token counts as long as its key.
    const checked = await this.#ctx.tokens.own.service(token);
    if (checked === undefined || "refused" in checked) return false;
    const { sub, z_asid, z_iid, z_st } = checked.claims;
    return sub === row.service_id && z_asid === row.api_session_id && z_iid === row.identity_id && z_st === row.type;
  }

  /** What the access token proves of the row's API session. */
  async #proofOf(row: Claimed, token: string): Promise<{ readonly issuedAt: Date } | Denial> {
    // Of another API session, so that the session's token does not fit.
    if (token !== "" && !isSignedToken(token)) return { denied: DenialCode.InvalidSession };
    const checked = await this.#ctx.tokens.own.access(token);
    if (checked === undefined || "refused" in checked) return { denied: DenialCode.InvalidApiSession };
    return this.#proofIn(checked.claims, row);
  }

  /** The same of an access token that was checked. */
  #proofIn({ sub, z_asid, jti, iat }: AccessClaims, row: Claimed): { readonly issuedAt: Date } | Denial {
    const isOwn = row.kind === "oidc" && z_asid === row.api_session_id && sub === row.identity_id;
    const isComplete = row.access_until !== null;
    if (!isOwn || !isComplete || this.#ctx.tokens.revoked.has(jti)) return { denied: DenialCode.InvalidApiSession };
    return { issuedAt: new Date(iat * 1_000) };
  }

  /** Why posture or the routers that the identity may use refuse what policy grants. */
  async #refusalOf(
    index: PolicyIndex,
    row: Claimed,
    type: Permission,
    claim: Pick<SessionClaim, "routerId" | "checksPosture">,
  ): Promise<Denial | undefined> {
    const { posture } = this.#model;
    const identity = identityOf(row);
    // Clients with access tokens report to routers, those that look at it.
    if (row.kind === "legacy" || !claim.checksPosture) {
      await posture.ready([identity.id]);
      const failures = posture.failuresIn(index, identity, row.api_session_id, row.service_id, type);
      if (failures.length > 0) {
        this.#note(row, type, claim, DialRefusal.PostureCheckFailed, "posture checks fail");
        return this.#failed(row, type, failures);
      }
    }
    if (index.routersFor(identity, row.service_id).includes(claim.routerId)) return undefined;
    this.#note(row, type, claim, DialRefusal.InvalidEdgeRouter, "the edge router is not one that both may use");
    return { denied: DenialCode.InvalidEdgeRouterForSession };
  }

  #note(row: Claimed, type: Permission, { routerId }: Pick<SessionClaim, "routerId">, code: string, message: string) {
    this.#model.failedDials.add(row.identity_id, { serviceId: row.service_id, type, code, message, routerId });
  }

  async #failed(row: Claimed, type: Permission, failures: readonly PolicyFailure[]): Promise<Denial> {
    const { posture } = this.#model;
    const service = { id: row.service_id, name: row.service_name };
    const request = { identityId: row.identity_id, apiSessionId: row.api_session_id, service, type };
    await posture.record(this.#ctx.store.db, failures, request);
    if (row.kind === "oidc") {
      const failingCheckIds = [...new Set(failures.flatMap(({ checks }) => checks.map(({ id }) => id)))];
      return { denied: DenialCode.PostureCheckFailed, failingCheckIds };
    }
    // The client learns of the end and asks for a new session: that answer names the checks that failed.
    await posture.end(row.session_id, row.identity_id);
    return { denied: DenialCode.InvalidSession };
  }

  #granted(row: Claimed, tokenIssuedAt: Date | undefined) {
    this.#model.apiSessions.touch(apiSessionOf(row));
    return {
      ...(tokenIssuedAt && { tokenIssuedAt }),
      identityId: row.identity_id,
      apiSessionId: row.api_session_id,
      service: circuitService({ ...row, id: row.service_id, name: row.service_name }),
    };
  }

  async #one(select: RawBuilder<unknown>): Promise<Claimed | undefined> {
    const { rows } = await sql<Claimed>`${select}`.execute(this.#ctx.store.db);
    return rows[0];
  }
}

/** Columns of {@link Claimed}, of an API session `a` and its identity `i`. */
const OF_API_SESSION = sql`a.id AS api_session_id, a.token AS api_token, a.kind, a.last_activity_at, a.expires_at, a.access_until,
  i.id AS identity_id, i.attrs AS identity_attrs, i.is_admin`;
/** … and of a service `v`. */
const OF_SERVICE = sql`v.id AS service_id, v.name AS service_name, v.terminator_strategy, v.encryption_required,
  v.max_idle_time_millis`;

function identityOf({ identity_id: id, identity_attrs: attrs }: Claimed) {
  return { id, attrs };
}

function apiSessionOf({ api_session_id: id, kind, last_activity_at, expires_at }: Claimed) {
  return { id, kind, last_activity_at, expires_at };
}
