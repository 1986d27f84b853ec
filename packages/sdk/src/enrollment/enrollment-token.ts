import { verify, type X509Certificate } from "node:crypto";
import type { Connect } from "@sallyport/api/client/connect";
import { EnrollmentError } from "../errors.ts";
import { servedLeaf } from "./pinned-request.ts";

/** What an enrollment token says, once its signature was checked (docs/protocol/enrollment.md, "Token"). */
export interface EnrollmentToken {
  /** `ott`, `ottca`, `ca`, `updb`, `erott` or `trott`. */
  readonly method: string;
  /** Base of the controller's API; a path in it stays in front of every request. */
  readonly issuer: URL;
  /** Id of the identity or router. */
  readonly subject: string;
  /** The one-time token for the enrollment request. */
  readonly token: string;
  readonly expiresAt: Date;
  /** Control addresses `tls:host:port` for routers; may be empty. */
  readonly controllers: readonly string[];
  /** Leaf certificate of the issuer, whose key signed the token: the only one to trust until the CA bundle is there. */
  readonly leaf: X509Certificate;
}

const algorithms: Readonly<Record<string, string>> = {
  ES256: "sha256",
  ES384: "sha384",
  ES512: "sha512",
  RS256: "sha256",
  RS384: "sha384",
  RS512: "sha512",
};

/**
 * Checks an enrollment token against the certificate its issuer serves at this moment, and reads it.
 *
 * @throws EnrollmentError `TOKEN_MALFORMED`, `TOKEN_EXPIRED`, `TOKEN_FORGED` (the issuer's key did not sign it), `UNREACHABLE`
 */
export async function verifyEnrollmentToken(
  jwt: string,
  o: { signal?: AbortSignal | undefined; now?: Date; connect?: Connect | undefined } = {},
): Promise<EnrollmentToken> {
  const [header64 = "", claims64 = "", signature64 = "", ...more] = jwt.trim().split(".");
  const header = json(header64) as { alg?: unknown };
  const claims = json(claims64) as Partial<Record<"iss" | "sub" | "jti" | "em" | "exp" | "ctrls", unknown>>;
  const digest = typeof header.alg === "string" ? algorithms[header.alg] : undefined;
  if (more.length > 0 || signature64 === "" || digest === undefined) {
    throw malformed(`expected a token signed with ${Object.keys(algorithms).join(", ")}`);
  }
  const issuer = issuerOf(claims.iss);
  const expiresAt = new Date(Number(claims.exp) * 1000);
  const { sub: subject, jti: token, em: method } = claims;
  if (typeof token !== "string" || token === "" || typeof method !== "string" || typeof (subject ?? "") !== "string") {
    throw malformed("it lacks the claims em, jti or sub");
  }
  if (Number.isNaN(expiresAt.getTime())) throw malformed("it has no expiry");
  const now = o.now ?? new Date();
  if (expiresAt <= now) {
    const text = `the enrollment token ended at ${expiresAt.toISOString()}, and the clock of this machine shows ${now.toISOString()}; ask the administrator for a new one, or correct the clock`;
    throw new EnrollmentError("TOKEN_EXPIRED", text);
  }
  const leaf = await servedLeaf(issuer, o.signal, o.connect);
  const signed = Buffer.from(`${header64}.${claims64}`);
  const key = { key: leaf.publicKey, dsaEncoding: "ieee-p1363" as const };
  const isGenuine =
    keyFits(String(header.alg), leaf) && verify(digest, signed, key, Buffer.from(signature64, "base64url"));
  if (!isGenuine) {
    throw new EnrollmentError(
      "TOKEN_FORGED",
      `the enrollment token was not signed by the server that ${issuer.host} reaches; it is of another network, or someone sits in between`,
    );
  }
  const controllers = Array.isArray(claims.ctrls) ? claims.ctrls.filter((item) => typeof item === "string") : [];
  return { method, issuer, subject: String(subject ?? ""), token, expiresAt, controllers, leaf };
}

/** URL of an API path below the issuer, whose own path stays in front. */
export function issuerUrl(issuer: URL, path: string): URL {
  return new URL(issuer.pathname.replace(/\/+$/, "") + path, issuer);
}

function keyFits(algorithm: string, leaf: X509Certificate): boolean {
  return leaf.publicKey.asymmetricKeyType === (algorithm.startsWith("ES") ? "ec" : "rsa");
}

function issuerOf(claim: unknown): URL {
  const issuer = typeof claim === "string" ? URL.parse(claim) : null;
  if (issuer?.protocol !== "https:") throw malformed("its issuer is not an https address");
  return issuer;
}

function json(part: string): object {
  try {
    const value: unknown = JSON.parse(Buffer.from(part, "base64url").toString("utf8"));
    if (typeof value === "object" && value !== null) return value;
  } catch {
    // Said below.
  }
  throw malformed("it is not a JSON web token");
}

function malformed(why: string): EnrollmentError {
  return new EnrollmentError("TOKEN_MALFORMED", `the enrollment token cannot be used: ${why}`);
}
