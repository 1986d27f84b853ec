import { createPrivateKey, createPublicKey, type KeyObject, sign, verify, X509Certificate } from "node:crypto";
import { fingerprint } from "@sallyport/wire";
import { JwtError, PkiError } from "./errors.ts";
import { type KeyedCertificate, leafOf } from "./issue.ts";

interface Algorithm {
  readonly name: "ES256" | "ES384" | "ES512" | "RS256";
  readonly hash: string;
}

const BY_CURVE: Readonly<Record<string, Algorithm>> = {
  prime256v1: { name: "ES256", hash: "sha256" },
  secp384r1: { name: "ES384", hash: "sha384" },
  secp521r1: { name: "ES512", hash: "sha512" },
};

/** Signs and checks compact JWTs with one certificate's key; the algorithm follows from the key, `kid` is the certificate's fingerprint. */
export class JwtSigner {
  readonly #privateKey: KeyObject;
  readonly #publicKey: KeyObject;
  readonly #algorithm: Algorithm;
  readonly #header: string;
  readonly kid: string;

  constructor(keyed: KeyedCertificate) {
    this.#privateKey = createPrivateKey(keyed.keyPem);
    this.#publicKey = createPublicKey(this.#privateKey);
    this.#algorithm = algorithmOf(this.#privateKey);
    this.kid = fingerprint(new X509Certificate(leafOf(keyed.certPem)));
    this.#header = encode({ alg: this.#algorithm.name, typ: "JWT", kid: this.kid });
  }

  sign(claims: Readonly<Record<string, unknown>>): string {
    const signed = `${this.#header}.${encode(claims)}`;
    const signature = sign(this.#algorithm.hash, Buffer.from(signed), {
      key: this.#privateKey,
      dsaEncoding: "ieee-p1363",
    });
    return `${signed}.${signature.toString("base64url")}`;
  }

  /**
   * The claims of a token that this key signed and whose `exp`, if any, has not passed. Whatever certificate the key had then: a renewal keeps it.
   * @throws JwtError
   */
  verify(token: string, now: Date = new Date()): Record<string, unknown> {
    const [header = "", payload = "", signature = "", ...more] = token.split(".");
    if (more.length > 0 || signature === "")
      throw new JwtError("expected a compact JWT: three parts with dots between them");
    const { alg } = decode(header);
    if (alg !== this.#algorithm.name)
      throw new JwtError(`expected a token signed with ${this.#algorithm.name}, found ${String(alg)}`);
    const genuine = verify(
      this.#algorithm.hash,
      Buffer.from(`${header}.${payload}`),
      { key: this.#publicKey, dsaEncoding: "ieee-p1363" },
      Buffer.from(signature, "base64url"),
    );
    if (!genuine)
      throw new JwtError("the token's signature is not ours: it was changed, or belongs to another network");
    const claims = decode(payload);
    if (typeof claims.exp === "number" && claims.exp * 1000 <= now.getTime()) {
      throw new JwtError(`the token ended at ${new Date(claims.exp * 1000).toISOString()}: ask for a new one`);
    }
    return claims;
  }
}

function algorithmOf(key: KeyObject): Algorithm {
  if (key.asymmetricKeyType === "rsa") return { name: "RS256", hash: "sha256" };
  const algorithm = BY_CURVE[key.asymmetricKeyDetails?.namedCurve ?? ""];
  if (!algorithm)
    throw new PkiError(
      `expected an RSA key or an EC key on P-256, P-384 or P-521 for signing tokens, found ${key.asymmetricKeyType}`,
    );
  return algorithm;
}

function encode(value: unknown): string {
  return Buffer.from(JSON.stringify(value)).toString("base64url");
}

function decode(part: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(Buffer.from(part, "base64url").toString("utf8"));
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  } catch {
    // Reported below, as any other text that is not a JSON object.
  }
  throw new JwtError("expected a JWT whose parts are JSON objects in base64url");
}
