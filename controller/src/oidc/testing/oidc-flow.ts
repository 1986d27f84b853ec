/** A client that logs in over HTTP as the standards say, one request at a time, so that a test can spoil each of them. */
import { createHash, randomBytes } from "node:crypto";
import type { Answer, CallOptions, TestController } from "../../api/testing/test-controller.ts";
import { FORM_TYPE } from "../../http/endpoints.ts";

export const REDIRECT_URI = "http://localhost:20314/auth/callback";
export const TEST_PASSWORD = "correct horse";

/** Names and values in order; a name may come twice. */
export type Fields = readonly (readonly [name: string, value: string])[];

export interface TokenAnswer {
  readonly access_token: string;
  readonly refresh_token: string;
  readonly id_token: string;
  readonly expires_in: number;
  readonly scope: string;
}

export const encodedFields = (fields: Fields): string =>
  fields.map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(value)}`).join("&");

/** Sends a form. */
export function postForm(c: TestController, path: string, fields: Fields, options: CallOptions = {}): Promise<Answer> {
  const headers = { "content-type": FORM_TYPE, accept: "application/json", ...options.headers };
  return c.call("POST", path, { ...options, headers, body: encodedFields(fields) });
}

/** The claims of a token, unverified. */
// biome-ignore lint/suspicious/noExplicitAny: tests look into tokens of every kind
export function claimsOf(token: string): any {
  return JSON.parse(Buffer.from(token.split(".")[1] ?? "", "base64url").toString());
}

/** An identity with a password. */
export async function makeUser(c: TestController, more: object = {}): Promise<{ id: string; username: string }> {
  const username = `user-${randomBytes(6).toString("hex")}`;
  const id = await c.make("identities", { name: username, type: "User", isAdmin: false, ...more });
  await c.make("authenticators", { identityId: id, method: "updb", username, password: TEST_PASSWORD });
  return { id, username };
}

/** One login. Each step answers what the controller said, and `after…` what the next one needs of it. */
export class OidcFlow {
  readonly #c: TestController;
  readonly verifier = randomBytes(32).toString("base64url");
  readonly clientId: string;
  readonly options: CallOptions;

  constructor(c: TestController, more: { readonly clientId?: string; readonly options?: CallOptions } = {}) {
    this.#c = c;
    this.clientId = more.clientId ?? "openziti";
    this.options = more.options ?? {};
  }

  authorizeFields(): Fields {
    return [
      ["client_id", this.clientId],
      ["response_type", "code"],
      ["scope", "openid offline_access"],
      ["state", "the-state"],
      ["nonce", "the-nonce"],
      ["code_challenge", createHash("sha256").update(this.verifier).digest("base64url")],
      ["code_challenge_method", "S256"],
      ["redirect_uri", REDIRECT_URI],
    ];
  }

  authorize(fields: Fields = this.authorizeFields()): Promise<Answer> {
    return this.#c.call("GET", `/oidc/authorize?${encodedFields(fields)}`, this.options);
  }

  /** The id of a new login. */
  async begin(fields?: Fields): Promise<string> {
    const answer = await this.authorize(fields);
    const id = new URL(String(answer.headers.location), "https://localhost").searchParams.get("authRequestID");
    if (id === null) throw new Error(`authorize answered ${answer.status}: ${answer.text}`);
    return id;
  }

  passwordFields(id: string, username: string, password = TEST_PASSWORD): Fields {
    return [
      ["id", id],
      ["username", username],
      ["password", password],
      ["configTypes", "all"],
    ];
  }

  /** Logs in with a password. @returns the id for the callback */
  async password(id: string, username: string): Promise<string> {
    return callbackIn(await postForm(this.#c, "/oidc/login/password", this.passwordFields(id, username), this.options));
  }

  /** The code for a finished login. */
  async code(callbackId: string): Promise<string> {
    const answer = await this.#c.call("GET", `/oidc/authorize/callback?id=${callbackId}`, this.options);
    const code = new URL(String(answer.headers.location)).searchParams.get("code");
    if (code === null) throw new Error(`the callback answered ${answer.status}: ${answer.text}`);
    return code;
  }

  codeFields(code: string): Fields {
    return [
      ["grant_type", "authorization_code"],
      ["client_id", this.clientId],
      ["code", code],
      ["code_verifier", this.verifier],
      ["redirect_uri", REDIRECT_URI],
    ];
  }

  refreshFields(refreshToken: string): Fields {
    return [
      ["grant_type", "refresh_token"],
      ["client_id", this.clientId],
      ["refresh_token", refreshToken],
    ];
  }

  token(fields: Fields): Promise<Answer> {
    return postForm(this.#c, "/oidc/oauth/token", fields, this.options);
  }

  /** The tokens for a finished login. */
  async tokens(callbackId: string): Promise<TokenAnswer> {
    const answer = await this.token(this.codeFields(await this.code(callbackId)));
    if (answer.status !== 200) throw new Error(`the token endpoint answered ${answer.status}: ${answer.text}`);
    return answer.json;
  }
}

/** The id for the callback, out of the answer to the last factor. */
export function callbackIn(answer: Answer): string {
  const id = new URL(String(answer.headers.location), "https://localhost").searchParams.get("id");
  if (answer.status !== 302 || id === null) throw new Error(`the login answered ${answer.status}: ${answer.text}`);
  return id;
}

/** A whole login with a password. */
export async function logIn(c: TestController, username: string, flow = new OidcFlow(c)): Promise<TokenAnswer> {
  return flow.tokens(await flow.password(await flow.begin(), username));
}
