import { createPublicKey, type KeyObject, type webcrypto, X509Certificate } from "node:crypto";
import { isUsableKey } from "@sallyport/wire";

/** A public key, and the signature algorithms that it may be used with. */
export interface VerificationKey {
  readonly key: KeyObject;
  readonly algorithms: readonly string[];
}

/** The published minimum for RSA. */
const MIN_RSA_BITS = 2_048;
const CURVES: Readonly<Record<string, string>> = { prime256v1: "ES256", secp384r1: "ES384", secp521r1: "ES512" };

/**
 * A key with the algorithms of its kind, and none for an unknown kind. The key decides which algorithm checks a token: a token cannot choose `none`, or use
 * the public key as a shared secret.
 */
export function verificationKey(key: KeyObject, only?: string): VerificationKey {
  const algorithms = algorithmsOf(key);
  return { key, algorithms: only === undefined ? algorithms : algorithms.filter((name) => name === only) };
}

function algorithmsOf(key: KeyObject): string[] {
  const { modulusLength = 0, namedCurve = "" } = key.asymmetricKeyDetails ?? {};
  // Any client can have a token checked: with some keys one check takes as long as a hundred.
  if (!isUsableKey(key)) return [];
  switch (key.asymmetricKeyType) {
    case "rsa":
      return modulusLength < MIN_RSA_BITS ? [] : ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"];
    case "ec":
      return [CURVES[namedCurve] ?? []].flat();
    case "ed25519":
      return ["EdDSA", "Ed25519"];
    default:
      return [];
  }
}

const MAX_KEYS = 200;

/** The usable keys of a key set by their id; without entries that lack an id, are of an unknown kind, or for another use. */
export function keysOf(document: unknown): ReadonlyMap<string, VerificationKey> | undefined {
  const listed = isRecord(document) ? document.keys : undefined;
  if (!Array.isArray(listed)) return undefined;
  const keys = new Map<string, VerificationKey>();
  for (const entry of listed.slice(0, MAX_KEYS)) {
    if (!isRecord(entry) || typeof entry.kid !== "string" || (entry.use !== undefined && entry.use !== "sig")) continue;
    const key = publicKeyOf(entry);
    if (key === undefined) continue;
    const usable = verificationKey(key, typeof entry.alg === "string" ? entry.alg : undefined);
    if (usable.algorithms.length > 0) keys.set(entry.kid, usable);
  }
  return keys;
}

/** From the key's parameters, or else from the first certificate of `x5c`. */
function publicKeyOf(jwk: Readonly<Record<string, unknown>>): KeyObject | undefined {
  try {
    if (jwk.kty === "RSA" || jwk.kty === "EC" || jwk.kty === "OKP") {
      if (jwk.n !== undefined || jwk.x !== undefined) {
        return createPublicKey({ key: publicParts(jwk), format: "jwk" });
      }
      const [der] = Array.isArray(jwk.x5c) ? (jwk.x5c as unknown[]) : [];
      if (typeof der === "string") return new X509Certificate(Buffer.from(der, "base64")).publicKey;
    }
    return undefined;
  } catch {
    return undefined;
  }
}

function publicParts({ kty, n, e, crv, x, y }: Readonly<Record<string, unknown>>): webcrypto.JsonWebKey {
  const parts = Object.entries({ kty, n, e, crv, x, y }).filter(([, value]) => value !== undefined);
  return Object.fromEntries(parts) as webcrypto.JsonWebKey;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
