/** An issuer of tokens for tests: real keys, real signatures, and a key set behind a real HTTPS server on the loopback interface. */
import { once } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { TestAuthority } from "@sallyport/wire/testing";
import { exportJWK, generateKeyPair, type JWK, SignJWT } from "jose";

type KeyPair = Awaited<ReturnType<typeof generateKeyPair>>;

/** Answers a request for a path; the default is the key set under `/jwks`. */
type Answer = (request: IncomingMessage, response: ServerResponse) => void;

export interface TokenIssuer {
  readonly issuer: string;
  readonly jwksUrl: string;
  readonly port: number;
  /** What a fetcher has to trust. */
  readonly caPem: string;
  /** Paths of the requests so far. */
  readonly requests: string[];
  /** Answers of the test's own, by path. */
  readonly answers: Map<string, Answer>;
  /** Makes a key and puts it into the key set. */
  addKey(kid: string, algorithm?: string): Promise<void>;
  dropKey(kid: string): void;
  /**
   * A token for the audience `sallyport` that is good for five minutes, but for what the test changes; a claim of undefined is left out. It names the
   * key `kid` and is signed with the key `by`, or one that there is.
   */
  token(claims: Readonly<Record<string, unknown>>, header?: { kid?: string; by?: string }): Promise<string>;
  close(): Promise<void>;
}

export async function startTokenIssuer(issuer = "https://idp.example"): Promise<TokenIssuer> {
  const authority = await TestAuthority.create("Issuer's CA");
  const { certPem, keyPem } = await authority.issue({ commonName: "idp", dns: ["localhost"], ip: ["127.0.0.1"] });
  const keys = new Map<string, { pair: KeyPair; algorithm: string; jwk: JWK }>();
  const requests: string[] = [];
  const answers = new Map<string, Answer>();
  const server = createServer({ cert: certPem, key: keyPem }, (request, response) => {
    const path = request.url ?? "";
    requests.push(path);
    const answer = answers.get(path);
    if (answer !== undefined) return answer(request, response);
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify({ keys: [...keys.values()].map(({ jwk }) => jwk) }));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;

  return {
    issuer,
    port,
    jwksUrl: `https://127.0.0.1:${port}/jwks`,
    caPem: authority.certPem,
    requests,
    answers,
    async addKey(kid, algorithm = "ES256") {
      const pair = await generateKeyPair(algorithm, { extractable: true });
      const jwk = { ...(await exportJWK(pair.publicKey)), kid, alg: algorithm, use: "sig" };
      keys.set(kid, { pair, algorithm, jwk });
    },
    dropKey(kid) {
      keys.delete(kid);
    },
    async token(claims, { kid = "k1", by = kid } = {}) {
      const key = keys.get(by) ?? [...keys.values()][0];
      if (key === undefined) throw new Error("the issuer has no key");
      const now = Math.floor(Date.now() / 1_000);
      const payload = { iss: issuer, aud: "sallyport", iat: now, exp: now + 300, ...claims };
      const given = Object.entries(payload).filter(([, value]) => value !== undefined);
      return new SignJWT(Object.fromEntries(given))
        .setProtectedHeader({ alg: key.algorithm, kid })
        .sign(key.pair.privateKey);
    },
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}
