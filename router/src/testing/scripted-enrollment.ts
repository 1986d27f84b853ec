import { createPrivateKey, sign } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import { type Identity, x509 } from "@sallyport/wire";
import { TestAuthority } from "@sallyport/wire/testing";
import { signedRequest } from "./signed-request.ts";

/** The enrollment side of a controller: a token signer, the CA bundle, and certificates made from requests. */
export class ScriptedEnrollment {
  readonly authority: TestAuthority;
  readonly identity: Identity;
  readonly requests: { method: string; url: string; contentType: string | undefined; body: string }[] = [];
  /** Tokens that may still be redeemed. */
  readonly open = new Set<string>();
  /** Of the certificates it makes. */
  lifetimeMs = 86_400_000;
  readonly #server: Server;

  private constructor(authority: TestAuthority, identity: Identity) {
    this.authority = authority;
    this.identity = identity;
    this.#server = createServer({ cert: identity.certPem, key: identity.keyPem }, (request, response) => {
      this.#answer(request, response).catch(() => response.destroy());
    });
  }

  static async start(): Promise<ScriptedEnrollment> {
    const authority = await TestAuthority.create();
    const enrollment = new ScriptedEnrollment(authority, await authority.identity("ctrl1"));
    await new Promise<void>((resolve) => enrollment.#server.listen(0, "127.0.0.1", resolve));
    return enrollment;
  }

  get url(): string {
    return `https://localhost:${(this.#server.address() as AddressInfo).port}`;
  }

  /** A token for a router; `key` forges it with another key. */
  token(
    routerId: string,
    o: { exp?: number; em?: string; key?: string; jti?: string; ctrls?: string[] | null } = {},
  ): string {
    const jti = o.jti ?? `jti-${routerId}`;
    this.open.add(jti);
    const part = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
    const claims = {
      iss: this.url,
      sub: routerId,
      jti,
      em: o.em ?? "erott",
      aud: [""],
      exp: o.exp ?? Math.floor(Date.now() / 1000) + 600,
      ctrls: o.ctrls === undefined ? ["tls:localhost:6262"] : o.ctrls,
    };
    const signed = `${part({ alg: "ES256", typ: "JWT" })}.${part(claims)}`;
    const key = { key: createPrivateKey(o.key ?? this.identity.keyPem), dsaEncoding: "ieee-p1363" as const };
    return `${signed}.${sign("sha256", Buffer.from(signed), key).toString("base64url")}\n`;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    let body = "";
    for await (const chunk of request as AsyncIterable<Buffer>) body += chunk.toString("utf8");
    const url = new URL(request.url ?? "/", this.url);
    const contentType = request.headers["content-type"];
    this.requests.push({ method: request.method ?? "", url: url.pathname + url.search, contentType, body });
    if (url.pathname === "/edge/client/v1/.well-known/est/cacerts") {
      const bundle = new x509.X509Certificates([new x509.X509Certificate(this.authority.certPem)]).export("base64");
      const lines = bundle.replaceAll(/(.{64})/g, "$1\n");
      response.writeHead(200, { "content-type": "application/pkcs7-mime", "content-transfer-encoding": "base64" });
      response.end(lines);
      return;
    }
    const json = (status: number, value: object): void => {
      response.writeHead(status, { "content-type": "application/json" });
      response.end(JSON.stringify(value));
    };
    if (!this.open.delete(url.searchParams.get("token") ?? "")) {
      const error = { code: "INVALID_ENROLLMENT_TOKEN", message: "The supplied token is not valid" };
      return json(400, { error, meta: {} });
    }
    const { certCsr, serverCertCsr } = JSON.parse(body) as { certCsr: string; serverCertCsr: string };
    const data = {
      cert: await signedRequest(this.authority, certCsr, this.lifetimeMs),
      serverCert: await signedRequest(this.authority, serverCertCsr, this.lifetimeMs),
      ca: this.authority.certPem,
    };
    json(200, { data, meta: {} });
  }
}
