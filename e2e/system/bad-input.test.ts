import { createPrivateKey, randomBytes, randomUUID, sign } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Context, enroll } from "@sallyport/sdk";
import { createCsr, createKeyPair, EdgeHeader, encodeMessage, Headers, LinkHello } from "@sallyport/wire";
import { TestAuthority } from "@sallyport/wire/testing";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { exchange } from "../network/bytes.ts";
import { eventually } from "../network/eventually.ts";
import { declareService, type Network, routerFile, startNetwork } from "../network/network.ts";
import type { Program } from "../network/program.ts";
import {
  type HandshakeRefused,
  type RawAnswer,
  RawPeer,
  type RawPeerOptions,
  rawRequest,
  type Stranger,
} from "../network/raw-peer.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";

const MIB = 1024 * 1024;
const UNKNOWN_VERSION = "0306090a020000000100000002000000";
const folder = makeScratch("bad-input");
let network: Network;
let host: Context;
let client: Context;
let stranger: { cert: string; key: string };
/** Certificate and key of an identity of the network, and the id of a router that it is not. */
let known: { cert: string; key: string };
let routerId: string;
let linkedRouterId: string;
let routerPort: number;
/** Everything that no log may hold. */
const secrets = new Map<string, string>();

const keep = (what: string, secret: string): string => {
  secrets.set(what, secret);
  return secret;
};

const pem = (text: string): string => text.replace(/^pem:/, "");

beforeAll(async () => {
  network = await startNetwork(folder, { logLevel: "debug" });
  const declared = await declareService(network, { name: "echo" });
  host = await Context.load(declared.hostFile);
  const server = await host.listen("echo", { allowHalfOpen: true });
  server.on("connection", (connection) => void connection.on("error", () => {}).pipe(connection));
  client = await Context.load(declared.clientFile);
  const authority = await TestAuthority.create("Stranger");
  const issued = await authority.issue({ commonName: "stranger" });
  stranger = { cert: issued.certPem, key: keep("the stranger's key", issued.keyPem) };
  for (const [side, file] of Object.entries({ host: declared.hostFile, client: declared.clientFile })) {
    const { id } = JSON.parse(readFileSync(file, "utf8")) as { id: { cert: string; key: string } };
    known = { cert: pem(id.cert), key: keep(`the key of the ${side}`, pem(id.key)) };
  }
  const { data } = await network.management.listEdgeRouters({ query: { filter: "true sort by name" } });
  [routerId, linkedRouterId] = [data[0]!.id, data[1]!.id];
  routerPort = Number(/:(\d+)$/.exec(data[0]!.supportedProtocols!.tls!)?.[1]);
}, 120_000);

afterAll(async () => {
  await client?.close();
  await host?.close();
  await network?.stop();
  removeScratch(folder);
});

// Whatever came before: the network carries bytes.
afterEach(async () => {
  await exchange(await client.dial("echo", { allowHalfOpen: true }), 1, 64 * 1024);
});

interface Target {
  readonly name: string;
  readonly alpn?: string;
  readonly port: () => number;
  readonly program: () => Program;
}

const ctrl: Target = {
  name: "the control channel",
  alpn: "ziti-ctrl",
  port: () => network.port,
  program: () => network.controller,
};
const link: Target = {
  name: "the link listener",
  alpn: "ziti-link",
  port: () => routerPort,
  program: () => network.routers[0],
};
const edge: Target = {
  name: "the edge listener",
  alpn: "ziti-edge",
  port: () => routerPort,
  program: () => network.routers[0],
};
const edgeWithoutAlpn: Target = {
  name: "the edge listener, no ALPN",
  port: () => routerPort,
  program: () => network.routers[0],
};
const everywhere = [ctrl, link, edge, edgeWithoutAlpn];

const connect = (target: Target, o: RawPeerOptions = known): Promise<RawPeer> =>
  RawPeer.connect(target.port(), { ...o, ...(target.alpn === undefined ? {} : { alpn: target.alpn }) });

/** The lines that a program logged about a peer: exactly one is wanted, and it is given back. */
async function loggedOnce(target: Target, { address, since }: Stranger): Promise<string> {
  const about = (): string[] =>
    target
      .program()
      .tail.filter((line) => line.includes(`"${address}"`))
      .filter((line) => new Date((JSON.parse(line) as { time: string | number }).time).getTime() >= since);
  await eventually(`a line about ${address} in the log of ${target.name}`, () => about().length > 0);
  // What would be said a second time is said at once.
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(about()).toEqual([expect.any(String)]);
  return about()[0]!;
}

const helloOf = (idToken: string, headers = new Headers()): Buffer =>
  encodeMessage({ contentType: 0, headers, body: Buffer.from(idToken) }, -1);

function prefix(headersLength: number, bodyLength: number, contentType = 0): Buffer {
  const bytes = Buffer.alloc(20);
  bytes.write("0306090c", "hex");
  bytes.writeInt32LE(contentType, 4);
  bytes.writeInt32LE(-1, 8);
  bytes.writeUInt32LE(headersLength, 12);
  bytes.writeUInt32LE(bodyLength, 16);
  return bytes;
}

const residentBytes = (program: Program): number =>
  Number(readFileSync(`/proc/${program.pid}/statm`, "utf8").split(" ")[1]) * 4096;

describe.each(everywhere)("$name", (target) => {
  it("closes a connection without a client certificate, without a word", async () => {
    const peer = await connect(target, {});
    peer.write(helloOf("anybody"));
    expect((await peer.closed).length).toBe(0);
    expect(await loggedOnce(target, peer)).toContain("NO_CLIENT_CERTIFICATE");
  });

  it("answers another version with the versions it could speak, in 16 bytes", async () => {
    const peer = await connect(target);
    peer.write(Buffer.concat([Buffer.from("0306090d", "hex"), randomBytes(40)]));
    expect((await peer.closed).toString("hex")).toBe(UNKNOWN_VERSION);
    expect(await loggedOnce(target, peer)).toContain("BAD_MAGIC");
  });

  it("does the same with HTTP that lost its way", async () => {
    const peer = await connect(target);
    peer.write("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    expect((await peer.closed).toString("hex")).toBe(UNKNOWN_VERSION);
    await loggedOnce(target, peer);
  });

  it.each([
    ["headers over the limit of a hello", prefix(16_385, 5), "FRAME_TOO_LARGE"],
    ["a body over the limit of a hello", prefix(0, 4_193), "FRAME_TOO_LARGE"],
    ["lengths of 4 GiB", prefix(0xffff_ffff, 0xffff_ffff), "FRAME_TOO_LARGE"],
    [
      "a header longer than its block",
      Buffer.concat([prefix(12, 0), Buffer.from("ea030000ff0000007f7f7f7f", "hex")]),
      "BAD_HEADERS",
    ],
    ["another message than a hello", encodeMessage({ contentType: 2 }, 1), "NOT_A_HELLO"],
  ])("closes at once: %s", async (_, bytes, code) => {
    const peer = await connect(target);
    peer.write(bytes);
    expect((await peer.closed).length).toBe(0);
    expect(await loggedOnce(target, peer)).toContain(code);
  });

  it("closes when a hello ends before its end", async () => {
    const peer = await connect(target);
    peer.write(helloOf("somebody").subarray(0, 23)).end();
    expect((await peer.closed).length).toBe(0);
    expect(await loggedOnce(target, peer)).toContain("CLOSED_BY_PEER");
  });

  it("holds bytes that come, not those that are announced", async () => {
    const before = residentBytes(target.program());
    const peers = await Promise.all(Array.from({ length: 40 }, () => connect(target)));
    for (const peer of peers) peer.write(prefix(16_384, 4_192)).write(Buffer.alloc(64));
    await Promise.all(peers.map((peer) => peer.destroy() ?? peer.closed));
    expect(residentBytes(target.program()) - before).toBeLessThan(64 * MIB);
  });
});

describe("a hello of somebody else", () => {
  it("on the control channel: a stranger's certificate for a router's id", async () => {
    const peer = await connect(ctrl, stranger);
    peer.write(helloOf(routerId));
    expect((await peer.closed).length).toBe(0);
    expect(await loggedOnce(ctrl, peer)).toContain("untrusted-certificate");
  });

  it("on the control channel: an identity's certificate for a router's id, and a router that nobody made", async () => {
    const peer = await connect(ctrl);
    peer.write(helloOf(routerId));
    expect((await peer.closed).length).toBe(0);
    expect(await loggedOnce(ctrl, peer)).toContain("fingerprint-mismatch");
    const other = await connect(ctrl);
    other.write(helloOf("no-such-router"));
    expect((await other.closed).length).toBe(0);
    expect(await loggedOnce(ctrl, other)).toContain("unknown-router");
  });

  it.each([
    ["a stranger's certificate", () => stranger, "another-router"],
    ["an identity's certificate", () => known, "another-router"],
    ["an identity's certificate for a router that exists", () => known, () => linkedRouterId],
  ])("on the link listener: %s", async (_, certificate, claimed) => {
    const peer = await connect(link, certificate());
    const id = typeof claimed === "string" ? claimed : claimed();
    const headers = new Headers().setString(LinkHello.RouterId, id).setString(LinkHello.RouterVersion, "v1.6.20");
    peer.write(helloOf("linkid", headers));
    expect((await peer.closed).length).toBe(0);
    await loggedOnce(link, peer);
  });

  it("on the edge: no token, and a token that nobody was given", async () => {
    const peer = await connect(edge);
    peer.write(helloOf("someone"));
    await peer.closed;
    expect(await loggedOnce(edge, peer)).toContain("SDK not admitted");
    const other = await connect(edge);
    const token = keep("a token nobody was given", randomUUID());
    other.write(helloOf("someone", new Headers().setString(EdgeHeader.SessionToken, token)));
    await other.closed;
    expect(await loggedOnce(edge, other)).toContain("SDK not admitted");
  });

  it("on the edge: a good token with somebody else's certificate", async () => {
    const { data } = await network.management.listAPISessions({ query: { limit: 100 } });
    const token = data.map((session) => session.token).find((candidate) => candidate.length > 0)!;
    const peer = await connect(edge, stranger);
    peer.write(helloOf("someone", new Headers().setString(EdgeHeader.SessionToken, token)));
    await peer.closed;
    expect(await loggedOnce(edge, peer)).toContain("SDK not admitted");
  });
});

describe("an SDK that was admitted", () => {
  it("is closed when it sends frames that are none, alone", async () => {
    const answer = await post("client", "/authenticate?method=cert", "{}", known);
    const token = keep("an SDK's session", (JSON.parse(answer.body) as { data: { token: string } }).data.token);
    const hello = helloOf("someone", new Headers().setString(EdgeHeader.SessionToken, token));
    for (const bytes of [prefix(0, 0xffff_ffff, 60_783), prefix(3, 0, 60_783), randomBytes(64)]) {
      const peer = await connect(edge);
      peer.write(hello);
      await eventually("it is admitted", () => peer.received.length > 0);
      const before = residentBytes(edge.program());
      peer.write(bytes).write(Buffer.alloc(100));
      await peer.closed;
      expect(residentBytes(edge.program()) - before).toBeLessThan(64 * MIB);
    }
  });

  it("costs what it sent, not what it announced, and unknown requests are answered or dropped", async () => {
    const answer = await post("client", "/authenticate?method=cert", "{}", known);
    const token = keep("an SDK's other session", (JSON.parse(answer.body) as { data: { token: string } }).data.token);
    const hello = helloOf("someone", new Headers().setString(EdgeHeader.SessionToken, token));
    const peers = await Promise.all(Array.from({ length: 20 }, () => connect(edge)));
    for (const peer of peers) peer.write(hello);
    await eventually("all are admitted", () => peers.every((peer) => peer.received.length > 0));
    const before = residentBytes(edge.program());
    for (const peer of peers) {
      peer.write(encodeMessage({ contentType: 4711, body: Buffer.from("?") }, 1));
      peer.write(encodeMessage({ contentType: 60_783, body: Buffer.from("no connection id") }, 2));
      peer.write(prefix(60_000, 15 * MIB, 60_786)).write(Buffer.alloc(1_000));
    }
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect(residentBytes(edge.program()) - before).toBeLessThan(64 * MIB);
    expect(peers.filter((peer) => peer.socket.destroyed)).toEqual([]);
    for (const peer of peers) peer.destroy();
  });
});

describe("connections that never become one", () => {
  it("an ALPN name that nobody has", async () => {
    for (const target of [ctrl, edge]) {
      const failed = await RawPeer.connect(target.port(), { ...known, alpn: "no-such-protocol" }).then(
        () => expect.fail("the handshake was done"),
        (error: HandshakeRefused) => error,
      );
      expect(await loggedOnce(target, failed)).toContain("TLS handshake failed");
    }
  });

  it("no TLS at all", async () => {
    for (const target of [ctrl, edge]) {
      const peer = await RawPeer.connect(target.port(), { isPlain: true });
      peer.write("GET / HTTP/1.0\r\n\r\n");
      await peer.closed;
      expect(await loggedOnce(target, peer)).toContain("TLS handshake failed");
    }
  });

  it("those that take their time: no handshake, no hello, a hello by the drop, a request by the drop", async () => {
    const slow = async (peer: RawPeer, bytes?: Buffer): Promise<RawPeer> => {
      let at = 0;
      const timer = setInterval(() => {
        if (bytes !== undefined && at < bytes.length && peer.socket.writable) peer.write(bytes.subarray(at, ++at));
      }, 500);
      await peer.closed;
      clearInterval(timer);
      return peer;
    };
    const hello = helloOf("somebody-slow");
    const channels = [ctrl, edge].flatMap((target) => [
      (async () => ({ target, peer: await slow(await RawPeer.connect(target.port(), { isPlain: true })) }))(),
      (async () => ({ target, peer: await slow(await connect(target)) }))(),
      (async () => ({ target, peer: await slow(await connect(target), hello) }))(),
    ]);
    const requests = [
      slow(await RawPeer.connect(network.port, {}), Buffer.from("GET /version HTTP/1.1\r\nHost: a\r\n\r\n")),
    ];
    for (const { target, peer } of await Promise.all(channels)) {
      expect(peer.received.length).toBe(0);
      await loggedOnce(target, peer);
    }
    for (const peer of await Promise.all(requests)) await loggedOnce(ctrl, peer);
  }, 40_000);
});

// The APIs ------------------------------------------------------------------------------------------------------------

const requestText = (
  method: string,
  path: string,
  headers: Record<string, string>,
  body: string | Buffer = "",
): Buffer =>
  Buffer.concat([
    Buffer.from(
      [
        `${method} ${path} HTTP/1.1`,
        "Host: localhost",
        "Connection: close",
        ...Object.entries({ ...headers, "Content-Length": String(Buffer.byteLength(body)) }).map((h) => h.join(": ")),
        "\r\n",
      ].join("\r\n"),
    ),
    Buffer.from(body),
  ]);

const post = (
  api: "client" | "management",
  path: string,
  body: string | Buffer,
  o: RawPeerOptions & { headers?: Record<string, string> } = {},
): Promise<RawAnswer> => {
  const { headers = {}, ...peer } = o;
  const type = { "Content-Type": "application/json", ...headers };
  return rawRequest(network.port, requestText("POST", `/edge/${api}/v1${path}`, type, body), peer);
};

const valuesOf = (answer: RawAnswer, name: string): string[] =>
  answer.headers.filter(([each]) => each.toLowerCase() === name).map(([, value]) => value);

const errorOf = (answer: RawAnswer) =>
  (JSON.parse(answer.body) as { error: { code: string; cause?: Record<string, string> } }).error;

describe("the APIs", () => {
  let session: Record<string, string>;

  beforeAll(async () => {
    const password = keep("the administrator's password", network.adminPassword);
    const login = await post(
      "management",
      "/authenticate?method=password",
      JSON.stringify({ username: "admin", password }),
    );
    expect(login.status).toBe(200);
    const { token } = (JSON.parse(login.body) as { data: { token: string } }).data;
    session = { "zt-session": keep("the administrator's session", token) };
  });

  it("refuse bodies over 1 MiB, announced or not, with the bare error, once in the log", async () => {
    const announced = await rawRequest(
      network.port,
      Buffer.from(
        `POST /edge/client/v1/authenticate?method=password HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: ${MIB + 1}\r\nConnection: close\r\n\r\n`,
      ),
    );
    expect(announced.status).toBe(413);
    expect(JSON.parse(announced.body)).toMatchObject({ code: "REQUEST_ENTITY_TOO_LARGE" });
    const peer = await RawPeer.connect(network.port);
    peer.write(
      "POST /edge/client/v1/authenticate?method=password HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n",
    );
    for (let sent = 0; sent < 2 * MIB; sent += 65_536) peer.write(`10000\r\n${"x".repeat(65_536)}\r\n`);
    peer.write("0\r\n\r\n");
    expect((await peer.closed).toString()).toMatch(/^HTTP\/1\.1 413 /);
    expect(await loggedOnce(ctrl, peer)).toContain("REQUEST_ENTITY_TOO_LARGE");
  });

  it("refuse what is no JSON, and keep it out of the log", async () => {
    const password = keep("a password in broken JSON", "s3cret-in-broken-json");
    const answer = await post(
      "client",
      "/authenticate?method=password",
      `{"username":"admin","password":"${password}"`,
    );
    expect(answer.status).toBe(400);
    expect(errorOf(answer)).toMatchObject({ code: "COULD_NOT_PARSE_BODY" });
    expect(answer.body).not.toContain(password);
    const depth = await post("management", "/identities", `${'{"tags":'.repeat(5_000)}1${"}".repeat(5_000)}`, {
      headers: session,
    });
    expect(depth.status).toBe(400);
  });

  it("say which field breaks the schema, and how", async () => {
    const missing = await post("management", "/identities", '{"type":"Device"}', { headers: session });
    expect(missing.status).toBe(400);
    expect(errorOf(missing)).toMatchObject({
      code: "COULD_NOT_VALIDATE",
      cause: { field: expect.any(String), reason: expect.stringMatching(/is required$/) },
    });
    const wrong = await post("management", "/identities", '{"name":7,"type":"Device","isAdmin":false}', {
      headers: session,
    });
    expect([wrong.status, errorOf(wrong).code]).toEqual([400, "COULD_NOT_PARSE_BODY"]);
    const value = await post("management", "/identities", '{"name":"x","type":"Martian","isAdmin":false}', {
      headers: session,
    });
    expect(errorOf(value)).toMatchObject({ code: "COULD_NOT_VALIDATE", cause: { field: "type", value: "Martian" } });
    const filter = await rawRequest(
      network.port,
      requestText("GET", "/edge/management/v1/identities?filter=a2%3D1", session),
    );
    expect([filter.status, errorOf(filter).code]).toEqual([400, "INVALID_FILTER"]);
  });

  it("ignore unknown fields and take explicit nulls for fields that need not be there", async () => {
    const body = {
      name: "with-nulls",
      type: "Device",
      isAdmin: false,
      roleAttributes: null,
      tags: null,
      externalId: null,
      appData: null,
      enrollment: { ott: true, updb: null, ottca: null },
      nobodyKnowsThis: { deep: [1, null] },
    };
    const answer = await post("management", "/identities", JSON.stringify(body), { headers: session });
    expect([answer.status, answer.body]).toEqual([201, expect.stringContaining('"_links"')]);
  });

  it("have the instance id and one exact content type on every answer, errors included", async () => {
    const get = (path: string, headers: Record<string, string> = {}) =>
      rawRequest(network.port, requestText("GET", path, headers));
    const answers = {
      200: await get("/version"),
      201: await post("management", "/services", '{"name":"made-here","encryptionRequired":true}', {
        headers: session,
      }),
      400: await post("client", "/authenticate?method=nonsense", "{}"),
      401: await get("/edge/management/v1/identities"),
      404: await get("/edge/management/v1/no-such-thing", session),
      405: await rawRequest(network.port, requestText("DELETE", "/edge/management/v1/version", session)),
      413: await post("client", "/authenticate?method=password", Buffer.alloc(MIB + 1, "x")),
      415: await post("management", "/services", "name: yaml", {
        headers: { ...session, "Content-Type": "text/yaml" },
      }),
    };
    const ids = new Set<string>();
    for (const [status, answer] of Object.entries(answers)) {
      expect([status, String(answer.status)]).toEqual([status, status]);
      expect([status, valuesOf(answer, "content-type")]).toEqual([status, ["application/json"]]);
      expect([status, valuesOf(answer, "ziti-instance-id")]).toEqual([status, [expect.stringMatching(/^\S+$/)]]);
      ids.add(valuesOf(answer, "ziti-instance-id")[0]!);
    }
    const broken = await rawRequest(network.port, "THIS IS NOT HTTP\r\n\r\n");
    expect(broken.status).toBe(400);
    ids.add(valuesOf(broken, "ziti-instance-id")[0]!);
    const headers = await rawRequest(network.port, `GET / HTTP/1.1\r\nHost: a\r\nX: ${"x".repeat(66_000)}\r\n\r\n`);
    expect(headers.status).toBe(431);
    ids.add(valuesOf(headers, "ziti-instance-id")[0]!);
    expect(ids.size).toBe(1);
  });

  it("refuse a wrong password with one line that names the peer and not the password", async () => {
    const password = keep("a wrong password", "not-the-password-at-all");
    const peer = await RawPeer.connect(network.port);
    const body = JSON.stringify({ username: "admin", password });
    peer.write(
      requestText("POST", "/edge/client/v1/authenticate?method=password", { "Content-Type": "application/json" }, body),
    );
    expect((await peer.closed).toString()).toMatch(/^HTTP\/1\.1 401 /);
    expect(await loggedOnce(ctrl, peer)).toContain("INVALID_AUTH");
  });
});

// Enrollment ----------------------------------------------------------------------------------------------------------

describe("enrollment tokens", () => {
  let count = 0;

  async function identity(enrollment: object = { enrollment: { ott: true } }): Promise<{ id: string; jwt: string }> {
    const { data } = await network.management.createIdentity({
      body: { name: `enrolling-${++count}`, type: "Device", isAdmin: false, ...enrollment },
    });
    const detail = await network.management.detailIdentity({ params: { id: data.id } });
    const { jwt = "", token = "" } = detail.data.enrollment.ott ?? {};
    if (jwt !== "") keep(`enrollment token ${count}`, jwt);
    if (token !== "") keep(`jti ${count}`, token);
    return { id: data.id, jwt };
  }

  const claimsOf = (jwt: string) =>
    JSON.parse(Buffer.from(jwt.split(".")[1]!, "base64url").toString()) as Record<string, string | number>;

  async function enrollRaw(jwt: string, contentType: string): Promise<RawAnswer> {
    const { sub, jti, em } = claimsOf(jwt);
    const { keyPem } = await createKeyPair();
    keep(`a key made for ${String(jti)}`, keyPem);
    const csr = await createCsr({ commonName: String(sub), subject: {}, keyPem });
    return await post("client", `/enroll?method=${em}&token=${jti}`, csr, {
      headers: { "Content-Type": contentType, Accept: "application/json" },
    });
  }

  it.each(["application/x-pem-file", "text/plain"])(
    "the answer to a request in %s has the exact headers that SDKs compare, and the second try none",
    async (contentType) => {
      const { jwt } = await identity();
      const answer = await enrollRaw(jwt, contentType);
      expect(answer.status).toBe(200);
      expect(valuesOf(answer, "content-type")).toEqual(["application/json"]);
      expect(JSON.parse(answer.body)).toMatchObject({ data: { cert: expect.stringContaining("BEGIN CERTIFICATE") } });
      const again = await enrollRaw(jwt, contentType);
      expect([again.status, errorOf(again).code]).toEqual([400, "INVALID_ENROLLMENT_TOKEN"]);
      expect(valuesOf(again, "content-type")).toEqual(["application/json"]);
    },
  );

  it("used a second time: refused, and the first identity stays", async () => {
    const { jwt } = await identity();
    const file = await enroll(jwt);
    keep("an enrolled key", pem(file.id.key));
    await expect(enroll(jwt)).rejects.toMatchObject({
      name: "EnrollmentError",
      code: "ENROLLMENT_REFUSED",
      message: expect.stringContaining("INVALID_ENROLLMENT_TOKEN"),
    });
    await (await Context.load(file)).close();
  });

  it("used by two at the same time: one wins", async () => {
    const { jwt } = await identity();
    const outcomes = await Promise.allSettled([enroll(jwt), enroll(jwt), enroll(jwt)]);
    expect(outcomes.map((outcome) => outcome.status).toSorted()).toEqual(["fulfilled", "rejected", "rejected"]);
    for (const outcome of outcomes)
      if (outcome.status === "fulfilled") keep("a winner's key", pem(outcome.value.id.key));
  });

  it("signed by somebody else, unsigned, or of nobody: refused before anything is sent, or by the controller", async () => {
    const { jwt } = await identity();
    const [header = "", claims = "", signature = ""] = jwt.split(".");
    const forged = sign("sha256", Buffer.from(`${header}.${claims}`), {
      key: createPrivateKey(stranger.key),
      dsaEncoding: "ieee-p1363",
    }).toString("base64url");
    await expect(enroll(`${header}.${claims}.${forged}`)).rejects.toMatchObject({ code: "TOKEN_FORGED" });
    const none = Buffer.from('{"alg":"none","typ":"JWT"}').toString("base64url");
    await expect(enroll(`${none}.${claims}.${signature}`)).rejects.toMatchObject({ code: "TOKEN_MALFORMED" });
    await expect(enroll(`${none}.${claims}.`)).rejects.toMatchObject({ code: "TOKEN_MALFORMED" });
    const foreign = await post("client", `/enroll?method=ott&token=${keep("a foreign jti", randomUUID())}`, "csr", {
      headers: { "Content-Type": "application/x-pem-file" },
    });
    expect([foreign.status, errorOf(foreign).code]).toEqual([400, "INVALID_ENROLLMENT_TOKEN"]);
    await (await Context.load(await enroll(jwt))).close();
  });

  it("of another kind, and with a request that is none: refused, and still good afterwards", async () => {
    const { jwt } = await identity();
    const { jti } = claimsOf(jwt);
    const method = await post("client", `/enroll?method=erott&token=${jti}`, '{"certCsr":"a","serverCertCsr":"b"}');
    expect([method.status, errorOf(method).code]).toEqual([400, "INVALID_ENROLL_METHOD"]);
    const csr = await post("client", `/enroll?method=ott&token=${jti}`, "-----BEGIN NONSENSE-----", {
      headers: { "Content-Type": "application/x-pem-file" },
    });
    expect([csr.status, errorOf(csr).code]).toEqual([400, "COULD_NOT_PROCESS_CSR"]);
    await (await Context.load(await enroll(jwt))).close();
  });

  it("that have expired: the SDK says so, and so does the controller", async () => {
    const { id } = await identity({});
    const expiresAt = new Date(Date.now() + 1_500);
    const { data } = await network.management.createEnrollment({
      body: { identityId: id, method: "ott", expiresAt: expiresAt.toISOString() },
    });
    const detail = await network.management.detailEnrollment({ params: { id: data.id } });
    const jwt = keep("an expired token", detail.data.jwt ?? "");
    keep("the jti of an expired token", String(claimsOf(jwt).jti));
    await eventually("its time is over", () => Date.now() > expiresAt.getTime() + 1_000);
    await expect(enroll(jwt)).rejects.toMatchObject({ code: "TOKEN_EXPIRED" });
    const answer = await enrollRaw(jwt, "text/plain");
    expect([answer.status, errorOf(answer).code]).toEqual([400, "ENROLLMENT_EXPIRED"]);
  });
});

// Configuration -------------------------------------------------------------------------------------------------------

describe("configuration that cannot be used", () => {
  it.each([
    ["api: {bind: nowhere\n", /bad\.yml:\d+:\d+: /],
    ["v: 1\napi:\n  bind: nowhere\n", /bad\.yml:3:9: api\.bind: expected .*, found /],
    ["v: 1\nlog:\n  level: loud\n", /bad\.yml:3:10: log\.level: expected one of .*, found "loud"/],
  ])("of the controller ends it with code 3 and names line and column: %j", async (text, pattern) => {
    const file = join(folder, "bad.yml");
    writeFileSync(file, text);
    const { code, output } = await network.runToEnd("controller", "run", file);
    expect(output).toMatch(pattern);
    expect(code).toBe(3);
  });

  it.each([
    ["run", "v: 3\nidentity: {cert: a\n", /bad-router\.yml:\d+:\d+ /],
    [
      "run",
      "v: 3\nedge:\n  heartbeatIntervalSeconds: soon\n",
      /bad-router\.yml:3:\d+ edge\.heartbeatIntervalSeconds: expected .*, found /,
    ],
    ["check", "v: 2\n", /bad-router\.yml:1:\d+ v: expected .*, found /],
    ["enroll", "v: 3\nctrl:\n  endpoint: nowhere\n", /bad-router\.yml:3:\d+ ctrl\.endpoint: expected .*, found /],
  ])("of the router ends `%s` with code 2 and names line and column: %j", async (command, text, pattern) => {
    const file = join(folder, "bad-router.yml");
    writeFileSync(file, text);
    const rest = command === "enroll" ? ["--jwt", join(folder, "r1.jwt")] : [];
    const { code, output } = await network.runToEnd("router", command, file, ...rest);
    expect(output).toMatch(pattern);
    expect(code).toBe(2);
  });

  it("ports that are taken end both programs with a message that names the port", async () => {
    const router = await network.runToEnd("router", "run", join(folder, "r1.yml"));
    expect(router.output).toContain("EADDRINUSE");
    expect(router.output).toContain(String(routerPort));
    expect(router.code).toBe(1);
    const dir = join(folder, "second");
    const made = await network.runToEnd(
      "controller",
      ...["init", "--dir", dir, "--host", "localhost", "--api-port", String(network.port)],
    );
    expect(made.code).toBe(0);
    const controller = await network.runToEnd("controller", "run", join(dir, "controller.yml"));
    expect(controller.output).toContain(`:${network.port} (api.bind in ${join(dir, "controller.yml")})`);
    expect(controller.output).toContain("another program listens there");
    expect(controller.code).toBe(1);
  }, 60_000);

  it("a router's token for another network ends `enroll` with what is wrong, and no certificate", async () => {
    const file = join(folder, "r9.yml");
    writeFileSync(file, routerFile({ folder, name: "r9", controllerPort: network.port, port: 1 }));
    const used = await network.runToEnd("router", "enroll", file, "--jwt", join(folder, "r1.jwt"));
    expect(used.code).toBe(1);
    expect(used.output).toContain("INVALID_ENROLLMENT_TOKEN");
    expect(readdirSync(folder)).not.toContain("r9.cert");
  });
});

describe("the logs", () => {
  it("of all programs hold no password, token or key, at the level debug", async () => {
    for (const name of readdirSync(folder)) {
      const text = name.endsWith(".key") || name.endsWith(".jwt") ? readFileSync(join(folder, name), "utf8") : "";
      if (text === "") continue;
      keep(name, text);
      if (name.endsWith(".jwt")) {
        const claims = Buffer.from(text.split(".")[1]!, "base64url").toString();
        keep(`jti of ${name}`, (JSON.parse(claims) as { jti: string }).jti);
      }
    }
    for (const dir of ["controller", "second"]) {
      keep(`secret key of ${dir}`, readFileSync(join(folder, dir, "secret.key"), "utf8"));
    }
    const sessions = await network.management.listAPISessions({ query: { limit: 500 } });
    for (const each of sessions.data) keep(`API session ${each.id}`, each.token);
    const dials = await network.management.listSessions({ query: { limit: 500 } });
    for (const each of dials.data) keep(`session ${each.id}`, each.token);
    expect(secrets.size).toBeGreaterThan(30);

    const logs = readdirSync(folder).filter((name) => name.endsWith(".log"));
    expect(logs).toEqual(expect.arrayContaining(["controller.log", "r1.log", "r2.log", "init.log", "command.log"]));
    const found: string[] = [];
    for (const log of logs) {
      const text = readFileSync(join(folder, log), "utf8");
      expect(text.length).toBeGreaterThan(0);
      for (const [what, secret] of secrets) {
        // Of a PEM block the first line of its content is enough; a log writes line ends in its own way.
        const needle = secret
          .trim()
          .split("\n")
          .find((line) => line.length >= 16 && !line.startsWith("-----"));
        if (needle === undefined) expect.fail(`${what} is too short to be looked for`);
        if (text.includes(needle)) found.push(`${what} in ${log}`);
      }
      expect(text).not.toMatch(/BEGIN (EC |RSA )?PRIVATE KEY/);
    }
    expect(found).toEqual([]);
  });
});
