import { hash } from "node:crypto";
import { BoundedMap } from "@sallyport/async";
import { decodeProtectedHeader, errors, type JWTPayload, jwtVerify } from "jose";
import type { VerificationKey } from "../jwt/verification-key.ts";
import {
  type AccessClaims,
  ClaimsError,
  type IdClaims,
  type RefreshClaims,
  readAccessClaims,
  readAccessOrRefreshClaims,
  readIdClaims,
  readRefreshClaims,
  readServiceClaims,
  readTotpClaims,
  type ServiceClaims,
  TOKEN_CLIENTS,
  type TotpClaims,
} from "./claims.ts";
import type { TokenKeys } from "./token-keys.ts";

/** What a token of this network says, or why it says nothing. `detail` is for the log. */
export type Checked<C> = Signed<C> | Refused;

/** Longest text that is looked at. A token has about 1.5 KB. */
export const MAX_TOKEN_LENGTH = 16_384;
/** Access tokens whose signature is known to be good: of 10,000 clients, each with one and a former one. */
export const MAX_KNOWN = 25_000;
/** Headers that name a key: the tokens of a key have one, and controllers of another version may write another one. */
const MAX_HEADERS = 100;
/** Clocks of other controllers may be ahead by so much. */
const NOT_BEFORE_TOLERANCE_MS = 60_000;

/** Bounds the checks of signatures that a caller can cause. Either refuses the caller by throwing. */
export interface CheckLimit {
  /** Before a signature is checked: who has used up its attempts costs no check. */
  before(): Promise<unknown>;
  /** After a signature that is wrong. A token that this network has signed is no guess, whatever is wrong with it now. */
  wrong(): Promise<unknown>;
}

/** What a token says whose signature is good; it may have ended. */
export interface Signed<C> {
  readonly kid: string;
  readonly claims: C;
  readonly expiresAt: Date;
}

interface Refused {
  readonly refused: "invalid" | "expired";
  readonly detail: string;
}

/**
 * Checks the tokens that this network signed. The key decides the algorithm; `iss` is not compared, because a controller has several and the key says enough.
 * What a token says about rights is never believed: the rows of its session decide. An access token is verified once, and then known by its digest.
 */
export class OwnTokens {
  readonly #keys: Pick<TokenKeys, "find" | "onChange">;
  readonly #now: () => Date;
  readonly #known: BoundedMap<string, Signed<AccessClaims>>;
  /** The key that a header names, by the header as it stands in tokens whose signature was good. */
  readonly #headers = new BoundedMap<string, string>(MAX_HEADERS);

  constructor(options: {
    readonly keys: Pick<TokenKeys, "find" | "onChange">;
    readonly now: () => Date;
    readonly maxKnown?: number;
  }) {
    this.#keys = options.keys;
    this.#now = options.now;
    this.#known = new BoundedMap(options.maxKnown ?? MAX_KNOWN);
    this.#keys.onChange(() => {
      for (const [digest, { kid }] of this.#known) if (this.#keys.find(kid) === undefined) this.#known.delete(digest);
    });
  }

  /** Does the text name one of our keys? It proves nothing: a text that does is checked here, any other is another issuer's token. */
  isOwn(text: string): boolean {
    return this.#keyOf(text) !== undefined;
  }

  /** @returns undefined for a text that {@link isOwn} is false for, as all below */
  async access(text: string, limit?: CheckLimit): Promise<Checked<AccessClaims> | undefined> {
    const digest = hash("sha256", text, "base64url");
    const known = this.#known.get(digest);
    const again = known && this.accessAgain(known);
    if (again !== undefined) return again;
    const signed = await this.#signed(text, readAccessClaims, limit);
    // One that has ended is known, too: its client may show it again, and costs no further check.
    if (signed !== undefined && "claims" in signed) this.#known.set(digest, signed);
    return this.#inTime(signed);
  }

  /** {@link access} of a token that it found good before. @returns undefined once its key has ended */
  accessAgain(known: Signed<AccessClaims>): Checked<AccessClaims> | undefined {
    return this.#keys.find(known.kid) === undefined ? undefined : this.#inTime(known);
  }

  refresh(text: string, limit?: CheckLimit): Promise<Checked<RefreshClaims> | undefined> {
    return this.#checked(text, readRefreshClaims, limit);
  }

  /** Either kind of token that a client may revoke. */
  accessOrRefresh(text: string, limit?: CheckLimit): Promise<Checked<AccessClaims | RefreshClaims> | undefined> {
    return this.#checked(text, readAccessOrRefreshClaims, limit);
  }

  service(text: string): Promise<Checked<ServiceClaims> | undefined> {
    return this.#checked(text, readServiceClaims);
  }

  /** `expiresAt` is as far away as a date can be: these tokens have no end. */
  totp(text: string): Promise<Checked<TotpClaims> | undefined> {
    return this.#checked(text, readTotpClaims);
  }

  /** An id token that says who logs out: one that has ended is good enough (OpenID Connect RP-Initiated Logout 1.0, section 4). */
  idHint(text: string, limit?: CheckLimit): Promise<Checked<IdClaims> | undefined> {
    return this.#signed(text, readIdClaims, limit);
  }

  async #checked<C>(text: string, read: (payload: unknown) => C, limit?: CheckLimit): Promise<Checked<C> | undefined> {
    return this.#inTime(await this.#signed(text, read, limit));
  }

  #inTime<C>(signed: Signed<C> | Refused | undefined): Checked<C> | undefined {
    if (signed === undefined || "refused" in signed || signed.expiresAt > this.#now()) return signed;
    return { refused: "expired", detail: "the token has ended" };
  }

  async #signed<C>(
    text: string,
    read: (payload: unknown) => C,
    limit: CheckLimit | undefined,
  ): Promise<Signed<C> | Refused | undefined> {
    const named = this.#keyOf(text);
    if (named === undefined) return undefined;
    await limit?.before();
    try {
      const payload = await this.#payloadOf(text, named);
      this.#headers.set(headerOf(text), named.kid);
      const expiresAt = new Date(payload.exp === undefined ? MAX_DATE_MS : payload.exp * 1_000);
      return { kid: named.kid, claims: read(payload), expiresAt };
    } catch (error) {
      const isOfOtherContent = error instanceof ClaimsError || error instanceof errors.JWTClaimValidationFailed;
      if (!(isOfOtherContent || error instanceof errors.JOSEError || error instanceof TypeError)) throw error;
      if (!isOfOtherContent) await limit?.wrong();
      return { refused: "invalid", detail: error.message };
    }
  }

  /** What a token with a good signature says; the caller judges its end. */
  async #payloadOf(text: string, { key, algorithms }: VerificationKey): Promise<JWTPayload> {
    try {
      const { payload } = await jwtVerify(text, key, {
        algorithms: [...algorithms],
        audience: [...TOKEN_CLIENTS],
        typ: "JWT",
        clockTolerance: NOT_BEFORE_TOLERANCE_MS / 1_000,
        currentDate: this.#now(),
      });
      return payload;
    } catch (error) {
      // All else was right.
      if (error instanceof errors.JWTExpired) return error.payload;
      throw error;
    }
  }

  /** The key that a text names; undefined unless this network signs with it. */
  #keyOf(text: string): (VerificationKey & { readonly kid: string }) | undefined {
    if (text.length > MAX_TOKEN_LENGTH) return undefined;
    try {
      const kid = this.#headers.get(headerOf(text)) ?? decodeProtectedHeader(text).kid;
      if (typeof kid !== "string") return undefined;
      const found = this.#keys.find(kid);
      return found && { kid, ...found };
    } catch (error) {
      if (error instanceof errors.JOSEError || error instanceof TypeError) return undefined;
      throw error;
    }
  }
}

/** The first part of a token, still encoded. */
function headerOf(text: string): string {
  const end = text.indexOf(".");
  return end < 0 ? "" : text.slice(0, end);
}

const MAX_DATE_MS = 8_640_000_000_000_000;
