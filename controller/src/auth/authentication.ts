import type { X509Certificate } from "node:crypto";
import { apiError, fieldError, unauthorized } from "@sallyport/api";
import { fingerprint } from "@sallyport/wire";
import { sql } from "kysely";
import type { ModelContext } from "../model/context.ts";
import type { AuthPolicyRow } from "../model/identity/auth-policies.ts";
import { type IdentityRow, isDisabled } from "../model/identity/identities.ts";
import type { Model } from "../model/model.ts";
import type { ApiSessionRow } from "../model/session/api-sessions.ts";
import { trustOf } from "./client-certificate.ts";
import { FailedAttempts } from "./failed-attempts.ts";
import { checkPassword } from "./password.ts";

/** A primary authentication as it is asked for. */
export interface LoginRequest {
  readonly method: "password" | "cert" | "ext-jwt";
  readonly username?: string | undefined;
  readonly password?: string | undefined;
  readonly peerCertificates: readonly X509Certificate[];
  readonly remoteIp: string;
  /** Names or ids of config types, or `all`. */
  readonly configTypes?: readonly string[] | undefined;
  readonly envInfo?: Readonly<Record<string, string | undefined>> | undefined;
  readonly sdkInfo?: Readonly<Record<string, string | undefined>> | undefined;
}

/** A login that succeeded. */
export interface Login {
  readonly session: ApiSessionRow;
  readonly identity: IdentityRow;
  /** An administrator has asked for the certificate in use to be extended. */
  readonly isExtendRequested: boolean;
}

/** Who was proved to be calling, by which credential. */
interface Proof {
  readonly identity: IdentityRow;
  readonly authenticatorId: string;
  readonly certFingerprints: readonly string[];
  readonly improperClientCertChain: boolean;
  readonly isExtendRequested: boolean;
}

/** The session of a request, with what authorisation needs. */
export interface AuthenticatedSession {
  readonly session: ApiSessionRow;
  readonly identity: IdentityRow;
}

/** Password checks at once. Each takes memory and a thread; what comes beyond is asked to come again. */
const MOST_PASSWORD_CHECKS = 64;
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/**
 * Primary authentication and the look-up of sessions (docs/protocol/authentication.md). To the caller every failed login looks the same;
 * the reason is in the error's `detail`, for the log.
 */
export class Authentication {
  readonly #ctx: ModelContext;
  readonly #model: Model;
  readonly #attempts = new FailedAttempts();
  #checks = 0;

  constructor(ctx: ModelContext, model: Model) {
    this.#ctx = ctx;
    this.#model = model;
  }

  /** @throws ApiError 401 `INVALID_AUTH`, 400 for missing credentials, 429 when too many logins are under way */
  async login(request: LoginRequest): Promise<Login> {
    const proof = await this.#prove(request);
    const configTypes = await this.#configTypes(request.configTypes ?? []);
    const session = await this.#ctx.store.transaction(async (trx) => {
      const envInfo = textsOf(request.envInfo);
      const sdkInfo = textsOf(request.sdkInfo);
      if (envInfo !== undefined || sdkInfo !== undefined) {
        await this.#model.identities.saveInfo(trx, proof.identity.id, {
          envInfo: envInfo ?? {},
          sdkInfo: sdkInfo ?? {},
        });
      }
      return this.#model.apiSessions.insert(trx, {
        identityId: proof.identity.id,
        authenticatorId: proof.authenticatorId,
        ipAddress: request.remoteIp,
        configTypes,
        certFingerprints: proof.certFingerprints,
        improperClientCertChain: proof.improperClientCertChain,
      });
    });
    return { session, identity: proof.identity, isExtendRequested: proof.isExtendRequested };
  }

  /**
   * The live session of a token; undefined for anything that is none.
   * @throws ApiError 401 when its identity is disabled
   */
  async sessionOf(token: string): Promise<AuthenticatedSession | undefined> {
    if (!UUID.test(token)) return undefined;
    const { db } = this.#ctx.store;
    const { rows } = await sql<{ session: ApiSessionRow; identity: IdentityRow }>`
      SELECT row_to_json(a) AS session, row_to_json(i) AS identity
      FROM api_session a JOIN identity i ON i.id = a.identity_id WHERE a.token = ${token}`.execute(db);
    const row = rows[0];
    if (row === undefined) return undefined;
    const found = { session: withDates(row.session), identity: withDates(row.identity) };
    if (this.#model.apiSessions.isExpired(found.session)) return undefined;
    if (isDisabled(found.identity, this.#ctx.now())) throw unauthorized(`identity ${found.identity.id} is disabled`);
    this.#model.apiSessions.touch(found.session.id);
    return found;
  }

  async #prove(request: LoginRequest): Promise<Proof> {
    switch (request.method) {
      case "password":
        return this.#byPassword(request.username, request.password);
      case "cert":
        return this.#byCertificate(request.peerCertificates);
      case "ext-jwt":
        throw refused("no external JWT signer accepts the token");
    }
  }

  async #byPassword(username: string | undefined, password: string | undefined): Promise<Proof> {
    if (username === undefined) throw fieldError("username", "username is required");
    if (password === undefined) throw fieldError("password", "password is required");
    const row = await this.#ctx.store.db
      .selectFrom("authenticator")
      .select(["id", "identity_id", "password_hash"])
      .where("username", "=", username)
      .executeTakeFirst();
    const isRight = await this.#checked(row?.password_hash ?? undefined, password);
    if (row === undefined) throw refused("unknown user name");
    const { identity, policy } = await this.#identity(row.identity_id);
    if (!isRight) {
      await this.#countFailure(row.id, identity, policy);
      throw refused(`wrong password for identity ${identity.id}`);
    }
    this.#requireEnabled(identity);
    if (!policy.updb_allowed) throw refused(`auth policy ${policy.id} does not allow passwords`);
    this.#attempts.reset(row.id);
    return {
      identity,
      authenticatorId: row.id,
      certFingerprints: [],
      improperClientCertChain: false,
      isExtendRequested: false,
    };
  }

  async #byCertificate(presented: readonly X509Certificate[]): Promise<Proof> {
    const { db } = this.#ctx.store;
    const trust = await trustOf(db, presented, this.#ctx.pki.trustAnchors);
    if (trust === undefined) throw refused("no client certificate of a trusted issuer was presented");
    const print = fingerprint(trust.leaf);
    const row = await db
      .selectFrom("authenticator")
      .select(["id", "identity_id", "is_extend_requested", "last_auth_resolved_to_root"])
      .where("fingerprint", "=", print)
      .executeTakeFirst();
    if (row === undefined) throw refused(`certificate ${print} belongs to no authenticator`);
    const { identity, policy } = await this.#identity(row.identity_id);
    this.#requireEnabled(identity);
    if (!policy.cert_allowed) throw refused(`auth policy ${policy.id} does not allow certificates`);
    const now = this.#ctx.now();
    const isValid = trust.leaf.validFromDate <= now && now <= trust.leaf.validToDate;
    if (!isValid && !policy.cert_allow_expired) throw refused(`certificate ${print} is outside its validity`);
    if (row.last_auth_resolved_to_root !== trust.isProperChain) {
      await db
        .updateTable("authenticator")
        .set({ last_auth_resolved_to_root: trust.isProperChain })
        .where("id", "=", row.id)
        .execute();
    }
    return {
      identity,
      authenticatorId: row.id,
      certFingerprints: [print],
      improperClientCertChain: !trust.isProperChain,
      isExtendRequested: row.is_extend_requested,
    };
  }

  async #identity(id: string): Promise<{ identity: IdentityRow; policy: AuthPolicyRow }> {
    const { rows } = await sql<{ identity: IdentityRow; policy: AuthPolicyRow }>`
      SELECT row_to_json(i) AS identity, row_to_json(p) AS policy
      FROM identity i JOIN auth_policy p ON p.id = i.auth_policy_id WHERE i.id = ${id}`.execute(this.#ctx.store.db);
    const row = rows[0];
    if (row === undefined) throw refused(`identity ${id} is gone`);
    return { identity: withDates(row.identity), policy: row.policy };
  }

  #requireEnabled(identity: IdentityRow): void {
    if (isDisabled(identity, this.#ctx.now())) throw refused(`identity ${identity.id} is disabled`);
  }

  async #countFailure(authenticatorId: string, identity: IdentityRow, policy: AuthPolicyRow): Promise<void> {
    const failures = this.#attempts.add(authenticatorId);
    if (policy.updb_max_attempts === 0 || failures <= policy.updb_max_attempts) return;
    this.#attempts.reset(authenticatorId);
    this.#ctx.log.warn({ identityId: identity.id, failures }, "too many failed logins: identity disabled");
    await this.#model.identities.disable(identity.id, policy.updb_lockout_minutes);
  }

  async #checked(passwordHash: string | undefined, password: string): Promise<boolean> {
    if (this.#checks >= MOST_PASSWORD_CHECKS) {
      throw apiError("SERVER_TOO_MANY_REQUESTS", undefined, { headers: { "retry-after": "1" } });
    }
    this.#checks += 1;
    try {
      return await checkPassword(passwordHash, password);
    } finally {
      this.#checks -= 1;
    }
  }

  /** Config types by name or id, as ids; unknown ones are left out. */
  async #configTypes(namesOrIds: readonly string[]): Promise<string[]> {
    if (namesOrIds.length === 0) return [];
    if (namesOrIds.includes("all")) return ["all"];
    const { rows } = await sql<{ id: string }>`SELECT id FROM config_type
      WHERE id = ANY (${namesOrIds}::text[]) OR name = ANY (${namesOrIds}::text[]) ORDER BY id`.execute(
      this.#ctx.store.db,
    );
    return rows.map((row) => row.id);
  }
}

function refused(detail: string): Error {
  return apiError("INVALID_AUTH", undefined, { detail });
}

/** Rows read as JSON have their times as text. */
function withDates<T extends object>(row: T): T {
  const times = Object.entries(row)
    .filter(([key, value]) => typeof value === "string" && (key.endsWith("_at") || key === "disabled_until"))
    .map(([key, value]): [string, Date] => [key, new Date(value as string)]);
  return Object.assign(row, Object.fromEntries(times));
}

function textsOf(info: Readonly<Record<string, string | undefined>> | undefined): Record<string, string> | undefined {
  if (info === undefined) return undefined;
  const given = Object.entries(info).filter((entry): entry is [string, string] => entry[1] !== undefined);
  return Object.fromEntries(given);
}
