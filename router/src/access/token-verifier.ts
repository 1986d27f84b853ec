import { createPublicKey, type KeyObject, X509Certificate } from "node:crypto";
import { BoundedMap, errorText } from "@sallyport/async";
import { edgeCtrlPb, type Logger, type Permission } from "@sallyport/wire";
import { decodeProtectedHeader, errors, type JWTPayload, jwtVerify } from "jose";
import { CLOCK_LEEWAY_MS } from "../control/data-model/network-model.ts";
import { type AccessClaims, type ServiceClaims, TokenRefusedError } from "./ports.ts";

/**
 * Verifies access, service and TOTP tokens with the keys of the data model. The key decides about the algorithm, never the token.
 * Source: docs/protocol/data-model.md, "Sallyport's router"; RFC 7519, RFC 8725.
 */

/** Longest token that is looked at. */
export const MAX_TOKEN_LENGTH = 16 * 1024;
/** Verified texts that are remembered. */
const MAX_VERIFIED = 10_000;

const AUDIENCES = ["openziti", "native"];
const ACCESS = "a";
const SERVICE = "s";
const TOTP = "t";

type KeyLookup = (kid: string) => edgeCtrlPb.DataState_PublicKey | undefined;

interface VerificationKey {
  readonly key: KeyObject;
  readonly algorithms: string[];
}

export class TokenVerifier {
  readonly #keyOf: KeyLookup;
  readonly #log: Logger;
  readonly #now: () => number;
  readonly #verified = new BoundedMap<string, JWTPayload>(MAX_VERIFIED);
  readonly #keys = new WeakMap<edgeCtrlPb.DataState_PublicKey, VerificationKey | "unusable">();

  constructor(o: { readonly keyOf: KeyLookup; readonly now: () => number; readonly log: Logger }) {
    this.#keyOf = o.keyOf;
    this.#now = o.now;
    this.#log = o.log;
  }

  /** Keys came or went: what was verified has to be verified again. */
  keysChanged(): void {
    this.#verified.clear();
  }

  /** @throws TokenRefusedError */
  async access(token: string): Promise<AccessClaims> {
    const claims = await this.#verify(token, ACCESS);
    const amr = listOf(claims, "amr");
    const totpAt = amr.includes("totp") && typeof claims.auth_time === "number" ? claims.auth_time * 1000 : undefined;
    return {
      token,
      tokenId: textOf(claims, "jti"),
      identityId: textOf(claims, "sub"),
      apiSessionId: textOf(claims, "z_asid"),
      issuedAt: secondsOf(claims, "iat") * 1000,
      endsAt: secondsOf(claims, "exp") * 1000 + CLOCK_LEEWAY_MS,
      fingerprints: listOf(claims, "z_cfs"),
      allowsExpiredCertificates: claims.z_cae === true,
      ...(totpAt === undefined ? {} : { totpAt }),
    };
  }

  /** @throws TokenRefusedError */
  async service(token: string): Promise<ServiceClaims> {
    const claims = await this.#verify(token, SERVICE);
    secondsOf(claims, "exp");
    return {
      sessionId: textOf(claims, "jti"),
      serviceId: textOf(claims, "sub"),
      apiSessionId: textOf(claims, "z_asid"),
      identityId: textOf(claims, "z_iid"),
      type: permissionOf(claims),
      isLegacy: claims.z_leg === true,
    };
  }

  /** When TOTP was passed, in milliseconds since 1970. @throws TokenRefusedError */
  async totp(token: string, of: AccessClaims): Promise<number> {
    const claims = await this.#verify(token, TOTP);
    if (textOf(claims, "sub") !== of.identityId || textOf(claims, "z_asid") !== of.apiSessionId) {
      throw new TokenRefusedError("OTHER_SESSION", "the TOTP token is of another API session");
    }
    return Math.min(this.#now(), secondsOf(claims, "iat") * 1000);
  }

  async #verify(token: string, type: string): Promise<JWTPayload> {
    const claims = this.#verified.touch(token) ?? (await this.#verifySignature(token));
    this.#checkTimes(claims);
    if (claims.z_t !== type) throw new TokenRefusedError("TYPE", `expected a token of type "${type}" (z_t)`);
    const audiences = typeof claims.aud === "string" ? [claims.aud] : listOf(claims, "aud");
    if (!audiences.some((each) => AUDIENCES.includes(each))) {
      throw new TokenRefusedError("AUDIENCE", `expected one of the audiences ${AUDIENCES.join(", ")}`);
    }
    return claims;
  }

  async #verifySignature(token: string): Promise<JWTPayload> {
    if (token.length > MAX_TOKEN_LENGTH) {
      throw new TokenRefusedError("MALFORMED", `a token has at most ${MAX_TOKEN_LENGTH} characters`);
    }
    const { key, algorithms } = this.#keyFor(token);
    try {
      // The times are checked at each use, with the router's own leeway.
      const far = { clockTolerance: Number.MAX_SAFE_INTEGER, currentDate: new Date(this.#now()) };
      const { payload } = await jwtVerify(token, key, { algorithms, ...far });
      this.#verified.set(token, payload);
      return payload;
    } catch (error) {
      const isSignature =
        error instanceof errors.JWSSignatureVerificationFailed || error instanceof errors.JOSEAlgNotAllowed;
      throw new TokenRefusedError(isSignature ? "SIGNATURE" : "MALFORMED", errorText(error), { cause: error });
    }
  }

  #keyFor(token: string): VerificationKey {
    let kid: string | undefined;
    try {
      ({ kid } = decodeProtectedHeader(token));
    } catch (error) {
      throw new TokenRefusedError("MALFORMED", "the token is no JWT", { cause: error });
    }
    if (typeof kid !== "string") throw new TokenRefusedError("MALFORMED", "the token names no key (kid)");
    const published = this.#keyOf(kid);
    if (published === undefined || !published.usages.includes(edgeCtrlPb.DataState_PublicKey_Usage.JwtValidation)) {
      throw new TokenRefusedError("UNKNOWN_KEY", "the data model has no such key for tokens");
    }
    const key = this.#keys.getOrInsertComputed(published, () => this.#read(published));
    if (key === "unusable") throw new TokenRefusedError("UNKNOWN_KEY", "the key in the data model is unusable");
    return key;
  }

  #read({ kid, data, format }: edgeCtrlPb.DataState_PublicKey): VerificationKey | "unusable" {
    try {
      const isCertificate = format === edgeCtrlPb.DataState_PublicKey_Format.X509CertDer;
      const der = Buffer.from(data);
      const key = isCertificate
        ? new X509Certificate(der).publicKey
        : createPublicKey({ key: der, format: "der", type: "spki" });
      const algorithms = algorithmsOf(key);
      if (algorithms.length > 0) return { key, algorithms };
      this.#log.warn({ kid, type: key.asymmetricKeyType }, "a key of the data model is of a kind that signs no tokens");
    } catch (error) {
      this.#log.warn({ kid, reason: errorText(error) }, "a key of the data model is unreadable");
    }
    return "unusable";
  }

  #checkTimes(claims: JWTPayload): void {
    const now = this.#now();
    const at = (name: "exp" | "nbf" | "iat") =>
      claims[name] === undefined ? undefined : secondsOf(claims, name) * 1000;
    const [expires, notBefore, issued] = [at("exp"), at("nbf"), at("iat")];
    if (expires !== undefined && expires + CLOCK_LEEWAY_MS <= now) {
      throw new TokenRefusedError(
        "EXPIRED",
        `the token ended at ${new Date(expires).toISOString()}, and the clock of this router shows ${new Date(now).toISOString()}`,
      );
    }
    const begins = Math.max(notBefore ?? 0, issued ?? 0);
    if (begins - CLOCK_LEEWAY_MS > now) {
      throw new TokenRefusedError(
        "EXPIRED",
        `the token begins at ${new Date(begins).toISOString()}, and the clock of this router shows ${new Date(now).toISOString()}: correct the clock that is wrong`,
      );
    }
  }
}

const CURVES: Readonly<Record<string, string>> = { prime256v1: "ES256", secp384r1: "ES384", secp521r1: "ES512" };

function algorithmsOf({ asymmetricKeyType, asymmetricKeyDetails }: KeyObject): string[] {
  if (asymmetricKeyType === "rsa") return ["RS256", "RS384", "RS512"];
  const algorithm = CURVES[asymmetricKeyDetails?.namedCurve ?? ""];
  return algorithm === undefined ? [] : [algorithm];
}

function textOf(claims: JWTPayload, name: string): string {
  const value = claims[name];
  if (typeof value === "string" && value !== "") return value;
  throw new TokenRefusedError("MALFORMED", `expected a text in the claim ${name}`);
}

function secondsOf(claims: JWTPayload, name: string): number {
  const value = claims[name];
  if (typeof value === "number" && value >= 0 && value <= MAX_SECONDS) return value;
  throw new TokenRefusedError("MALFORMED", `expected seconds since 1970 in the claim ${name}`);
}

/** The last moment that a date holds. */
const MAX_SECONDS = 8_640_000_000_000;

/** Absent and null are an empty list. */
function listOf(claims: JWTPayload, name: string): string[] {
  const value = claims[name] ?? [];
  if (Array.isArray(value) && value.every((each) => typeof each === "string")) return value;
  throw new TokenRefusedError("MALFORMED", `expected a list of texts in the claim ${name}`);
}

function permissionOf(claims: JWTPayload): Permission {
  const type = claims.z_st;
  if (type === "Dial" || type === "Bind") return type;
  throw new TokenRefusedError("MALFORMED", "expected Dial or Bind in the claim z_st");
}
