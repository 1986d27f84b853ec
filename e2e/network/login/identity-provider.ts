import { createHash, randomUUID, sign } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { TestAuthority } from "@sallyport/wire/testing";

/** What a code stands for. */
interface Grant {
  readonly nonce?: string | undefined;
  /** Of RFC 7636. */
  readonly challenge?: string | undefined;
  readonly redirectUri?: string | undefined;
  /** Who has logged in; undefined: no user yet. */
  user?: string | undefined;
}

interface Answer {
  readonly status: number;
  readonly body?: object;
  readonly location?: string;
}

const CLIENT_ID = "tunneler";
/** What programs of OpenZiti have registered with their providers. */
const REDIRECT_URI = "http://localhost:20314/auth/callback";
const DEVICE_CODE = "urn:ietf:params:oauth:grant-type:device_code";
const KEY_ID = "of-the-provider";
const refused = (error: string): Answer => ({ status: 400, body: { error } });

/**
 * An OpenID provider of a company, as a network trusts one: logins of programs by browser (RFC 8252, with RFC 7636) and by another device (RFC 8628). A
 * browser that opens its page is logged in as {@link user}.
 */
export class IdentityProvider {
  readonly clientId = CLIENT_ID;
  readonly keyId = KEY_ID;
  /** Certificate of the key that signs its tokens. */
  readonly certPem: string;
  readonly issuer: string;
  /** Who sits in front of every browser. */
  user = "user";
  /** Tokens that were given, by logins of users. */
  logins = 0;
  readonly #keyPem: string;
  readonly #server: Server;
  readonly #codes = new Map<string, Grant>();
  readonly #devices = new Map<string, Grant>();

  private constructor(server: Server, certPem: string, keyPem: string) {
    this.#server = server;
    this.certPem = certPem;
    this.#keyPem = keyPem;
    this.issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  }

  static async start(): Promise<IdentityProvider> {
    const { certPem, keyPem } = await (await TestAuthority.create()).issue({ commonName: "provider" });
    const server = createServer((request, response) => void provider.#serve(request, response));
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const provider = new IdentityProvider(server, certPem, keyPem);
    return provider;
  }

  async close(): Promise<void> {
    this.#server.close();
    this.#server.closeAllConnections();
    await once(this.#server, "close");
  }

  /** A token of a user that has been logged in somehow: what a machine finds in its file. */
  token(sub: string, more: object = {}): string {
    const now = Math.floor(Date.now() / 1_000);
    const claims = { iss: this.issuer, sub, aud: CLIENT_ID, iat: now, exp: now + 600, jti: randomUUID(), ...more };
    const head = { alg: "ES256", typ: "JWT", kid: KEY_ID };
    const signed = [head, claims].map((part) => Buffer.from(JSON.stringify(part)).toString("base64url")).join(".");
    const key = { key: this.#keyPem, dsaEncoding: "ieee-p1363" } as const;
    return `${signed}.${sign("sha256", Buffer.from(signed), key).toString("base64url")}`;
  }

  /** The user enters the code that a program has shown. */
  approve(userCode: string): void {
    const grant = this.#devices.get(userCode);
    if (grant === undefined) throw new Error(`the provider has shown no code ${userCode}`);
    grant.user = this.user;
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? "/", this.issuer);
    const form = new URLSearchParams(request.method === "POST" ? await text(request) : "");
    const { status, body, location } = this.#answer(`${request.method} ${url.pathname}`, url.searchParams, form);
    const headers = { "content-type": "application/json", ...(location !== undefined && { location }) };
    response.writeHead(status, headers).end(body && JSON.stringify(body));
  }

  #answer(endpoint: string, query: URLSearchParams, form: URLSearchParams): Answer {
    switch (endpoint) {
      case "GET /.well-known/openid-configuration":
        return { status: 200, body: this.#metadata() };
      case "GET /authorize":
        return this.#authorize(query);
      case "POST /device":
        return this.#device(form);
      case "POST /token":
        return this.#token(form);
      default:
        return { status: 404, body: {} };
    }
  }

  #metadata(): object {
    return {
      issuer: this.issuer,
      authorization_endpoint: `${this.issuer}/authorize`,
      token_endpoint: `${this.issuer}/token`,
      device_authorization_endpoint: `${this.issuer}/device`,
      jwks_uri: `${this.issuer}/jwks`,
      response_types_supported: ["code"],
      subject_types_supported: ["public"],
      id_token_signing_alg_values_supported: ["ES256"],
      code_challenge_methods_supported: ["S256"],
    };
  }

  #authorize(query: URLSearchParams): Answer {
    const isRight =
      query.get("client_id") === CLIENT_ID &&
      query.get("redirect_uri") === REDIRECT_URI &&
      query.get("response_type") === "code" &&
      query.get("code_challenge_method") === "S256" &&
      query.get("scope")?.split(" ").includes("openid") === true;
    if (!isRight) return refused("invalid_request");
    const code = randomUUID();
    this.#codes.set(code, {
      nonce: query.get("nonce") ?? undefined,
      challenge: query.get("code_challenge") ?? "",
      ...{ redirectUri: REDIRECT_URI, user: this.user },
    });
    const location = new URL(REDIRECT_URI);
    location.search = new URLSearchParams({ code, state: query.get("state") ?? "" }).toString();
    return { status: 302, location: location.href };
  }

  #device(form: URLSearchParams): Answer {
    if (form.get("client_id") !== CLIENT_ID) return refused("invalid_client");
    const deviceCode = randomUUID();
    const userCode = randomUUID().slice(0, 8).toUpperCase();
    const grant: Grant = {};
    this.#codes.set(deviceCode, grant);
    this.#devices.set(userCode, grant);
    const times = { expires_in: 300, interval: 1 };
    const body = {
      device_code: deviceCode,
      user_code: userCode,
      verification_uri: `${this.issuer}/activate`,
      ...times,
    };
    return { status: 200, body };
  }

  #token(form: URLSearchParams): Answer {
    const isDevice = form.get("grant_type") === DEVICE_CODE;
    const code = form.get(isDevice ? "device_code" : "code") ?? "";
    const grant = this.#codes.get(code);
    if (form.get("client_id") !== CLIENT_ID) return refused("invalid_client");
    if (grant === undefined) return refused("invalid_grant");
    if (grant.user === undefined) return refused("authorization_pending");
    const verifier = form.get("code_verifier") ?? "";
    const isProven =
      isDevice ||
      (createHash("sha256").update(verifier).digest("base64url") === grant.challenge &&
        form.get("redirect_uri") === grant.redirectUri);
    this.#codes.delete(code);
    if (!isProven) return refused("invalid_grant");
    this.logins++;
    const body = {
      access_token: this.token(grant.user),
      id_token: this.token(grant.user, grant.nonce === undefined ? {} : { nonce: grant.nonce }),
      ...{ token_type: "Bearer", expires_in: 600 },
    };
    return { status: 200, body };
  }
}
