import type { X509Certificate } from "node:crypto";
import { apiError, type authenticatorCreate, fieldError, notFound, unhandledCause } from "@sallyport/api";
import { CertificateError, fingerprint, IssuerSearch, parseCertificates } from "@sallyport/wire";
import { type Insertable, type Selectable, sql } from "kysely";
import type { z } from "zod";
import { hashPassword, passwordProblem } from "../../auth/password.ts";
import { issuingAuthority } from "../../pki/third-party-ca.ts";
import { appendChange } from "../../store/changes/change-log.ts";
import { randomEntityId } from "../../store/ids.ts";
import type { AuthenticatorTable, Tags } from "../../store/schema.ts";
import type { Db, ModelContext } from "../context.ts";
import { found, getEntity, json, updateEntity } from "../entity.ts";
import { endApiSessions } from "../session/session-removal.ts";
import { transact } from "../store-errors.ts";
import type { Enrollments } from "./enrollments.ts";

export type AuthenticatorRow = Selectable<AuthenticatorTable>;

/** A credential to store: a user name with the hash of its password, or a certificate. */
export type NewCredential =
  | { readonly method: "updb"; readonly username: string; readonly passwordHash: string }
  | {
      readonly method: "cert";
      readonly certPem: string;
      readonly fingerprint: string;
      readonly isIssuedByNetwork: boolean;
      readonly caId?: string;
    };

/** What identities prove themselves with: one certificate and one password at most. */
export class Authenticators {
  readonly #ctx: ModelContext;
  readonly #enrollments: Enrollments;

  constructor(ctx: ModelContext, enrollments: Enrollments) {
    this.#ctx = ctx;
    this.#enrollments = enrollments;
  }

  /** Stores a credential in a transaction. A second one of its method is refused by the table: 409. */
  async insert(trx: Db, identityId: string, credential: NewCredential, tags: Tags = {}): Promise<string> {
    const id = randomEntityId();
    const own: Partial<Insertable<AuthenticatorTable>> =
      credential.method === "updb"
        ? { username: credential.username, password_hash: credential.passwordHash }
        : {
            cert_pem: credential.certPem,
            fingerprint: credential.fingerprint,
            is_issued_by_network: credential.isIssuedByNetwork,
            ca_id: credential.caId ?? null,
          };
    await trx
      .insertInto("authenticator")
      .values({ ...own, id, identity_id: identityId, method: credential.method, tags: json(tags) })
      .execute();
    await appendChange(trx, { kind: "authenticator", key: id, op: "create" });
    return id;
  }

  /** Made by an administrator. */
  async create(request: z.output<typeof authenticatorCreate>): Promise<string> {
    const credential = await this.#credential(request);
    return transact(this.#ctx.store, async (trx) => {
      const identity = await getEntity(trx, "identity", request.identityId, ["type_id"]);
      if (identity.type_id === "Router") {
        const reason = "may not create authenticators for router identities";
        throw fieldError("identityId", reason, request.identityId);
      }
      return this.insert(trx, request.identityId, credential, request.tags);
    });
  }

  /**
   * Changes user name or password. A new password ends the API sessions made with the old one, except `keptSession`. `requireUnchanged` throws unless the
   * stored hash is the one that the caller has proved to know. @throws ApiError 409 for a certificate, 404
   */
  async update(
    id: string,
    change: {
      readonly username?: string | undefined;
      readonly password?: string | undefined;
      readonly tags?: Tags | undefined;
    },
    options: {
      readonly keptSession?: string;
      readonly requireUnchanged?: (storedHash: string | null) => Promise<void>;
    } = {},
  ): Promise<void> {
    const row = await this.get(this.#ctx.store.db, id);
    if (row.method !== "updb") throw apiError("CAN_NOT_UPDATE_AUTHENTICATOR");
    const passwordHash =
      change.password === undefined
        ? undefined
        : await this.#hash(this.#ctx.store.db, row.identity_id, change.password);
    await transact(this.#ctx.store, async (trx) => {
      const held = await trx
        .selectFrom("authenticator")
        .select("password_hash")
        .where("id", "=", id)
        .forNoKeyUpdate()
        .executeTakeFirst();
      await options.requireUnchanged?.(found(held, "authenticator", id).password_hash);
      await updateEntity(trx, "authenticator", id, {
        username: change.username,
        password_hash: passwordHash,
        tags: json(change.tags),
        updated_at: this.#ctx.now(),
      });
      if (passwordHash !== undefined) {
        await endApiSessions(trx, sql`a.authenticator_id = ${id} AND a.id <> ${options.keptSession ?? ""}`);
      }
      await appendChange(trx, { kind: "authenticator", key: id, op: "update" });
    });
  }

  /** Removes the credential, and ends the API sessions made with it. */
  async delete(id: string): Promise<void> {
    await this.#ctx.store.transaction((trx) => this.#remove(trx, id));
  }

  /** Replaces an authenticator by an enrollment of the matching method; answers the enrollment's id. */
  async reEnroll(id: string, expiresAt: Date): Promise<string> {
    if (expiresAt <= this.#ctx.now()) {
      throw fieldError("expiresAt", "expiresAt must be in the future", expiresAt.toISOString());
    }
    return transact(this.#ctx.store, async (trx) => {
      const row = await this.get(trx, id);
      const base = { identityId: row.identity_id, expiresAt };
      const enrollment =
        row.method === "updb"
          ? { ...base, method: "updb" as const, username: row.username ?? "" }
          : row.ca_id === null
            ? { ...base, method: "ott" as const }
            : { ...base, method: "ottca" as const, caId: row.ca_id };
      const enrollmentId = await this.#enrollments.insert(trx, enrollment);
      await this.#remove(trx, id);
      return enrollmentId;
    });
  }

  /** @throws ApiError 404 */
  async get(db: Db, id: string): Promise<AuthenticatorRow> {
    return getEntity(db, "authenticator", id);
  }

  /** @throws ApiError 404, also for an authenticator of another identity */
  async owned(db: Db, id: string, identityId: string): Promise<AuthenticatorRow> {
    const row = await this.get(db, id);
    return found(row.identity_id === identityId ? row : undefined, "authenticator", id);
  }

  /** The hash of a new password that the identity's policy takes. */
  async #hash(db: Db, identityId: string, password: string): Promise<string> {
    const policy = await db
      .selectFrom("identity")
      .innerJoin("auth_policy", "auth_policy.id", "identity.auth_policy_id")
      .selectAll("auth_policy")
      .where("identity.id", "=", identityId)
      .executeTakeFirst();
    if (policy === undefined) throw notFound("identity", identityId);
    const problem = passwordProblem(password, {
      minLength: policy.updb_min_password_length,
      requireMixedCase: policy.updb_require_mixed_case,
      requireNumber: policy.updb_require_number,
      requireSpecial: policy.updb_require_special,
    });
    if (problem !== undefined) throw fieldError("password", problem);
    return hashPassword(password);
  }

  /** A user name with its password, checked by the identity's policy and hashed. */
  async passwordCredential(db: Db, identityId: string, username: string, password: string): Promise<NewCredential> {
    return { method: "updb", username, passwordHash: await this.#hash(db, identityId, password) };
  }

  async #credential(request: z.output<typeof authenticatorCreate>): Promise<NewCredential> {
    if (request.method === "updb") {
      const { username, password } = request;
      if (username === undefined || username === "") throw fieldError("username", "username is required", username);
      if (password === undefined) throw fieldError("password", "password is required");
      return this.passwordCredential(this.#ctx.store.db, request.identityId, username, password);
    }
    if (request.method !== "cert") throw fieldError("method", "method must be updb or cert", request.method);
    const certPem = request.certPem ?? "";
    const [certificate] = certificatesOf(certPem);
    return { method: "cert", certPem, fingerprint: fingerprint(certificate), ...(await this.#issuer(certificate)) };
  }

  /** Who issued it: the network, or a verified CA. @throws ApiError 400 when neither did */
  async #issuer(leaf: X509Certificate): Promise<{ isIssuedByNetwork: boolean; caId?: string }> {
    const search = new IssuerSearch({ leaf, intermediates: [], at: this.#ctx.now(), checkDates: true });
    if (search.under(this.#ctx.pki.trustAnchors) !== undefined) return { isIssuedByNetwork: true };
    const cas = await this.#ctx.store.db
      .selectFrom("ca")
      .select(["id", "cert_pem"])
      .where("is_verified", "=", true)
      .execute();
    const ca = issuingAuthority(search, cas);
    if (ca === undefined) {
      throw apiError("INVALID_CLIENT_CERT", unhandledCause("the certificate was issued by no known CA"));
    }
    return { isIssuedByNetwork: false, caId: ca.id };
  }

  async #remove(trx: Db, id: string): Promise<void> {
    const { numDeletedRows } = await trx.deleteFrom("authenticator").where("id", "=", id).executeTakeFirst();
    found(numDeletedRows || undefined, "authenticator", id);
    await endApiSessions(trx, sql`a.authenticator_id = ${id}`);
    await appendChange(trx, { kind: "authenticator", key: id, op: "delete" });
  }
}

/** The certificates of a PEM text. @throws ApiError 400 when there is none */
export function certificatesOf(pem: string): [X509Certificate, ...X509Certificate[]] {
  try {
    const [first, ...more] = parseCertificates(pem);
    if (first !== undefined) return [first, ...more];
  } catch (error) {
    if (!(error instanceof CertificateError)) throw error;
  }
  throw apiError("INVALID_CERT_PEM");
}
