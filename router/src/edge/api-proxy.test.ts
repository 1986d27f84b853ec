import type { IncomingMessage } from "node:http";
import { createServer, request, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import { connect, type TLSSocket } from "node:tls";
import { HandshakeTurns, type Identity, silentLogger } from "@sallyport/wire";
import { TestAuthority } from "@sallyport/wire/testing";
import { costlyChain } from "@sallyport/wire/testing/costly-handshake";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ApiProxy } from "./api-proxy.ts";

let authority: TestAuthority;
let upstream: Server;
let proxy: ApiProxy;
let router: Identity;
let turns: HandshakeTurns;
let seen: { url: string; headers: IncomingMessage["headersDistinct"]; body: string; by: string | undefined }[];

beforeEach(async () => {
  authority = await TestAuthority.create();
  router = await authority.identity("router1");
  seen = [];
  const controller = await authority.identity("ctrl1");
  upstream = createServer(
    { cert: controller.certPem, key: controller.keyPem, ca: authority.certPem, requestCert: true },
    async (incoming, outgoing) => {
      let body = "";
      for await (const chunk of incoming as AsyncIterable<Buffer>) body += chunk.toString();
      const by = (incoming.socket as TLSSocket).getPeerX509Certificate()?.subject;
      seen.push({ url: incoming.url ?? "", headers: incoming.headersDistinct, body, by });
      outgoing.writeHead(201, { "x-of": "controller" }).end(body.toUpperCase());
    },
  );
  await new Promise<void>((resolve) => upstream.listen(0, "127.0.0.1", resolve));
  const { port } = upstream.address() as AddressInfo;
  turns = new HandshakeTurns();
  proxy = await ApiProxy.listen({
    listener: { host: "127.0.0.1", port: 0 },
    upstream: { host: "localhost", port },
    identity: router,
    turns,
    log: silentLogger,
  });
});

afterEach(async () => {
  await proxy.close();
  upstream.closeAllConnections();
  await new Promise((resolve) => upstream.close(resolve));
});

function ask(
  client: Pick<Identity, "certPem" | "keyPem"> | undefined,
  headers: Record<string, string> = {},
  body = "hello",
) {
  return new Promise<{ status: number | undefined; body: string; of: unknown }>((resolve, reject) => {
    const asked = request(
      {
        host: "localhost",
        port: proxy.port,
        method: "POST",
        path: "/edge/client/v1/authenticate?method=cert",
        headers,
        ca: authority.certPem,
        agent: false,
        ...(client === undefined ? {} : { cert: client.certPem, key: client.keyPem }),
      },
      (answer) => {
        let text = "";
        answer.on("data", (chunk) => (text += String(chunk)));
        answer.on("end", () => resolve({ status: answer.statusCode, body: text, of: answer.headers["x-of"] }));
      },
    );
    asked.on("error", reject);
    asked.end(body);
  });
}

describe("the API proxy", () => {
  it("refuses an address whose handshake was costly", async () => {
    await ask(costlyChain()).catch(() => {});
    await expect.poll(() => turns.shutFor("127.0.0.1")).toBeGreaterThan(0);
    await expect(ask(await authority.identity("client"))).rejects.toThrow();
  });

  it("passes requests on as the router, and says who the client is", async () => {
    const client = await authority.identity("client1");
    const body = "b".repeat(500_000);
    const forged = { "x-client-certpem": "forged", "x-edge-router-proxy-request": "2000-01-01T00:00:00.000Z" };
    expect(await ask(client, { "x-mine": "1", ...forged }, body)).toEqual({
      status: 201,
      body: body.toUpperCase(),
      of: "controller",
    });
    const [one] = seen;
    expect(one).toMatchObject({ url: "/edge/client/v1/authenticate?method=cert", by: "CN=router1" });
    expect(one?.headers["x-client-certpem"]?.[0]).toBe(client.leaf.raw.toString("base64"));
    // The one time, in this form, is what the controller believes the certificates for.
    expect(one?.headers["x-edge-router-proxy-request"]).toEqual([
      expect.stringMatching(/^2\d{3}(?!-01-01T00:00:00)-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
    ]);
    expect([one?.headers["x-mine"], one?.headers["x-forwarded-for"]]).toEqual([["1"], ["127.0.0.1"]]);
  });

  it("removes certificates that a client without one claims to have, and what is only for one connection", async () => {
    await ask(undefined, { "x-client-certpem": "forged", connection: "close, x-secret", "x-secret": "1" });
    expect(Object.keys(seen[0]?.headers ?? {})).not.toEqual(expect.arrayContaining(["x-client-certpem"]));
    expect(seen[0]?.headers["x-secret"]).toBeUndefined();
  });

  it.each([
    ["GET in chunks", "GET", "Transfer-Encoding: chunked\r\n"],
    ["DELETE in chunks", "DELETE", "Transfer-Encoding: chunked\r\n"],
    ["GET that hides its length", "GET", "Connection: content-length\r\nContent-Length: LENGTH\r\n"],
    ["POST that hides its length", "POST", "Connection: content-length, host\r\nContent-Length: LENGTH\r\n"],
  ])("keeps a second request in the body of a %s where it is", async (_, method, framing) => {
    const hidden = "GET /hidden HTTP/1.1\r\nHost: localhost\r\nX-Client-CertPem: forged\r\n\r\n";
    const length = Buffer.byteLength(hidden);
    const body = framing.startsWith("Transfer") ? `${length.toString(16)}\r\n${hidden}\r\n0\r\n\r\n` : hidden;
    const socket = connect({ host: "localhost", port: proxy.port, servername: "localhost", ca: authority.certPem });
    socket.on("error", () => {});
    socket.write(
      `${method} /edge HTTP/1.1\r\nHost: localhost\r\n${framing.replace("LENGTH", String(length))}\r\n${body}`,
    );
    await new Promise((resolve) => socket.once("data", resolve));
    // A request after it on the same connection to the controller: what was hidden would have come before.
    await ask(undefined);
    socket.destroy();
    expect(seen.map(({ url }) => url)).toEqual(["/edge", "/edge/client/v1/authenticate?method=cert"]);
    expect(seen[0]?.body).toBe(hidden);
  });

  it("passes nothing on to another component that answers in the controller's place", async () => {
    const uri = ["spiffe://net/identity/i/apiSession/s"];
    const other = await authority.identity("ctrl1", { uri });
    upstream.setSecureContext({ cert: other.certPem, key: other.keyPem, ca: authority.certPem });
    expect(await ask(undefined)).toMatchObject({ status: 502 });
    expect(seen).toEqual([]);
  });

  it("says that the controller cannot be reached, and serves with a renewed identity", async () => {
    proxy.setIdentity(await authority.identity("router2"));
    await ask(undefined);
    expect(seen[0]?.by).toBe("CN=router2");
    upstream.closeAllConnections();
    await new Promise((resolve) => upstream.close(resolve));
    expect(await ask(undefined)).toMatchObject({ status: 502, body: expect.stringContaining("BAD_GATEWAY") });
  });
});
