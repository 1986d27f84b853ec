import {
  apiError,
  fieldError,
  type identityCreate,
  type identityPatch,
  notFound,
  unhandledCause,
} from "@sallyport/api";
import { type Selectable, sql } from "kysely";
import type { z } from "zod";
import { numberedName } from "../../auth/identity-name.ts";
import { appendChange } from "../../store/changes/change-log.ts";
import {
  API_SESSION_BEFORE,
  type IdentityBefore,
  LoggedStatement,
  SESSION_BEFORE,
} from "../../store/changes/logged-write.ts";
import { Statement } from "../../store/driver/statement.ts";
import { randomEntityId } from "../../store/ids.ts";
import { isConditional } from "../../store/row-version.ts";
import type { IdentityTable } from "../../store/schema.ts";
import type { Db, ModelContext } from "../context.ts";
import { findByIdOrName, found, json, requireIndexed, requireName, updateAttributed, updateEntity } from "../entity.ts";
import { roleAttributes } from "../policy/role-selector.ts";
import { ENDED_API_SESSION, endApiSessions, REVOKED, revokeEnded } from "../session/session-removal.ts";
import { translated } from "../store-errors.ts";
import { claimAuthenticatorId } from "./cas.ts";
import { ENROLLMENT_COLUMNS, type Enrollments } from "./enrollments.ts";
import { tokenAuthenticatorId } from "./ext-jwt-signers.ts";

export type IdentityRow = Selectable<IdentityTable>;
export type NewIdentity = z.output<typeof identityCreate>;
export type IdentityChange = z.output<typeof identityPatch>;

const FIND = new Statement<IdentityRow>("SELECT * FROM identity WHERE id = $1");
const LOCK = new Statement<IdentityRow>("SELECT * FROM identity WHERE id = $1 FOR UPDATE");
const CREATE = new LoggedStatement<never>(
  `WITH made AS (
    INSERT INTO identity (id, name, type_id, is_admin, attrs, external_id, auth_policy_id, default_hosting_cost,
      default_hosting_precedence, service_hosting_costs, service_hosting_precedences, permissions, app_data, tags)
    VALUES ($1, $2, $23, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) RETURNING id),
  invited AS (
    INSERT INTO enrollment (id, method, identity_id, ca_id, username, token, jwt, signer, issued_at, expires_at)
    SELECT $14::text, $15::text, made.id, $16::text, $17::text, $18::text, $19::text, $20::text, $21::timestamptz,
      $22::timestamptz FROM made WHERE $14::text IS NOT NULL RETURNING id)`,
  {
    changes: [
      { kind: "enrollment", op: "create", of: "invited" },
      { kind: "identity", op: "create", of: "made" },
    ],
  },
);
/** Removes also what the database would remove with the row: it would do so without rows in the change log. */
const REMOVE = new LoggedStatement<never>(
  `WITH ended AS (DELETE FROM api_session WHERE identity_id = $1 RETURNING ${ENDED_API_SESSION}),
    ${revokeEnded("ended")},
    sessions AS (SELECT s.* FROM session s JOIN ended ON ended.id = s.api_session_id),
    service_policies AS (DELETE FROM service_policy_ref WHERE identity_id = $1 RETURNING policy_id),
    router_policies AS (DELETE FROM edge_router_policy_ref WHERE identity_id = $1 RETURNING policy_id),
    authenticators AS (DELETE FROM authenticator WHERE identity_id = $1 RETURNING id),
    enrollments AS (DELETE FROM enrollment WHERE identity_id = $1 RETURNING id),
    mfas AS (DELETE FROM mfa WHERE identity_id = $1 RETURNING id),
    gone AS (DELETE FROM identity WHERE id = $1 RETURNING id, attrs)`,
  {
    changes: [
      { kind: "session", op: "delete", of: "sessions", before: SESSION_BEFORE },
      { kind: "api_session", op: "delete", of: "ended", before: API_SESSION_BEFORE },
      REVOKED,
      { kind: "service_policy", op: "update", of: "service_policies", key: "policy_id" },
      { kind: "edge_router_policy", op: "update", of: "router_policies", key: "policy_id" },
      { kind: "authenticator", op: "delete", of: "authenticators" },
      { kind: "enrollment", op: "delete", of: "enrollments" },
      { kind: "mfa", op: "delete", of: "mfas" },
      { kind: "identity", op: "delete", of: "gone", before: { attrs: "attrs" } },
    ],
    isPipelined: true,
  },
);

/** What can authenticate: people, devices, applications, and routers that tunnel. */
export class Identities {
  readonly #ctx: ModelContext;
  readonly #enrollments: Enrollments;

  constructor(ctx: ModelContext, enrollments: Enrollments) {
    this.#ctx = ctx;
    this.#enrollments = enrollments;
  }

  /** Makes an identity and what it is to enroll with. */
  async create(identity: NewIdentity): Promise<string> {
    requireName(identity.name);
    requireIndexed("externalId", identity.externalId);
    if (identity.type === "Router") {
      throw fieldError("type", "may not create identities with given typeId", identity.type);
    }
    const id = randomEntityId();
    const enrollment = this.#invitation(id, identity.enrollment ?? {});
    await this.#requireHosted(id, identity);
    await translated(() =>
      CREATE.rows(this.#ctx.store.db, [
        id,
        identity.name,
        identity.isAdmin,
        roleAttributes(identity.roleAttributes),
        blankAsNull(identity.externalId),
        identity.authPolicyId || "default",
        identity.defaultHostingCost,
        identity.defaultHostingPrecedence,
        json(identity.serviceHostingCosts),
        json(identity.serviceHostingPrecedences),
        identity.permissions,
        json(identity.appData),
        json(identity.tags),
        ...ENROLLMENT_COLUMNS.map((column) => enrollment?.[column] ?? null),
        identity.type,
      ]),
    );
    return id;
  }

  /**
   * Applies the fields that are present. A new administrator has to authenticate again, because some ways to a session are not for administrators
   * (docs/security.md): its API sessions end. A new external id ends the sessions that the former one has made.
   * @throws ApiError 400 when the default administrator is to be none
   */
  async update(id: string, change: IdentityChange): Promise<void> {
    if (change.name !== undefined) requireName(change.name);
    requireIndexed("externalId", change.externalId);
    await this.#requireHosted(id, change);
    const values = {
      name: change.name,
      is_admin: change.isAdmin,
      attrs: change.roleAttributes === undefined ? undefined : roleAttributes(change.roleAttributes),
      external_id: change.externalId === undefined ? undefined : blankAsNull(change.externalId),
      auth_policy_id: change.authPolicyId === undefined ? undefined : change.authPolicyId || "default",
      default_hosting_cost: change.defaultHostingCost,
      default_hosting_precedence: change.defaultHostingPrecedence,
      service_hosting_costs: json(change.serviceHostingCosts),
      service_hosting_precedences: json(change.serviceHostingPrecedences),
      permissions: change.permissions,
      app_data: json(change.appData),
      tags: json(change.tags),
      updated_at: this.#ctx.now(),
    };
    await translated(() =>
      LOCKING.every((field) => change[field] === undefined) && !isConditional()
        ? updateAttributed(this.#ctx.store.db, "identity", id, values)
        : this.#ctx.store.transaction(async (trx) => {
            const before = await this.locked(trx, id);
            if (before.type_id === "Router") {
              if (change.name !== undefined && change.name !== before.name) {
                throw fieldError("name", "may not change the name of router identities", change.name);
              }
            } else if (change.type === "Router") {
              throw fieldError("type", "may not change an identity into one of type Router", change.type);
            }
            if (change.isAdmin === false && before.is_default_admin) {
              throw fieldError("isAdmin", "the default administrator stays an administrator", false);
            }
            if (change.isAdmin === true && !before.is_admin) await endApiSessions(trx, sql`a.identity_id = ${id}`);
            if (values.external_id !== undefined && values.external_id !== before.external_id) {
              await endNamedSessions(trx, id);
            }
            // A router's identity keeps its type, whatever a PUT has to name.
            const written = before.type_id === "Router" ? values : { ...values, type_id: change.type };
            await updateAttributed(trx, "identity", id, written);
            if (values.auth_policy_id !== undefined && values.auth_policy_id !== before.auth_policy_id) {
              const beforeChange: IdentityBefore = { attrs: before.attrs, isAuthPolicyChanged: true };
              await appendChange(trx, { kind: "identity", key: id, op: "update", before: { ...beforeChange } });
            }
          }),
    );
  }

  /** Services with a cost or a precedence exist, or existed when they were given one. @throws ApiError 404 naming one that does not */
  async #requireHosted(id: string, { serviceHostingCosts, serviceHostingPrecedences }: IdentityChange): Promise<void> {
    const services = Object.keys({ ...serviceHostingCosts, ...serviceHostingPrecedences });
    if (services.length === 0) return;
    const { rows } = await sql<{ id: string }>`SELECT asked.id FROM unnest(${services}::text[]) asked(id)
      WHERE NOT EXISTS (SELECT FROM service s WHERE s.id = asked.id)
        AND NOT EXISTS (SELECT FROM identity i WHERE i.id = ${id}
          AND jsonb_exists(i.service_hosting_costs || i.service_hosting_precedences, asked.id))
      LIMIT 1`.execute(this.#ctx.store.db);
    const [missing] = rows;
    if (missing !== undefined) throw notFound("service", missing.id);
  }

  /** Replaces all fields: what a PUT leaves out goes back to its default, the references to auth policy and external id too. */
  async replace(id: string, identity: Omit<NewIdentity, "enrollment">): Promise<void> {
    await this.update(id, {
      ...identity,
      externalId: identity.externalId ?? "",
      authPolicyId: identity.authPolicyId ?? "default",
    });
  }

  /** Removes the identity, its credentials, sessions and selectors at once. */
  async delete(id: string): Promise<void> {
    await this.#ctx.store.transaction(async (trx) => {
      const row = await this.locked(trx, id);
      if (row.is_default_admin) {
        throw apiError("ENTITY_CAN_NOT_BE_DELETED", unhandledCause("the default admin identity can not be deleted"));
      }
      if (row.type_id === "Router") {
        const reason = `identity ${id} belongs to the router ${id}: delete the router, or turn its tunneler off`;
        throw apiError("ENTITY_CAN_NOT_BE_DELETED", unhandledCause(reason));
      }
      await this.remove(trx, row);
    });
  }

  /** The delete itself, in a transaction that holds the row. */
  async remove(trx: Db, row: Pick<IdentityRow, "id">): Promise<void> {
    await REMOVE.rows(trx, [row.id]);
  }

  /** Forbids authentication for some minutes, or with 0 or less until {@link enable}; ends the identity's API sessions. */
  async disable(id: string, minutes: number): Promise<void> {
    await this.#ctx.store.transaction(async (trx) => this.#disable(trx, await this.locked(trx, id), minutes));
  }

  /** Like {@link disable}, after too many failed logins: never shortens what an administrator, or an earlier lockout, has set. */
  async lockOut(id: string, minutes: number): Promise<void> {
    await this.#ctx.store.transaction(async (trx) => {
      const row = await this.locked(trx, id);
      const at = this.#ctx.now();
      const until = endOf(at, minutes);
      const isLonger = row.disabled_until === null || (until !== null && row.disabled_until >= until);
      if (isDisabled(row, at) && isLonger) return;
      await this.#disable(trx, row, minutes);
    });
  }

  async #disable(trx: Db, row: IdentityRow, minutes: number): Promise<void> {
    const at = this.#ctx.now();
    await updateEntity(trx, "identity", row.id, {
      disabled_at: at,
      disabled_until: endOf(at, minutes),
      updated_at: at,
    });
    await endApiSessions(trx, sql`a.identity_id = ${row.id}`);
    await this.#logUpdate(trx, row);
  }

  async enable(id: string): Promise<void> {
    await this.#ctx.store.transaction(async (trx) => {
      const row = await this.locked(trx, id);
      await updateEntity(trx, "identity", id, { disabled_at: null, disabled_until: null, updated_at: this.#ctx.now() });
      await this.#logUpdate(trx, row);
    });
  }

  /**
   * Makes an identity that enrolls by itself, with the default auth policy unless another is named. Its name gets a number when it is taken.
   * @throws Error when so many others took names at the same moment that none was left to try
   */
  async insertEnrolled(
    trx: Db,
    identity: {
      readonly id: string;
      readonly name: string;
      readonly attributes: readonly string[];
      readonly externalId?: string;
      readonly authPolicyId?: string;
    },
  ): Promise<void> {
    const { id, name } = identity;
    for (let attempt = 0; attempt < MAX_NAMES; attempt++) {
      const tried = attempt === 0 ? name : numberedName(name, (await lastNumber(trx, name)) + 1);
      const row = await trx
        .insertInto("identity")
        .values({
          ...{ id, name: tried, type_id: "Default", attrs: roleAttributes(identity.attributes) },
          external_id: identity.externalId ?? null,
          auth_policy_id: identity.authPolicyId,
        })
        .onConflict((conflict) => conflict.column("name").doNothing())
        .returning("id")
        .executeTakeFirst();
      if (row === undefined) continue;
      await appendChange(trx, { kind: "identity", key: id, op: "create" });
      return;
    }
    throw new Error(`no free name like ${name} was found in ${MAX_NAMES} attempts`);
  }

  /** Lets the identity authenticate by an external id. @throws ApiError 404; what the table refuses */
  async setExternalId(trx: Db, id: string, externalId: string): Promise<void> {
    const before = await this.locked(trx, id);
    await updateEntity(trx, "identity", id, { external_id: externalId, updated_at: this.#ctx.now() });
    await this.#logUpdate(trx, before);
  }

  async find(db: Db, id: string): Promise<IdentityRow | undefined> {
    return FIND.first(db, [id]);
  }

  async findByIdOrName(db: Db, idOrName: string): Promise<IdentityRow | undefined> {
    return findByIdOrName(db, "identity", idOrName);
  }

  /** @throws ApiError 404 */
  async get(db: Db, id: string): Promise<IdentityRow> {
    return found(await this.find(db, id), "identity", id);
  }

  /** Keeps what a client said about its device and program at its last login. */
  async saveInfo(
    trx: Db,
    id: string,
    info: { readonly envInfo: Record<string, string>; readonly sdkInfo: Record<string, string> },
  ): Promise<void> {
    const values = { env_info: json(info.envInfo), sdk_info: json(info.sdkInfo) };
    await trx
      .insertInto("identity_info")
      .values({ identity_id: id, ...values })
      .onConflict((conflict) => conflict.column("identity_id").doUpdateSet(values))
      .execute();
  }

  /** What a new identity is to enroll with, if anything. */
  #invitation(identityId: string, { ott, ottca, updb }: NonNullable<NewIdentity["enrollment"]>) {
    if ([ott, ottca, updb].filter(Boolean).length > 1) {
      throw fieldError("enrollment", "enrollment may hold only one of ott, ottca and updb");
    }
    if (ott === true) return this.#enrollments.invite({ method: "ott", identityId });
    if (ottca !== undefined && ottca !== "") {
      return this.#enrollments.invite({ method: "ottca", identityId, caId: ottca });
    }
    if (updb !== undefined && updb !== "") {
      return this.#enrollments.invite({ method: "updb", identityId, username: updb });
    }
    return undefined;
  }

  /** The row, held until the transaction ends. @throws ApiError 404 */
  async locked(trx: Db, id: string): Promise<IdentityRow> {
    return found(await LOCK.first(trx, [id]), "identity", id);
  }

  async #logUpdate(trx: Db, before: IdentityRow): Promise<void> {
    await appendChange(trx, { kind: "identity", key: before.id, op: "update", before: { attrs: before.attrs } });
  }
}

const MAX_NAMES = 20;

/** Changes of these depend on what the identity was before. */
const LOCKING = ["name", "type", "isAdmin", "externalId", "authPolicyId"] as const;

/** Ends the API sessions that were made because a token, or a third party's certificate, named the identity's external id. */
async function endNamedSessions(trx: Db, id: string): Promise<void> {
  await endApiSessions(
    trx,
    sql`a.identity_id = ${id} AND (EXISTS (SELECT 1 FROM ca WHERE a.authenticator_id = ${claimAuthenticatorId("")} || ca.id)
      OR EXISTS (SELECT 1 FROM ext_jwt_signer s WHERE s.use_external_id AND a.authenticator_id = ${tokenAuthenticatorId("")} || s.id))`,
  );
}

/** The highest number that an identity's name of this beginning has; 0 when there is none. */
async function lastNumber(db: Db, name: string): Promise<number> {
  const { rows } = await sql<{ last: number | null }>`
    SELECT max(right(name, 6)::integer) AS last FROM identity
    WHERE name > ${name} AND name < ${`${name}:`} AND length(name) = length(${name}) + 6
      AND right(name, 6) ~ '^[0-9]{6}$'`.execute(db);
  return rows[0]?.last ?? 0;
}

function blankAsNull(text: string | undefined): string | null {
  return text === undefined || text.trim() === "" ? null : text;
}

/** More minutes than a century has mean without end, too. */
const MAX_MINUTES = 52_596_000;

/** When a time of so many minutes ends; null: never. */
function endOf(at: Date, minutes: number): Date | null {
  return minutes > 0 && minutes <= MAX_MINUTES ? new Date(at.getTime() + minutes * 60_000) : null;
}

/** Is the identity forbidden to authenticate at this moment? */
export function isDisabled(row: Pick<IdentityRow, "disabled_at" | "disabled_until">, at: Date): boolean {
  return row.disabled_at !== null && (row.disabled_until === null || row.disabled_until > at);
}
