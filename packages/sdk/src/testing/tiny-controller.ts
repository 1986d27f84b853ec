import { createHash, randomUUID, webcrypto } from "node:crypto";
import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { createServer, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import { type Identity, x509 } from "@sallyport/wire";

const REDIRECT_URI = "http://localhost:20314/auth/callback";

interface Answer {
  readonly status: number;
  readonly body?: object;
  readonly location?: string;
  readonly page?: string;
}

const say = (status: number, body: object): Answer => ({ status, body });
const redirect = (location: string): Answer => ({ status: 302, location });
const refuse = (status: number, code: string): Answer => say(status, { error: { code, message: code }, meta: {} });
const invalid = (text: string): Answer => say(400, { error: "invalid_grant", error_description: text });

interface Session {
  readonly id: string;
  accessToken: string;
  refreshToken: string;
}

interface Attempt {
  readonly query: URLSearchParams;
  readonly bearers: readonly string[];
  hasCode: boolean;
  /** For a certificate of the session. */
  csrPem?: string | undefined;
}

/**
 * Just enough of a controller, on real TLS, to test the SDK's half of logins where the answers are wrong or the times unusual: it takes every certificate and
 * password, and its tokens are not signed.
 */
export class TinyController {
  /** Each request: method and path, then the tokens it came with. */
  readonly asked: string[] = [];
  /** Each request that came while it hung. */
  readonly unanswered: string[] = [];
  capabilities: readonly string[] = ["OIDC_AUTH"];
  /** Of the provider's base URL, in the version document. */
  oidcPath = "/oidc";
  versionStatus = 200;
  /** The code that logins need besides; empty: none. */
  code = "";
  /** Whether the identity has an authenticator app. */
  isEnrolled = true;
  /** The token of another provider that logins need besides; empty: none. */
  otherToken = "";
  /** Refuses every first factor as OpenZiti 1.6 does a wrong password: it shows its login page again. */
  refusesByPage = false;
  /** Answers each call with this status, when it is not 0. */
  callStatus = 0;
  /** Refuses all but logins, whatever they come with: as for a session to which the network wants more proof. */
  refuseCalls = false;
  /** Seconds that access tokens live. */
  accessSeconds = 1_800;
  /** Changes an answer of the provider before it is sent. */
  forge: (redirect: URL) => URL = (redirect) => redirect;
  /** Of the id token, in place of the login's. */
  nonce: string | undefined;
  readonly url: string;
  readonly #server: Server;
  readonly #attempts = new Map<string, Attempt>();
  /** The controllers of the network, by their addresses. */
  controllers: readonly string[] = [];
  #sessions: Session[] = [];
  #isHanging = false;

  private constructor(server: Server) {
    this.#server = server;
    this.url = `https://localhost:${(server.address() as AddressInfo).port}`;
  }

  static async start({ certPem: cert, keyPem: key }: Identity): Promise<TinyController> {
    const server = createServer({ cert, key }, (request, response) => {
      const chunks: Buffer[] = [];
      request.on("data", (chunk: Buffer) => chunks.push(chunk));
      request.on("end", () => {
        const sent = Buffer.concat(chunks).toString();
        if (controller.#isHanging) {
          controller.unanswered.push(`${request.method} ${request.url}`);
          return;
        }
        void controller.#answer(request, sent).then(({ status, body, location, page }) => {
          const type = page === undefined ? "application/json" : "text/html; charset=UTF-8";
          const headers = { "content-type": type, ...(location !== undefined && { location }) };
          response.writeHead(status, headers).end(page ?? (body && JSON.stringify(body)));
        });
      });
    });
    server.listen(0, "localhost");
    await once(server, "listening");
    const controller = new TinyController(server);
    return controller;
  }

  async close(): Promise<void> {
    if (!this.#server.listening) return;
    this.#server.close();
    this.#server.closeAllConnections();
    await once(this.#server, "close");
  }

  /** Takes connections and requests, and answers none of them from now on. */
  hang(): void {
    this.#isHanging = true;
  }

  wakeUp(): void {
    this.#isHanging = false;
  }

  /** From now on both know the same sessions, as controllers of one network do. */
  shareSessions(other: TinyController): void {
    this.#sessions = other.#sessions;
  }

  /** The access tokens are refused from now on, as after their time. */
  expireTokens(): void {
    for (const session of this.#sessions) session.accessToken = "";
  }

  /** The sessions are gone, as after an administrator has ended them. */
  endSessions(): void {
    this.#sessions.length = 0;
  }

  async #answer(request: IncomingMessage, body: string): Promise<Answer> {
    const url = new URL(request.url ?? "", this.url);
    const bearers = (request.headersDistinct.authorization ?? []).map((header) => header.replace("Bearer ", ""));
    const path = url.pathname.replace("/edge/client/v1", "");
    this.asked.push([`${request.method} ${path}`, ...bearers.map((token) => claimsOf(token)?.jti ?? token)].join(" "));
    switch (path) {
      case "/version":
        if (this.versionStatus !== 200) return refuse(this.versionStatus, "UNHANDLED");
        return say(200, { data: this.#version(), meta: {} });
      case "/authenticate":
        return say(200, { data: legacySession(), meta: {} });
      case "/oidc/authorize": {
        const id = randomUUID();
        this.#attempts.set(id, { query: url.searchParams, bearers: [], hasCode: false });
        return redirect(`/oidc/login/${url.searchParams.get("method")}?authRequestID=${id}`);
      }
      case "/oidc/login/cert":
      case "/oidc/login/ext-jwt":
      case "/oidc/login/totp": {
        if (this.refusesByPage) return { status: 200, page: "<form>" };
        const { id, code, csrPem } = JSON.parse(body) as { id: string; code?: string; csrPem?: string };
        const known = this.#attempts.get(id);
        if (known === undefined) return say(401, { code: "UNAUTHORIZED", message: "unknown login" });
        if (code !== undefined && code !== this.code) return say(400, { code: "MFA_INVALID_TOKEN", message: "wrong" });
        const hasCode = known.hasCode || code !== undefined;
        const attempt = { ...known, bearers, hasCode, csrPem: csrPem ?? known.csrPem };
        this.#attempts.set(id, attempt);
        const authQueries = this.#openFactors(attempt);
        if (authQueries.length > 0) return say(200, { authQueries });
        return redirect(`${this.url}/oidc/authorize/callback?id=${id}`);
      }
      case "/oidc/authorize/callback": {
        const id = url.searchParams.get("id") ?? "";
        const state = this.#attempts.get(id)?.query.get("state") ?? "";
        return redirect(this.forge(new URL(`${REDIRECT_URI}?code=${id}&state=${state}`)).href);
      }
      case "/oidc/oauth/token":
        return await this.#token(new URLSearchParams(body));
      case "/oidc/revoke": {
        const token = new URLSearchParams(body).get("token");
        const index = this.#sessions.findIndex(({ refreshToken }) => refreshToken === token);
        if (index >= 0) this.#sessions.splice(index, 1);
        return say(200, {});
      }
    }
    if (this.callStatus !== 0) return refuse(this.callStatus, "UNAVAILABLE");
    const isLegacy = request.headers["zt-session"] === "legacy";
    if (this.refuseCalls || (!isLegacy && !this.#sessions.some(({ accessToken }) => bearers[0] === accessToken))) {
      return refuse(401, "UNAUTHORIZED");
    }
    if (path === "/controllers") {
      const data = this.controllers.map((url) => ({
        id: url,
        apiAddresses: { "edge-client": [{ url: `${url}/edge/client/v1`, version: "v1" }] },
      }));
      return say(200, { data, meta: { pagination: { limit: 10, offset: 0, totalCount: data.length } } });
    }
    if (path === "/current-identity") return say(200, { data: { id: "i", name: "me" }, meta: {} });
    if (path === "/current-api-session") return say(200, { data: legacySession(), meta: {} });
    return refuse(404, "NOT_FOUND");
  }

  #version(): object {
    const path = { v1: { path: "/oidc", apiBaseUrls: [`${this.url}${this.oidcPath}`] } };
    return { capabilities: this.capabilities, apiVersions: { "edge-oidc": path } };
  }

  #openFactors({ hasCode, bearers }: Attempt): object[] {
    const queries: object[] = [];
    if (this.code !== "" && !hasCode) {
      queries.push({ typeId: "TOTP", provider: "ziti", minLength: 6, maxLength: 8, isTotpEnrolled: this.isEnrolled });
    }
    if (this.otherToken !== "" && !bearers.includes(this.otherToken)) {
      queries.push({ typeId: "EXT-JWT", provider: "url", id: "signer", httpUrl: "https://other", clientId: "c" });
    }
    return queries;
  }

  async #token(form: URLSearchParams): Promise<Answer> {
    if (form.get("grant_type") === "refresh_token") {
      const session = this.#sessions.find(({ refreshToken }) => refreshToken === form.get("refresh_token"));
      if (session === undefined) return invalid("session has ended");
      return say(200, this.#issue(session, undefined));
    }
    const code = form.get("code") ?? "";
    const { query, csrPem } = this.#attempts.get(code) ?? {};
    this.#attempts.delete(code);
    const challenge = createHash("sha256")
      .update(form.get("code_verifier") ?? "")
      .digest("base64url");
    if (query === undefined || query.get("code_challenge") !== challenge) return invalid("invalid code_verifier");
    const session = { id: randomUUID(), accessToken: "", refreshToken: "" };
    this.#sessions.push(session);
    const tokens = this.#issue(session, this.nonce ?? query.get("nonce") ?? "");
    return say(200, csrPem === undefined ? tokens : { ...tokens, session_cert: await certificateFor(csrPem) });
  }

  #issue(session: Session, nonce: string | undefined): object {
    const serial = `${this.#sessions.indexOf(session)}.${randomUUID()}`;
    session.accessToken = tokenOf({ sub: "i", z_asid: session.id, jti: `access-${serial}` });
    session.refreshToken = tokenOf({ sub: "i", jti: `refresh-${serial}` });
    return {
      access_token: session.accessToken,
      refresh_token: session.refreshToken,
      id_token: tokenOf({ sub: "i", name: "me", nonce }),
      token_type: "Bearer",
      expires_in: this.accessSeconds,
    };
  }
}

/** A certificate for the key of a request; its signer is not looked at. */
async function certificateFor(csrPem: string): Promise<string> {
  const algorithm = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };
  const { privateKey } = await webcrypto.subtle.generateKey(algorithm, false, ["sign", "verify"]);
  const certificate = await x509.X509CertificateGenerator.create({
    ...{ serialNumber: "01", subject: "CN=session", issuer: "CN=tiny", signingKey: privateKey },
    publicKey: new x509.Pkcs10CertificateRequest(csrPem).publicKey,
    signingAlgorithm: algorithm,
  });
  return `${certificate.toString("pem")}\n`;
}

function legacySession(): object {
  const expiresAt = new Date(Date.now() + 3_600_000).toISOString();
  return { token: "legacy", identityId: "i", identity: { id: "i", name: "me" }, authQueries: [], expiresAt };
}

function tokenOf(claims: object): string {
  return `e30.${Buffer.from(JSON.stringify(claims)).toString("base64url")}.c2ln`;
}

function claimsOf(token: string): { jti?: string } | undefined {
  const [, payload] = token.split(".");
  return payload === undefined ? undefined : JSON.parse(Buffer.from(payload, "base64url").toString());
}
