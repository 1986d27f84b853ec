import { createPrivateKey, type KeyObject, sign, X509Certificate } from "node:crypto";
import { fingerprint } from "@sallyport/wire";
import { type KeyedCertificate, leafOf, PkiError } from "./issue.ts";

/** The algorithms that our own keys sign with. */
export type SigningAlgorithm = "ES256" | "ES384" | "ES512" | "RS256";

interface Algorithm {
  readonly name: SigningAlgorithm;
  readonly hash: string;
}

const BY_CURVE: Readonly<Record<string, Algorithm>> = {
  prime256v1: { name: "ES256", hash: "sha256" },
  secp384r1: { name: "ES384", hash: "sha384" },
  secp521r1: { name: "ES512", hash: "sha512" },
};

/** Signs compact JWTs with one certificate's key; the algorithm follows from the key, `kid` is the certificate's fingerprint. */
export class JwtSigner {
  readonly #privateKey: KeyObject;
  readonly #algorithm: Algorithm;
  readonly #header: string;
  /** Fingerprint of the certificate. */
  readonly kid: string;

  constructor(keyed: KeyedCertificate) {
    this.#privateKey = createPrivateKey(keyed.keyPem);
    this.#algorithm = algorithmOf(this.#privateKey);
    this.kid = fingerprint(new X509Certificate(leafOf(keyed.certPem)));
    this.#header = encode({ alg: this.#algorithm.name, typ: "JWT", kid: this.kid });
  }

  get algorithm(): SigningAlgorithm {
    return this.#algorithm.name;
  }

  sign(claims: Readonly<Record<string, unknown>>): string {
    const signed = `${this.#header}.${encode(claims)}`;
    const signature = sign(this.#algorithm.hash, Buffer.from(signed), {
      key: this.#privateKey,
      dsaEncoding: "ieee-p1363",
    });
    return `${signed}.${signature.toString("base64url")}`;
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
