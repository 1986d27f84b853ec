import { createPublicKey, generateKeyPair, type KeyObject, webcrypto } from "node:crypto";
import { promisify } from "node:util";
import { CertificateError, readPrivateKey } from "./certificates.ts";
import { x509 } from "./x509.ts";

export type KeyCurve = "P-256" | "P-384";

/** Keys of {@link createKeyPair}: an elliptic curve, or RSA with the size of its modulus in bits. */
export type KeyKind = KeyCurve | "RSA-2048" | "RSA-4096";

/** A private key as PEM text, `EC PRIVATE KEY` or `RSA PRIVATE KEY`: the forms that every implementation in the field reads. */
export interface PrivateKeyPem {
  readonly keyPem: string;
}

export interface CertificateRequest {
  /** Subject common name: the id of the identity or router. */
  readonly commonName: string;
  /** Further subject fields by their short names, e.g. `{ O: "Sallyport", C: "US" }`. */
  readonly subject?: Readonly<Record<string, string>>;
  readonly sans?: {
    readonly dns?: readonly string[];
    readonly ip?: readonly string[];
    readonly uri?: readonly string[];
    readonly email?: readonly string[];
  };
  /** EC or RSA private key, PEM (SEC1, PKCS#1 or PKCS#8). */
  readonly keyPem: string;
}

const generate = promisify(generateKeyPair);

export async function createKeyPair(kind: KeyKind = "P-256"): Promise<PrivateKeyPem> {
  if (kind === "RSA-2048" || kind === "RSA-4096") {
    const { privateKey } = await generate("rsa", { modulusLength: kind === "RSA-2048" ? 2048 : 4096 });
    return { keyPem: String(privateKey.export({ type: "pkcs1", format: "pem" })) };
  }
  const { privateKey } = await generate("ec", { namedCurve: kind });
  return { keyPem: String(privateKey.export({ type: "sec1", format: "pem" })) };
}

/**
 * A PKCS#10 request, signed with the key, as PEM.
 *
 * @throws CertificateError `KEY_UNREADABLE` when the key is neither EC nor RSA
 */
export async function createCsr(request: CertificateRequest): Promise<string> {
  const keys = await signingKeys(request.keyPem);
  const name = [...Object.entries(request.subject ?? {}), ["CN", request.commonName] as const].map(
    ([field, value]) => ({
      [field]: [value],
    }),
  );
  const sans = alternativeNames(request);
  const csr = await x509.Pkcs10CertificateRequestGenerator.create({
    name,
    keys: keys.pair,
    signingAlgorithm: keys.algorithm,
    extensions: sans.length > 0 ? [new x509.SubjectAlternativeNameExtension(sans)] : [],
  });
  return `${csr.toString("pem")}\n`;
}

function alternativeNames(request: CertificateRequest): x509.JsonGeneralNames {
  const { dns = [], ip = [], uri = [], email = [] } = request.sans ?? {};
  return [
    ...dns.map((value) => ({ type: "dns" as const, value })),
    ...ip.map((value) => ({ type: "ip" as const, value })),
    ...uri.map((value) => ({ type: "url" as const, value })),
    ...email.map((value) => ({ type: "email" as const, value })),
  ];
}

/** A private key as WebCrypto wants it, with the signature algorithm that fits it. */
export interface SigningKeys {
  readonly pair: webcrypto.CryptoKeyPair;
  readonly algorithm: webcrypto.Algorithm | webcrypto.EcdsaParams;
}

const curves: Readonly<Record<string, readonly [curve: string, hash: string]>> = {
  prime256v1: ["P-256", "SHA-256"],
  secp384r1: ["P-384", "SHA-384"],
  secp521r1: ["P-521", "SHA-512"],
};

/**
 * Prepares an EC or RSA private key (PEM) for signing certificates and requests.
 *
 * @throws CertificateError `KEY_UNREADABLE`
 */
export async function signingKeys(keyPem: string): Promise<SigningKeys> {
  const key = readPrivateKey(keyPem);
  const { algorithm, imported } = algorithmsOf(key);
  const pkcs8 = key.export({ type: "pkcs8", format: "der" });
  const spki = createPublicKey(key).export({ type: "spki", format: "der" });
  const [privateKey, publicKey] = await Promise.all([
    webcrypto.subtle.importKey("pkcs8", pkcs8, imported, true, ["sign"]),
    webcrypto.subtle.importKey("spki", spki, imported, true, ["verify"]),
  ]);
  return { pair: { privateKey, publicKey }, algorithm };
}

function algorithmsOf(key: KeyObject): {
  algorithm: webcrypto.Algorithm | webcrypto.EcdsaParams;
  imported: webcrypto.EcKeyImportParams | webcrypto.RsaHashedImportParams;
} {
  if (key.asymmetricKeyType === "rsa") {
    const rsa = { name: "RSASSA-PKCS1-v1_5", hash: "SHA-256" };
    return { algorithm: rsa, imported: rsa };
  }
  const named = curves[key.asymmetricKeyDetails?.namedCurve ?? ""];
  if (key.asymmetricKeyType !== "ec" || named === undefined) {
    throw new CertificateError(
      "KEY_UNREADABLE",
      `expected an RSA key or an EC key on P-256, P-384 or P-521, got ${key.asymmetricKeyType ?? "an unknown kind"}`,
    );
  }
  const [namedCurve, hash] = named;
  return { algorithm: { name: "ECDSA", hash }, imported: { name: "ECDSA", namedCurve } };
}
