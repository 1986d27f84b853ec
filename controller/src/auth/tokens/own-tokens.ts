import { createHash } from "node:crypto";
import { BoundedMap } from "@sallyport/async";
import { decodeProtectedHeader, errors, jwtVerify } from "jose";
import type { VerificationKey } from "../jwt/verification-key.ts";
import {
  type AccessClaims,
  ClaimsError,
  type IdClaims,
  type RefreshClaims,
  readAccessClaims,
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
export type Checked<C> =
  | { readonly claims: C; readonly expiresAt: Date }
  | { readonly refused: "invalid" | "expired"; readonly detail: string };

/** Longest text that is looked at. A token has about 1.5 KB. */
const MAX_TOKEN_LENGTH = 16_384;
/** Tokens whose signature is known to be good: of 10,000 clients, each with an access token and a former one. */
const MAX_KNOWN = 25_000;
/** Clocks of other controllers may be ahead by so much. */
const NOT_BEFORE_TOLERANCE_MS = 60_000;

interface Known {
  readonly kid: string;
  readonly claims: AccessClaims;
}

/**
 * Checks the tokens that this network signed. The key decides the algorithm; `iss` is not compared, because a controller has several and the key says enough.
 * What a token says about rights is never believed: the rows of its session decide. An access token is verified once, and then known by its digest.
 */
export class OwnTokens {
  readonly #keys: Pick<TokenKeys, "find" | "onChange">;
  readonly #now: () => Date;
  readonly #known = new BoundedMap<string, Known>(MAX_KNOWN);

  constructor(options: { readonly keys: Pick<TokenKeys, "find" | "onChange">; readonly now: () => Date }) {
    this.#keys = options.keys;
    this.#now = options.now;
    this.#keys.onChange(() => {
      for (const [digest, { kid }] of this.#known) if (this.#keys.find(kid) === undefined) this.#known.delete(digest);
    });
  }

  /** Does the text name one of our keys? It proves nothing: a text that does is checked here, any other is another issuer's token. */
  isOwn(text: string): boolean {
    return this.#keyOf(text) !== undefined;
  }

  /** @returns undefined for a text that {@link isOwn} is false for, as all below */
  async access(text: string): Promise<Checked<AccessClaims> | undefined> {
    const digest = createHash("sha256").update(text).digest("base64url");
    const known = this.#known.get(digest);
    if (known !== undefined && this.#keys.find(known.kid) !== undefined) {
      const expiresAt = new Date(known.claims.exp * 1_000);
      if (expiresAt > this.#now()) return { claims: known.claims, expiresAt };
      this.#known.delete(digest);
    }
    const checked = await this.#check(text, readAccessClaims);
    if (checked !== undefined && "claims" in checked) {
      this.#known.set(digest, { kid: checked.kid, claims: checked.claims });
    }
    return checked;
  }

  refresh(text: string): Promise<Checked<RefreshClaims> | undefined> {
    return this.#check(text, readRefreshClaims);
  }

  service(text: string): Promise<Checked<ServiceClaims> | undefined> {
    return this.#check(text, readServiceClaims);
  }

  /** `expiresAt` is as far away as a date can be: these tokens have no end. */
  totp(text: string): Promise<Checked<TotpClaims> | undefined> {
    return this.#check(text, readTotpClaims);
  }

  /** An id token that says who logs out: one that has ended is good enough (OpenID Connect RP-Initiated Logout 1.0, section 4). */
  idHint(text: string): Promise<Checked<IdClaims> | undefined> {
    return this.#check(text, readIdClaims, { isEndIgnored: true });
  }

  async #check<C>(
    text: string,
    read: (payload: unknown) => C,
    { isEndIgnored = false } = {},
  ): Promise<(Checked<C> & { readonly kid: string }) | undefined> {
    const named = this.#keyOf(text);
    if (named === undefined) return undefined;
    const { kid, key, algorithms } = named;
    const now = this.#now();
    try {
      const { payload } = await jwtVerify(text, key, {
        algorithms: [...algorithms],
        audience: [...TOKEN_CLIENTS],
        typ: "JWT",
        // The end is compared below without tolerance.
        clockTolerance: NOT_BEFORE_TOLERANCE_MS / 1_000,
        currentDate: isEndIgnored ? new Date(0) : now,
      });
      const claims = read(payload);
      const expiresAt = new Date(payload.exp === undefined ? MAX_DATE_MS : payload.exp * 1_000);
      if (!isEndIgnored && expiresAt <= now) return { refused: "expired", detail: "the token has ended", kid };
      return { claims, expiresAt, kid };
    } catch (error) {
      if (error instanceof errors.JWTExpired) return { refused: "expired", detail: "the token has ended", kid };
      if (!(error instanceof errors.JOSEError || error instanceof ClaimsError || error instanceof TypeError))
        throw error;
      return { refused: "invalid", detail: error.message, kid };
    }
  }

  /** The key that a text names; undefined unless this network signs with it. */
  #keyOf(text: string): (VerificationKey & { readonly kid: string }) | undefined {
    if (text.length > MAX_TOKEN_LENGTH) return undefined;
    try {
      const { kid } = decodeProtectedHeader(text);
      if (typeof kid !== "string") return undefined;
      const found = this.#keys.find(kid);
      return found && { kid, ...found };
    } catch (error) {
      if (error instanceof errors.JOSEError || error instanceof TypeError) return undefined;
      throw error;
    }
  }
}

const MAX_DATE_MS = 8_640_000_000_000_000;
