import { createHash, randomUUID } from "node:crypto";
import type { Permission } from "@sallyport/wire";
import { TOKEN_TYPE, type TokenClient } from "./claims.ts";
import type { TokenKeys, TokenLives } from "./token-keys.ts";

/** All that the claims of a session's tokens are made of. It comes from the rows of the session, never from a token. */
export interface TokenSubject {
  readonly identity: {
    readonly id: string;
    readonly name: string;
    readonly isAdmin: boolean;
    readonly externalId: string | null;
  };
  readonly session: {
    readonly id: string;
    readonly authenticatorId: string;
    readonly clientId: TokenClient;
    readonly scopes: readonly string[];
    readonly amr: readonly string[];
    readonly authTime: Date;
    readonly configTypes: readonly string[];
    readonly certFingerprints: readonly string[];
    readonly loginFingerprint: string | null;
    readonly allowExpired: boolean;
    readonly isExtendable: boolean;
    readonly isExtendRequested: boolean;
    readonly isKeyRollRequested: boolean;
    readonly improperClientCertChain: boolean;
    readonly shown: {
      readonly sdkInfo: object | null;
      readonly envInfo: object | null;
      readonly remoteAddress: string;
    };
  };
  readonly issuer: string;
  readonly at: Date;
  /** The second up to which the identity's tokens are revoked (`issued_before`): verifiers refuse what was issued in it, too. */
  readonly notBeforeSecond?: number;
}

/** A signed token, and what its issuer keeps of it. */
export interface Issued {
  readonly token: string;
  readonly jti: string;
  readonly expiresAt: Date;
}

/** The stored session that a service token names. */
interface ServiceTokenSubject {
  readonly id: string;
  readonly apiSessionId: string;
  readonly identityId: string;
  readonly serviceId: string;
  readonly type: Permission;
}

/** Beyond the life of every API session, which is the limit. */
const SERVICE_TOKEN_MS = 365 * 86_400_000;

/** Signs the network's tokens with the present key. Source: docs/protocol/authentication.md, "Own tokens". */
export class TokenIssuer {
  readonly #keys: Pick<TokenKeys, "signer">;
  readonly #lives: TokenLives;
  /** `iss` of tokens that belong to no provider. */
  readonly #issuer: string;
  readonly #now: () => Date;

  constructor(options: {
    readonly keys: Pick<TokenKeys, "signer">;
    readonly lives: TokenLives;
    /** `host:port` of the API as it is advertised. */
    readonly apiAddress: string;
    readonly now: () => Date;
  }) {
    this.#keys = options.keys;
    this.#lives = options.lives;
    this.#issuer = `https://${options.apiAddress}`;
    this.#now = options.now;
  }

  /** @param until when it ends at the latest */
  access(subject: TokenSubject, until?: Date): Issued {
    const left = until === undefined ? Number.POSITIVE_INFINITY : until.getTime() - subject.at.getTime();
    return this.#sessionToken(subject, TOKEN_TYPE.access, Math.min(this.#lives.accessMs, left));
  }

  refresh(subject: TokenSubject): Issued {
    return this.#sessionToken(subject, TOKEN_TYPE.refresh, this.#lives.refreshMs);
  }

  /** For the client itself. The hashes tie it to what is issued beside it (OpenID Connect Core 3.1.3.6, 3.3.2.11). */
  id(subject: TokenSubject, beside: { nonce?: string; accessToken?: string; code?: string }): Issued {
    const { identity, session, issuer, at } = subject;
    const expiresAt = new Date(at.getTime() + this.#lives.idMs);
    const signer = this.#keys.signer();
    const hash = (text: string | undefined) => text && leftHalf(text, signer.algorithm);
    const jti = randomUUID();
    const isProfile = session.scopes.includes("openid");
    const token = signer.sign({
      iss: issuer,
      sub: identity.id,
      aud: [session.clientId],
      azp: session.clientId,
      client_id: session.clientId,
      exp: toSeconds(expiresAt),
      iat: issuedAt(subject),
      auth_time: toSeconds(session.authTime),
      amr: session.amr,
      jti,
      nonce: beside.nonce,
      at_hash: hash(beside.accessToken),
      c_hash: hash(beside.code),
      name: isProfile ? identity.name : undefined,
      z_ia: isProfile && identity.isAdmin ? true : undefined,
      z_eid: (isProfile && identity.externalId) || undefined,
      z_asid: session.id,
    });
    return { token, jti, expiresAt };
  }

  /**
   * The right to dial or host a service, as routers see it. It names the stored session, which decides. `isLegacy`: the API session is one of
   * `authenticate`, whose own token is opaque.
   */
  service(session: ServiceTokenSubject, { isLegacy, at = this.#now() }: { isLegacy: boolean; at?: Date }): Issued {
    const expiresAt = new Date(at.getTime() + SERVICE_TOKEN_MS);
    const token = this.#keys.signer().sign({
      iss: this.#issuer,
      sub: session.serviceId,
      aud: ["openziti"],
      jti: session.id,
      iat: toSeconds(at),
      exp: toSeconds(expiresAt),
      z_asid: session.apiSessionId,
      z_iid: session.identityId,
      z_t: TOKEN_TYPE.service,
      z_st: session.type,
      z_leg: isLegacy,
    });
    return { token, jti: session.id, expiresAt };
  }

  /** Says that a one-time code was accepted at that time. It has no end: what it proves ages by posture checks. */
  totp({ identity, session }: Pick<TokenSubject, "identity" | "session">, at: Date): { token: string; jti: string } {
    const jti = randomUUID();
    const token = this.#keys.signer().sign({
      iss: this.#issuer,
      sub: identity.id,
      aud: [session.clientId],
      iat: toSeconds(at),
      jti,
      z_asid: session.id,
      z_t: TOKEN_TYPE.totp,
    });
    return { token, jti };
  }

  #sessionToken(subject: TokenSubject, type: "a" | "r", lifeMs: number): Issued {
    const { identity, session, issuer, at } = subject;
    const expiresAt = new Date(at.getTime() + lifeMs);
    const jti = randomUUID();
    const token = this.#keys.signer().sign({
      iss: issuer,
      sub: identity.id,
      aud: [session.clientId],
      exp: toSeconds(expiresAt),
      iat: issuedAt(subject),
      nbf: toSeconds(at),
      auth_time: toSeconds(session.authTime),
      jti,
      client_id: session.clientId,
      scopes: session.scopes,
      amr: session.amr,
      z_t: type,
      z_asid: session.id,
      z_aid: session.clientId,
      z_authid: session.authenticatorId,
      z_ia: identity.isAdmin || undefined,
      z_eid: identity.externalId ?? undefined,
      z_ct: session.configTypes.length > 0 ? session.configTypes : undefined,
      z_cfs: session.certFingerprints.length > 0 ? session.certFingerprints : null,
      z_acf: session.loginFingerprint ?? undefined,
      z_cae: session.allowExpired || undefined,
      z_sdk: session.shown.sdkInfo,
      z_env: session.shown.envInfo,
      z_ra: session.shown.remoteAddress,
      z_ice: session.isExtendable,
      z_cer: session.isExtendRequested,
      z_ckrr: session.isKeyRollRequested,
      z_iccc: session.improperClientCertChain,
    });
    return { token, jti, expiresAt };
  }
}

function toSeconds(at: Date): number {
  return Math.floor(at.getTime() / 1_000);
}

/** Behind every second of which the identity's tokens are revoked: some verifiers refuse the last one, too. */
function issuedAt({ at, notBeforeSecond }: TokenSubject): number {
  const second = toSeconds(at);
  return notBeforeSecond === undefined ? second : Math.max(second, notBeforeSecond + 1);
}

/** The left half of the hash that the token's algorithm uses, of an ASCII text. */
function leftHalf(text: string, algorithm: string): string {
  const digest = createHash(`sha${algorithm.slice(2)}`)
    .update(text, "ascii")
    .digest();
  return digest.subarray(0, digest.length / 2).toString("base64url");
}
