import { randomUUID } from "node:crypto";
import { apiError, fieldError, unhandledCause } from "@sallyport/api";
import type { Insertable, Selectable } from "kysely";
import { sql } from "kysely";
import { appendChange } from "../../store/changes/change-log.ts";
import { loggedWrite } from "../../store/changes/logged-write.ts";
import { randomEntityId } from "../../store/ids.ts";
import type { EnrollmentMethod, EnrollmentTable } from "../../store/schema.ts";
import type { Db, ModelContext } from "../context.ts";
import { deleteEntity, findEntity, getEntity, lockEntity, updateEntity } from "../entity.ts";
import { transact } from "../store-errors.ts";

const REISSUE_BATCH = 200;

export type EnrollmentRow = Selectable<EnrollmentTable>;

/** Of an enrollment that is stored together with its identity, in this order. */
export const ENROLLMENT_COLUMNS = [
  "id",
  "method",
  "ca_id",
  "username",
  "token",
  "jwt",
  "signer",
  "issued_at",
  "expires_at",
] as const;

/** The identity or router that an enrollment is for, and its method. */
export interface NewEnrollment {
  readonly method: EnrollmentMethod;
  readonly identityId?: string;
  readonly routerId?: string;
  readonly caId?: string | undefined;
  readonly username?: string | undefined;
  /** Default: the configured life from now on. */
  readonly expiresAt?: Date;
}

/** One-time invitations to become an identity's or a router's credential holder. */
export class Enrollments {
  readonly #ctx: ModelContext;

  constructor(ctx: ModelContext) {
    this.#ctx = ctx;
  }

  /** The row of a new enrollment, which is not stored yet. */
  invite(enrollment: NewEnrollment): Insertable<EnrollmentTable> & { readonly id: string } {
    const { settings, now } = this.#ctx;
    const issuedAt = now();
    const life = enrollment.routerId === undefined ? settings.identityEnrollmentMs : settings.routerEnrollmentMs;
    const expiresAt = enrollment.expiresAt ?? new Date(issuedAt.getTime() + life);
    const subject = enrollment.identityId ?? enrollment.routerId ?? "";
    return {
      id: randomEntityId(),
      method: enrollment.method,
      identity_id: enrollment.identityId ?? null,
      router_id: enrollment.routerId ?? null,
      ca_id: enrollment.caId ?? null,
      username: enrollment.username ?? null,
      ...this.#invitation(enrollment.method, subject, expiresAt),
      issued_at: issuedAt,
      expires_at: expiresAt,
    };
  }

  /** Makes an enrollment in the transaction `trx`. */
  async insert(trx: Db, enrollment: NewEnrollment): Promise<string> {
    const row = this.invite(enrollment);
    await trx.insertInto("enrollment").values(row).execute();
    await appendChange(trx, { kind: "enrollment", key: row.id, op: "create" });
    return row.id;
  }

  /**
   * Invites an existing identity.
   * @throws ApiError 400 `REFERENCED_ENTITY_NOT_FOUND` naming the field, 409 `ENROLLMENT_EXISTS`
   */
  async create(request: {
    readonly identityId: string;
    readonly method: "ott" | "ottca" | "updb";
    readonly expiresAt: Date;
    readonly caId?: string | undefined;
    readonly username?: string | undefined;
  }): Promise<string> {
    return transact(this.#ctx.store, async (trx) => {
      if ((await findEntity(trx, "identity", request.identityId, ["id"])) === undefined) {
        throw unusable("identityId", "identity not found", request.identityId);
      }
      this.#requireFuture(request.expiresAt, unusable);
      if (request.method === "updb" && (request.username ?? "") === "") {
        throw unusable("username", "username is required for method updb", request.username);
      }
      if (request.method === "ottca" && (await findEntity(trx, "ca", request.caId ?? "", ["id"])) === undefined) {
        throw unusable("caId", "ca not found", request.caId);
      }
      return this.insert(trx, {
        identityId: request.identityId,
        method: request.method,
        expiresAt: request.expiresAt,
        caId: request.method === "ottca" ? request.caId : undefined,
        username: request.method === "updb" ? request.username : undefined,
      });
    });
  }

  /** A new token and a new JWT; the old ones are dead. */
  async refresh(id: string, expiresAt: Date): Promise<void> {
    this.#requireFuture(expiresAt, fieldError);
    await this.#ctx.store.transaction(async (trx) => {
      const row = await lockEntity(trx, "enrollment", id);
      const subject = row.identity_id ?? row.router_id ?? "";
      await updateEntity(trx, "enrollment", id, {
        ...this.#invitation(row.method, subject, expiresAt),
        issued_at: this.#ctx.now(),
        expires_at: expiresAt,
        updated_at: this.#ctx.now(),
      });
      await appendChange(trx, { kind: "enrollment", key: id, op: "update" });
    });
  }

  /** What is outstanding for the routers. */
  async ofRouters(db: Db, routerIds: readonly string[]): Promise<EnrollmentRow[]> {
    if (routerIds.length === 0) return [];
    return db.selectFrom("enrollment").selectAll().where("router_id", "in", routerIds).execute();
  }

  /** @throws ApiError 404 */
  async get(db: Db, id: string): Promise<EnrollmentRow> {
    return getEntity(db, "enrollment", id);
  }

  async delete(id: string): Promise<void> {
    await this.#ctx.store.transaction((trx) => deleteEntity(trx, "enrollment", id));
  }

  /**
   * The enrollment that a token stands for at this moment; {@link claim} is what uses it.
   * @throws ApiError 400 `INVALID_ENROLLMENT_TOKEN`, `INVALID_ENROLL_METHOD`, `ENROLLMENT_EXPIRED`
   */
  async find(db: Db, token: string, method: EnrollmentMethod): Promise<EnrollmentRow> {
    return this.#usable(await byToken(db, token).executeTakeFirst(), method);
  }

  /**
   * The enrollment that a token stands for. Inside a transaction the row is locked, so that of two holders of one token one finds it gone.
   * @throws ApiError 400 `INVALID_ENROLLMENT_TOKEN`, `INVALID_ENROLL_METHOD`, `ENROLLMENT_EXPIRED`
   */
  async claim(trx: Db, token: string, method: EnrollmentMethod): Promise<EnrollmentRow> {
    return this.#usable(await byToken(trx, token).forUpdate().executeTakeFirst(), method);
  }

  #usable(row: EnrollmentRow | undefined, method: EnrollmentMethod): EnrollmentRow {
    if (row === undefined) throw apiError("INVALID_ENROLLMENT_TOKEN");
    if (row.method !== method) {
      throw apiError("INVALID_ENROLL_METHOD", unhandledCause(`the token is for method ${row.method}, not ${method}`));
    }
    if (row.expires_at <= this.#ctx.now()) throw apiError("ENROLLMENT_EXPIRED");
    return row;
  }

  /** Uses a claimed enrollment up. @throws ApiError 404 when it is gone: another request was first, or it was deleted */
  async complete(trx: Db, row: EnrollmentRow): Promise<void> {
    await deleteEntity(trx, "enrollment", row.id);
  }

  /** Deletes what is outstanding for a router. */
  async withdraw(trx: Db, routerId: string): Promise<void> {
    await loggedWrite(trx, sql`WITH gone AS (DELETE FROM enrollment WHERE router_id = ${routerId} RETURNING id)`, {
      changes: [{ kind: "enrollment", op: "delete", of: "gone" }],
    });
  }

  #requireFuture(at: Date, error: (field: string, reason: string, value?: unknown) => Error): void {
    if (at <= this.#ctx.now()) throw error("expiresAt", "expiresAt must be in the future", at.toISOString());
  }

  /**
   * Signs again the tokens that another certificate than the served one has signed: their holders could not verify them. The one-time tokens in them, and
   * their ends, stay. In batches, so that neither the database nor a request waits for it. Answers how many were signed.
   */
  async reissue(signal?: AbortSignal): Promise<number> {
    const { store, pki, now } = this.#ctx;
    let total = 0;
    let after = "";
    while (signal?.aborted !== true) {
      const signer = pki.jwtSigner;
      const rows = await store.db
        .selectFrom("enrollment")
        .selectAll()
        .where("signer", "<>", signer)
        .where("id", ">", after)
        .orderBy("id")
        .limit(REISSUE_BATCH)
        .execute();
      const last = rows.at(-1);
      if (last === undefined) return total;
      after = last.id;
      const signed = rows.map(({ id, method, token, identity_id, router_id, expires_at }) => ({
        id,
        token,
        jwt: this.#jwt(method, identity_id ?? router_id ?? "", token, expires_at),
      }));
      // One that was refreshed or redeemed meanwhile has another token, or is gone.
      const written = await store.transaction((trx) =>
        loggedWrite(
          trx,
          sql`
          WITH signed AS (SELECT * FROM jsonb_to_recordset(${JSON.stringify(signed)}::jsonb) AS s (id text, token text, jwt text)),
          written AS (UPDATE enrollment e SET jwt = s.jwt, signer = ${signer}, updated_at = ${now()}
            FROM signed s WHERE e.id = s.id AND e.token = s.token RETURNING e.id)`,
          {
            changes: [{ kind: "enrollment", op: "update", of: "written" }],
            answer: sql<{ id: string }>`SELECT id FROM written`,
          },
        ),
      );
      total += written.length;
    }
    return total;
  }

  #invitation(method: EnrollmentMethod, subject: string, expiresAt: Date) {
    const token = randomUUID();
    return { token, jwt: this.#jwt(method, subject, token, expiresAt), signer: this.#ctx.pki.jwtSigner };
  }

  #jwt(method: EnrollmentMethod, subject: string, token: string, expiresAt: Date): string {
    const { settings, pki, replicas } = this.#ctx;
    return pki.signJwt({
      iss: `https://${settings.apiAddress}`,
      sub: subject,
      aud: [""],
      exp: Math.floor(expiresAt.getTime() / 1000),
      jti: token,
      em: method,
      ctrls: replicas.replicas().map(({ ctrlAddress }) => ctrlAddress),
    });
  }
}

const byToken = (db: Db, token: string) => db.selectFrom("enrollment").selectAll().where("token", "=", token);

function unusable(field: string, reason: string, value?: unknown): Error {
  return apiError("REFERENCED_ENTITY_NOT_FOUND", { field, reason, value: String(value ?? "") });
}
