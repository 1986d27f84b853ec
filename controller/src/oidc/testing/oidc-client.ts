/** A client of the provider for tests: each step by itself, and all of them in a row. */
import { createHash, randomBytes } from "node:crypto";
import { createCsr, createKeyPair } from "@sallyport/wire";
import { decodeJwt } from "jose";
import type { Answer, CallOptions, TestController } from "../../api/testing/test-controller.ts";

export const REDIRECT_URI = "http://localhost:8080/auth/callback";
export const TOKEN_TYPE = "urn:ietf:params:oauth:token-type:";
export const EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange";

export type Fields = Readonly<Record<string, string | undefined>>;

export function formText(fields: Fields): string {
  const given = Object.entries(fields).filter((entry): entry is [string, string] => entry[1] !== undefined);
  return new URLSearchParams(given).toString();
}

/** A certificate with its key. */
export interface Certificate {
  readonly cert: string;
  readonly key: string;
}

export class OidcTestClient {
  readonly #controller: TestController;
  readonly #options: CallOptions;
  readonly verifier = randomBytes(32).toString("base64url");
  readonly clientId: string;

  constructor(controller: TestController, options: CallOptions & { readonly clientId?: string } = {}) {
    const { clientId = "openziti", ...more } = options;
    this.#controller = controller;
    this.#options = more;
    this.clientId = clientId;
  }

  get issuer(): string {
    return `https://localhost:${this.#controller.port}/oidc`;
  }

  /** The parameters of a good request for a login. */
  get wanted(): Readonly<Record<string, string>> {
    return {
      client_id: this.clientId,
      response_type: "code",
      scope: "openid offline_access",
      state: "a state",
      nonce: "a-nonce",
      code_challenge: createHash("sha256").update(this.verifier).digest("base64url"),
      code_challenge_method: "S256",
      redirect_uri: REDIRECT_URI,
    };
  }

  call(method: string, path: string, options: CallOptions = {}): Promise<Answer> {
    const host = { host: `localhost:${this.#controller.port}` };
    const headers = { ...host, ...this.#options.headers, ...options.headers };
    return this.#controller.call(method, path, { ...this.#options, ...options, headers });
  }

  get(path: string, headers: Record<string, string | string[]> = {}): Promise<Answer> {
    return this.call("GET", path, { headers });
  }

  form(path: string, fields: Fields | string, headers: Record<string, string | string[]> = {}): Promise<Answer> {
    const body = typeof fields === "string" ? fields : formText(fields);
    return this.call("POST", path, {
      body,
      headers: { "content-type": "application/x-www-form-urlencoded", ...headers },
    });
  }

  authorize(change: Fields = {}): Promise<Answer> {
    return this.get(`/oidc/authorize?${formText({ ...this.wanted, ...change })}`);
  }

  /** The id of a new login. */
  async begin(change: Fields = {}): Promise<string> {
    const id = idIn(await this.authorize(change));
    if (id === undefined) throw new Error("the login did not begin");
    return id;
  }

  /** The code of a login whose last step answered so. */
  async codeOf(finished: Answer): Promise<string> {
    const { pathname, search } = new URL(locationOf(finished));
    const code = new URL(locationOf(await this.get(pathname + search))).searchParams.get("code");
    if (code === null) throw new Error("the callback gave no code");
    return code;
  }

  exchange(code: string, change: Fields = {}, headers: Record<string, string> = {}): Promise<Answer> {
    const fields: Fields = {
      grant_type: "authorization_code",
      client_id: this.clientId,
      code,
      code_verifier: this.verifier,
      redirect_uri: REDIRECT_URI,
    };
    return this.form("/oidc/oauth/token", { ...fields, ...change }, headers);
  }

  /** All steps of a login whose first one is enough. */
  async logIn(method: string, body: object = {}, change: Fields = {}): Promise<Answer> {
    const id = await this.begin(change);
    const finished = await this.call("POST", `/oidc/login/${method}`, { body: { id, ...body } });
    return this.exchange(await this.codeOf(finished));
  }

  refresh(token: string, change: Fields = {}, headers: Record<string, string> = {}): Promise<Answer> {
    const fields = { grant_type: "refresh_token", client_id: this.clientId, refresh_token: token };
    return this.form("/oidc/oauth/token", { ...fields, ...change }, headers);
  }

  /** As clients in Go do it. */
  exchangeToken(token: string, change: Fields = {}): Promise<Answer> {
    const fields = { grant_type: EXCHANGE, subject_token: token, subject_token_type: `${TOKEN_TYPE}refresh_token` };
    const authorization = `Basic ${Buffer.from(`${this.clientId}:`).toString("base64")}`;
    return this.form("/oidc/oauth/token", { ...fields, ...change }, { authorization });
  }

  /** A request to the Client API with an access token. */
  api(accessToken: string, path = "current-identity", bearers: readonly string[] = []): Promise<Answer> {
    const authorization = [accessToken, ...bearers].map((token) => `Bearer ${token}`);
    return this.get(`/edge/client/v1/${path}`, { authorization });
  }
}

export function locationOf({ status, headers, text }: Answer): string {
  const { location } = headers;
  if (status !== 302 || typeof location !== "string") throw new Error(`no redirect, but ${status}: ${text}`);
  return location;
}

/** The id of the login that an answer to `/authorize` begins. */
export function idIn(answer: Answer): string | undefined {
  return /[?&]authRequestID=([^&]+)/.exec(locationOf(answer))?.[1];
}

/** The parameters of a redirect. */
export function redirected(answer: Answer): Readonly<Record<string, string>> {
  return Object.fromEntries(new URL(locationOf(answer)).searchParams);
}

// biome-ignore lint/suspicious/noExplicitAny: tests look into claims of every shape
export function claimsOf(token: string): any {
  return decodeJwt(token);
}

/** An identity that logs in with the password `password` under its own name. */
export async function passwordIdentity(t: TestController, name: string, more: object = {}): Promise<string> {
  const id = await t.make("identities", { name, type: "User", isAdmin: false, ...more });
  await t.make("authenticators", { method: "updb", identityId: id, username: name, password: "password" });
  return id;
}

/** An identity with a certificate of the network. */
export async function certificateIdentity(t: TestController, name: string, more: object = {}) {
  const enrollment = { ott: true };
  const id = await t.make("identities", { name, type: "User", isAdmin: false, enrollment, ...more });
  const { token } = (await t.admin("GET", `/identities/${id}`)).json.data.enrollment.ott;
  const { csr, key } = await certificateRequest(id);
  const headers = { "content-type": "application/x-pem-file" };
  const enrolled = await t.call("POST", `/edge/client/v1/enroll?method=ott&token=${token}`, { body: csr, headers });
  if (enrolled.status !== 200) throw new Error(`enrollment answered ${enrolled.status}: ${enrolled.text}`);
  return { id, cert: enrolled.json.data.cert as string, key };
}

export async function certificateRequest(commonName: string): Promise<{ csr: string; key: string }> {
  const { keyPem: key } = await createKeyPair();
  return { csr: await createCsr({ commonName, keyPem: key }), key };
}
