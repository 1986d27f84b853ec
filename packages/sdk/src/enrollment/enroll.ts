import type { Connect } from "@sallyport/api/client/connect";
import {
  createCsr,
  createKeyPair,
  identityFromPem,
  type KeyCurve,
  parseCertificates,
  readPrivateKey,
} from "@sallyport/wire";
import { EnrollmentError } from "../errors.ts";
import type { IdentityFile } from "../identity-file.ts";
import { fetchCaBundle } from "./ca-bundle.ts";
import { type EnrollmentToken, issuerUrl, verifyEnrollmentToken } from "./enrollment-token.ts";
import { networkControllers } from "./network-controllers.ts";
import { enrollmentRequest } from "./pinned-request.ts";

/** How an enrollment is done; everything is optional. */
export interface EnrollOptions {
  /** Curve of the new key; `P-256` when left out. */
  readonly curve?: KeyCurve;
  readonly signal?: AbortSignal;
}

/**
 * Turns a one-time enrollment token into an identity: makes a key, has the controller certify it, and fetches the
 * network's certificates. The private key never leaves this machine.
 *
 * ```ts
 * const identity = await enroll(await readFile("me.jwt", "utf8"));
 * await writeFile("me.json", JSON.stringify(identity), { mode: 0o600 });
 * ```
 *
 * @returns the content of an identity file, understood by `Context.load` and by every other SDK
 * @throws EnrollmentError naming the step that failed
 */
export async function enroll(jwt: string, options: EnrollOptions = {}): Promise<IdentityFile> {
  const { signal } = options;
  const token = await verifyEnrollmentToken(jwt, { signal });
  const { issuer } = token;
  if (token.method !== "ott") {
    const found = `got ${token.method}; ask for a one-time token of an identity`;
    throw new EnrollmentError("METHOD_UNSUPPORTED", `expected a token of the enrollment method ott, ${found}`);
  }
  const authorities = await fetchCaBundle(issuer, { leaf: token.leaf }, signal);
  const { keyPem } = await createKeyPair(options.curve);
  const csr = await createCsr({ commonName: token.subject, subject: { C: "US", O: "Sallyport" }, keyPem });
  const content = { contentType: "application/x-pem-file", body: csr };
  const answer = await postEnrollment(token, authorities.pem, content, signal);
  const certPem = certificateOf(answer, keyPem, issuer);
  const caPem = authorities.pem;
  const controllers = await networkControllers(issuer, identityFromPem({ certPem, keyPem, caPem }), signal);
  return identityFileOf(issuer, { keyPem, certPem, caPem }, controllers);
}

/** The content of an identity file. @param controllers all that are known, `https://host:port`, when there are several */
export function identityFileOf(
  controller: URL,
  { keyPem, certPem, caPem }: { readonly keyPem: string; readonly certPem: string; readonly caPem: string },
  controllers: readonly string[] = [],
): IdentityFile {
  const api = (origin: string) => `${origin}/edge/client/v1`;
  return {
    ztAPI: api(controller.origin),
    ztAPIs: controllers.length > 0 ? controllers.map(api) : null,
    configTypes: null,
    id: { key: `pem:${keyPem}`, cert: `pem:${certPem}`, ca: `pem:${caPem}` },
    enableHa: false,
  };
}

/** The certificate of an enrollment's answer. @throws EnrollmentError when it is not for our key */
export function certificateOf(answer: unknown, keyPem: string, issuer: URL): string {
  const cert = typeof answer === "object" && answer !== null && "cert" in answer ? answer.cert : undefined;
  if (typeof cert === "string") {
    const [leaf] = parseCertificates(cert);
    if (leaf?.checkPrivateKey(readPrivateKey(keyPem)) === true) return cert;
  }
  const text = `expected a certificate for our new key from ${issuer.host}, got something else; ask for a new token`;
  throw new EnrollmentError("ENROLLMENT_REFUSED", text);
}

/** What is sent with an enrollment: a certificate request as PEM for identities, JSON for routers. */
export interface EnrollmentBody {
  readonly contentType: string;
  readonly body: string;
}

/**
 * Redeems an enrollment token: `POST /edge/client/v1/enroll?method=…&token=…`. Returns `data` of the answer.
 *
 * @throws EnrollmentError `ENROLLMENT_REFUSED` with the controller's code and message: a token that was used before or is
 * unknown says so; and as `enrollmentRequest`
 */
export async function postEnrollment(
  token: EnrollmentToken,
  caPem: string,
  content: EnrollmentBody,
  signal?: AbortSignal,
  connect?: Connect,
): Promise<unknown> {
  const url = issuerUrl(token.issuer, "/edge/client/v1/enroll");
  url.searchParams.set("method", token.method);
  url.searchParams.set("token", token.token);
  const response = await enrollmentRequest({
    method: "POST",
    url,
    trust: { caPem },
    headers: { "content-type": content.contentType, accept: "application/json" },
    body: content.body,
    connect,
    signal,
  });
  const answer = parse(response.body);
  if (response.status === 200) return answer?.data;
  throw new EnrollmentError("ENROLLMENT_REFUSED", refusal(token, response.status, answer));
}

interface EnrollmentAnswer {
  readonly data?: unknown;
  readonly error?: {
    readonly code?: unknown;
    readonly message?: unknown;
    readonly cause?: { readonly message?: unknown };
  };
}

function parse(body: Buffer): EnrollmentAnswer | undefined {
  try {
    const value: unknown = JSON.parse(body.toString("utf8"));
    return typeof value === "object" && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}

function refusal(token: EnrollmentToken, status: number, answer: EnrollmentAnswer | undefined): string {
  const code = String(answer?.error?.code ?? status);
  const said = [answer?.error?.message, answer?.error?.cause?.message].filter((text) => typeof text === "string");
  const what = `${token.issuer.host} refused the enrollment: ${code}${said.length > 0 ? ` (${said.join(": ")})` : ""}`;
  if (code === "INVALID_ENROLLMENT_TOKEN") {
    return `${what}. The token was used before, or was replaced by a newer one; ask the administrator for a new one`;
  }
  if (code === "ENROLLMENT_EXPIRED") return `${what}. Ask the administrator for a new token`;
  return what;
}
