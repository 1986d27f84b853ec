import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startTokenIssuer, type TokenIssuer } from "../testing/token-issuer.ts";
import { JwksFetcher, type JwksFetcherOptions } from "./jwks-fetcher.ts";

let issuer: TokenIssuer;
beforeAll(async () => {
  issuer = await startTokenIssuer();
  await issuer.addKey("k1");
});
afterAll(() => issuer.close());

const fetcher = (options: Partial<JwksFetcherOptions> = {}) =>
  new JwksFetcher({ allowedNetworks: ["127.0.0.1"], caPem: issuer.caPem, ...options });
const at = (path: string) => `https://127.0.0.1:${issuer.port}${path}`;
const redirectTo = (path: string, location: string, status = 302) =>
  issuer.answers.set(path, (_request, response) => response.writeHead(status, { location }).end());
const sends = (path: string, type: string | undefined, body: string | Buffer, headers: Record<string, string> = {}) =>
  issuer.answers.set(path, (_request, response) =>
    response.writeHead(200, { ...(type === undefined ? {} : { "content-type": type }), ...headers }).end(body),
  );

describe("a key set", () => {
  test("is fetched over plain http only where that is allowed, from the first address and after redirects", async () => {
    const server = createServer((request, response) => {
      if (request.url === "/away") response.writeHead(302, { location: "/jwks" }).end();
      else response.writeHead(200, { "content-type": "application/json" }).end('{"keys":[]}');
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    try {
      for (const path of ["/jwks", "/away"]) {
        await expect(fetcher().fetch(`${origin}${path}`)).rejects.toThrow("auth.jwks.allowPlainHttp");
        expect(await fetcher({ allowPlainHttp: true }).fetch(`${origin}${path}`)).toEqual({ keys: [] });
        const elsewhere = fetcher({ allowPlainHttp: true, allowedNetworks: [] });
        await expect(elsewhere.fetch(`${origin}${path}`)).rejects.toThrow("allowedNetworks");
      }
    } finally {
      server.close();
    }
  });

  test("is fetched over HTTPS, by address and by name", async () => {
    const document = { keys: [expect.objectContaining({ kid: "k1" })] };
    expect(await fetcher().fetch(issuer.jwksUrl)).toEqual(document);
    expect(await fetcher().fetch(`https://localhost:${issuer.port}/jwks`)).toEqual(document);
  });

  test("is not fetched from a server whose certificate is not trusted", async () => {
    const strict = new JwksFetcher({ allowedNetworks: ["127.0.0.1"] });
    await expect(strict.fetch(issuer.jwksUrl)).rejects.toThrow("certificate");
  });

  test.each(["application/json", "application/jwk-set+json", "APPLICATION/JWK+JSON; charset=utf-8"])(
    "may be of type %s",
    async (type) => {
      sends("/typed", type, '{"keys":[]}');
      expect(await fetcher().fetch(at("/typed"))).toEqual({ keys: [] });
    },
  );

  test.each(["text/html", "text/plain", undefined])("of type %s is refused", async (type) => {
    sends("/typed", type, '{"keys":[]}');
    await expect(fetcher().fetch(at("/typed"))).rejects.toThrow("expected a JSON document");
  });

  test("that is larger than 512 KiB is refused while it arrives", async () => {
    sends("/large", "application/json", Buffer.alloc(600 * 1024, " "));
    await expect(fetcher().fetch(at("/large"))).rejects.toThrow("more than 524288 bytes");
  });

  test("that is compressed is refused: it was not asked for, and could grow", async () => {
    sends("/gzip", "application/json", "x", { "content-encoding": "gzip" });
    await expect(fetcher().fetch(at("/gzip"))).rejects.toThrow("compressed");
  });

  test("that is no JSON, or not 200, is refused", async () => {
    sends("/broken", "application/json", "{");
    await expect(fetcher().fetch(at("/broken"))).rejects.toThrow("could not be fetched");
    issuer.answers.set("/missing", (_request, response) => response.writeHead(404).end());
    await expect(fetcher().fetch(at("/missing"))).rejects.toThrow("answered 404");
  });

  test("has a time limit for everything together", async () => {
    issuer.answers.set("/slow", (_request, response) => {
      response.writeHead(200, { "content-type": "application/json" }).write("{");
    });
    await expect(fetcher({ timeoutMs: 100 }).fetch(at("/slow"))).rejects.toThrow("within 100 ms");
  });
});

describe("GHSA-whjr-3j94-gw3c: where a key set is fetched from", () => {
  test.each(["ftp://127.0.0.1/jwks", "file:///etc/passwd", "not a url", "https://user:secret@127.0.0.1/"])(
    "%s is refused",
    async (url) => {
      await expect(fetcher().fetch(url)).rejects.toThrow(/expected http|no URL|may not hold/);
    },
  );

  test("a private address is refused unless it is allowed, and no connection is made", async () => {
    const before = issuer.requests.length;
    for (const host of ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]"]) {
      const url = `https://${host}:${issuer.port}/jwks`;
      await expect(fetcher({ allowedNetworks: [] }).fetch(url)).rejects.toThrow("allowedNetworks");
    }
    expect(issuer.requests).toHaveLength(before);
  });

  test("the address that a name resolves to counts, and is the one that is connected to (DNS rebinding)", async () => {
    const asked: string[] = [];
    const answers = [
      [{ address: "127.0.0.1", family: 4 }],
      [{ address: "169.254.169.254", family: 4 }],
      [
        { address: "10.0.0.1", family: 4 },
        { address: "::ffff:169.254.169.254", family: 6 },
      ],
    ];
    const rebinding = fetcher({
      resolve: (hostname, done) => {
        asked.push(hostname);
        done(null, answers[asked.length - 1] ?? []);
      },
    });
    const url = `https://localhost:${issuer.port}/jwks`;
    // Looked up once: there is no second answer between the check and the connection.
    expect(await rebinding.fetch(url)).toMatchObject({ keys: [{ kid: "k1" }] });
    expect(asked).toEqual(["localhost"]);
    await expect(rebinding.fetch(url)).rejects.toThrow("169.254.169.254 is never fetched from");
    await expect(rebinding.fetch(url)).rejects.toThrow("10.0.0.1 is a private address");
    await expect(rebinding.fetch(url)).rejects.toThrow("the name has no address");
  });

  test("five redirects are followed, a sixth is not", async () => {
    for (const n of [1, 2, 3, 4, 5]) redirectTo(`/hop${n}`, `/hop${n + 1}`, [301, 302, 303, 307, 308][n - 1]);
    sends("/hop6", "application/json", '{"keys":[]}');
    expect(await fetcher().fetch(at("/hop1"))).toEqual({ keys: [] });
    redirectTo("/hop0", "/hop1");
    await expect(fetcher().fetch(at("/hop0"))).rejects.toThrow("more than 5 redirects");
  });

  test.each([
    ["http://169.254.169.254/latest/meta-data", "redirects from https to http"],
    ["https://169.254.169.254/", "never fetched from"],
    ["https://10.0.0.1/", "allowedNetworks"],
    ["file:///etc/passwd", "expected http"],
  ])("a redirect to %s is judged like the first address", async (location, reason) => {
    redirectTo("/away", location);
    await expect(fetcher().fetch(at("/away"))).rejects.toThrow(reason);
  });
});
