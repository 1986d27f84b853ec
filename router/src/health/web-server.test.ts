import { once } from "node:events";
import { connect as connectHttp2 } from "node:http2";
import { request } from "node:https";
import { PassThrough } from "node:stream";
import { connect as connectTls, TLSSocket } from "node:tls";
import { type Identity, silentLogger, TlsPort } from "@sallyport/wire";
import { TestAuthority } from "@sallyport/wire/testing";
import { afterEach, beforeAll, beforeEach, expect, it } from "vitest";
import { type WebApi, WebServer } from "./web-server.ts";

let authority: TestAuthority;
let identity: Identity;
let port: TlsPort;
let server: WebServer;

const health: WebApi = {
  binding: "health-checks",
  answer: (url) => ({ status: 503, contentType: "application/json", body: `health ${url.search}` }),
};
const metrics: WebApi = {
  binding: "metrics",
  answer: () => ({ status: 200, contentType: "text/plain", body: "m 1\n" }),
};

function webServer(o: { readTimeoutMs?: number; idleTimeoutMs?: number; apis?: WebApi[] } = {}): WebServer {
  return new WebServer({
    name: "test",
    apis: o.apis ?? [health, metrics],
    readTimeoutMs: o.readTimeoutMs ?? 5_000,
    writeTimeoutMs: 5_000,
    idleTimeoutMs: o.idleTimeoutMs ?? 5_000,
    log: silentLogger,
  });
}

beforeAll(async () => {
  authority = await TestAuthority.create();
  identity = await authority.identity("r1");
});

beforeEach(async () => {
  port = await TlsPort.listen({ host: "127.0.0.1", port: 0, identity, log: silentLogger });
  server = webServer();
});

afterEach(async () => {
  server.close();
  await port.close();
});

async function get(path: string, method = "GET"): Promise<{ status: number; headers: object; body: string }> {
  const options = {
    host: "127.0.0.1",
    port: port.port,
    path,
    method,
    ALPNProtocols: ["http/1.1"],
    ca: authority.certPem,
    servername: "localhost",
  };
  const sent = request(options);
  sent.end();
  const [response] = await once(sent, "response");
  let body = "";
  for await (const chunk of response) body += String(chunk);
  return { status: response.statusCode, headers: response.headers, body };
}

it("answers every path and every method with its first API, and the others below their names", async () => {
  server.serve({ port, user: "web", newAddress: "new.example:443" });
  for (const path of ["/health-checks", "/health-checks/any?type=short", "/", "/elsewhere"]) {
    const answer = await get(path);
    expect(answer.status).toBe(503);
    expect(answer.body).toBe(`health ${path.includes("?") ? "?type=short" : ""}`);
    expect(answer.headers).toMatchObject({
      "content-type": "application/json",
      "ziti-ctrl-address": "https://new.example:443",
    });
  }
  expect(await get("/metrics")).toMatchObject({ status: 200, body: "m 1\n" });
  expect(await get("/metricsmore")).toMatchObject({ status: 503 });
  expect(await get("/", "DELETE")).toMatchObject({ status: 503, body: "health " });
  expect(await get("/", "HEAD")).toMatchObject({ status: 503, body: "" });
});

it("refuses what is no path without a word in the log", async () => {
  const lines: unknown[] = [];
  const log = { ...silentLogger, error: (...line: unknown[]) => lines.push(line) } as typeof silentLogger;
  server = new WebServer({
    ...{ name: "test", apis: [health], readTimeoutMs: 5_000, writeTimeoutMs: 5_000, idleTimeoutMs: 5_000, log },
  });
  server.serve({ port, user: "web" });
  expect(await get("//")).toMatchObject({ status: 400, body: "" });
  expect(await get("/health-checks")).toMatchObject({ status: 503 });
  expect(lines).toEqual([]);
});

it("answers those who ask although others hold connections without end: half of all are of one address", async () => {
  const lines: unknown[] = [];
  const log = { ...silentLogger, warn: (...line: unknown[]) => lines.push(line) } as typeof silentLogger;
  server = new WebServer({
    ...{ name: "test", apis: [health], readTimeoutMs: 60_000, writeTimeoutMs: 60_000, idleTimeoutMs: 60_000, log },
  });
  const holders: TLSSocket[] = [];
  const taken: TLSSocket[] = [];
  server.serve({
    user: "web",
    port: {
      port: 0,
      register: ({ onSocket }: { onSocket: (socket: TLSSocket) => void }) => {
        for (let i = 0; i < 300; i++) {
          const socket = new TLSSocket(new PassThrough());
          holders.push(socket);
          onSocket(socket);
          if (!socket.destroyed) taken.push(socket);
        }
        return () => {};
      },
    } as unknown as TlsPort,
  });
  expect([taken.length, holders.filter((socket) => socket.destroyed).length, lines.length]).toEqual([300, 172, 1]);
  expect(holders.findIndex((socket) => !socket.destroyed)).toBe(172);
});

it("speaks HTTP/2 with those who offer it", async () => {
  server.serve({ port, user: "web" });
  const session = connectHttp2(`https://127.0.0.1:${port.port}`, { ca: authority.certPem, servername: "localhost" });
  const stream = session.request({ ":path": "/metrics" });
  const [headers] = await once(stream, "response");
  expect(headers[":status"]).toBe(200);
  let body = "";
  for await (const chunk of stream) body += String(chunk);
  expect(body).toBe("m 1\n");
  expect(session.alpnProtocol).toBe("h2");
  session.close();
});

it("shares a port with links, and with SDKs that own the clients without ALPN", async () => {
  const taken: string[] = [];
  const takenBy = (name: string) => (socket: TLSSocket) => {
    taken.push(name);
    socket.end();
  };
  port.register({
    name: "link",
    protocols: ["ziti-link"],
    acceptsNoAlpn: false,
    onSocket: takenBy("link"),
  });
  port.register({
    name: "edge",
    protocols: ["ziti-edge"],
    acceptsNoAlpn: true,
    onSocket: takenBy("edge"),
  });
  server.serve({ port, user: "web" });
  expect((await get("/")).status).toBe(503);
  for (const ALPNProtocols of [["ziti-link"], [], ["ziti-edge"]]) {
    const socket = connectTls({
      host: "127.0.0.1",
      port: port.port,
      ca: authority.certPem,
      servername: "localhost",
      ALPNProtocols,
    });
    socket.resume();
    await once(socket, "close");
  }
  expect(taken).toEqual(["link", "edge", "edge"]);
  // A second web server on the port is refused.
  expect(() => webServer().serve({ port, user: "other" })).toThrow(/both want h2/);
});

it("uses its own identity and its TLS versions, with a server name and without", async () => {
  const other = await authority.identity("web-only");
  port.register({ name: "link", protocols: ["ziti-link"], acceptsNoAlpn: false, onSocket: (s) => s.end() });
  port.setUserIdentity("web", other, { minVersion: "TLSv1.3", maxVersion: "TLSv1.3" });
  server.serve({ port, user: "web" });
  const nameOf = async (o: object): Promise<string> => {
    const socket = connectTls({
      host: "127.0.0.1",
      port: port.port,
      ca: authority.certPem,
      checkServerIdentity: () => undefined,
      ...o,
    });
    await once(socket, "secureConnect");
    const { CN } = socket.getPeerCertificate().subject;
    const { alpnProtocol } = socket;
    socket.destroy();
    return `${String(CN)} ${String(alpnProtocol)} ${socket.getProtocol() ?? "closed"}`;
  };
  expect(await nameOf({ ALPNProtocols: ["http/1.1"] })).toMatch(/^web-only http\/1.1/);
  expect(await nameOf({ ALPNProtocols: ["ziti-link"], servername: "localhost" })).toMatch(/^r1 ziti-link/);
  for (const more of [{}, { servername: "localhost" }]) {
    await expect(nameOf({ ALPNProtocols: ["http/1.1"], maxVersion: "TLSv1.2", ...more })).rejects.toThrow();
  }
});

it.each(["http/1.1", "h2"])("ends clients that send no request, and those that are idle (%s)", async (protocol) => {
  server = webServer({ readTimeoutMs: 500, idleTimeoutMs: 500 });
  server.serve({ port, user: "web" });
  const silent = connectTls({
    ...{ host: "127.0.0.1", port: port.port, ca: authority.certPem, servername: "localhost" },
    ALPNProtocols: [protocol],
  });
  silent.resume();
  await once(silent, "close");
  if (protocol === "h2") {
    const session = connectHttp2(`https://127.0.0.1:${port.port}`, { ca: authority.certPem, servername: "localhost" });
    // The end may come as a reset.
    session.on("error", () => {});
    const closed = new Promise<void>((resolve) => session.on("close", resolve));
    const stream = session.request({ ":path": "/" }).resume();
    await once(stream, "response");
    await closed;
  } else {
    const idle = connectTls({ host: "127.0.0.1", port: port.port, ca: authority.certPem, servername: "localhost" });
    let answer = "";
    idle.on("data", (chunk) => (answer += String(chunk)));
    idle.write("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
    await once(idle, "close");
    expect(answer).toMatch(/^HTTP\/1.1 503 /);
  }
});
