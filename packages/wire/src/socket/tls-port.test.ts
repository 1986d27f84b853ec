import { once } from "node:events";
import { connect as connectTcp, createServer as createTcpServer } from "node:net";
import { type ConnectionOptions, connect, type TLSSocket } from "node:tls";
import { afterEach, beforeAll, describe, expect, test } from "vitest";
import { peerOf } from "../channel/peer.ts";
import { type Identity, identityFromPem, withServerCertificates } from "../identity/identity.ts";
import { TestAuthority } from "../testing/authority.ts";
import { RecordingLogger } from "../testing/recording-logger.ts";
import { TlsPort } from "./tls-port.ts";

let authority: TestAuthority;
let identity: Identity;
let client: Identity;
let port: TlsPort;

beforeAll(async () => {
  authority = await TestAuthority.create();
  identity = await authority.identity("rtr");
  client = await authority.identity("cli");
});
afterEach(() => port.close());

/** Users that say their name and end the connection. */
function greet(name: string, protocols: string[], acceptsNoAlpn: boolean): () => void {
  return port.register({ name, protocols, acceptsNoAlpn, onSocket: (socket) => void socket.end(name) });
}

function dial(options: ConnectionOptions = {}): TLSSocket {
  return connect({
    host: "127.0.0.1",
    port: port.port,
    ca: authority.certPem,
    cert: client.certPem,
    key: client.keyPem,
    ...options,
  });
}

/** What a client that offers `ALPNProtocols` is told, or how it failed. */
async function told(options: ConnectionOptions = {}): Promise<string> {
  const socket = dial(options);
  let text = "";
  socket.on("data", (chunk: Buffer) => {
    text += chunk.toString();
  });
  return new Promise((resolve) => {
    socket.once("error", (error) => resolve(`failed: ${error.message}`));
    socket.once("close", () => resolve(`${text} ${String(socket.alpnProtocol)}`));
  });
}

describe("a shared port", () => {
  test("gives each connection to the owner of its ALPN name", async () => {
    port = await TlsPort.listen({ host: "127.0.0.1", port: 0, identity });
    greet("ctrl", ["ziti-ctrl"], false);
    const remove = greet("web", ["h2", "http/1.1"], true);
    expect(await told({ ALPNProtocols: ["ziti-ctrl"] })).toBe("ctrl ziti-ctrl");
    expect(await told({ ALPNProtocols: ["ziti-ctrl", "http/1.1"] })).toBe("web http/1.1");
    expect(await told()).toBe("web false");
    expect(await told({ ALPNProtocols: ["ziti-edge"] })).toMatch(/^failed: .*no.application.protocol/i);
    remove();
    expect(await told()).toBe("ctrl false");
    expect(await told({ ALPNProtocols: ["h2"] })).toMatch(/^failed/);
  });

  test("closes clients that no user takes", async () => {
    const log = new RecordingLogger();
    port = await TlsPort.listen({ host: "127.0.0.1", port: 0, identity, log });
    greet("ctrl", ["ziti-ctrl"], false);
    greet("link", ["ziti-link"], false);
    expect(await told()).toMatch(/^( false|failed.*)$/);
    expect(log.entries.map((entry) => entry.msg)).toEqual(["no user of this port takes the client"]);
  });

  test("has one owner per name", async () => {
    port = await TlsPort.listen({ host: "127.0.0.1", port: 0, identity });
    greet("web", ["h2", "http/1.1"], true);
    expect(() => greet("web2", ["http/1.1"], false)).toThrow(/http\/1.1/);
    expect(() => greet("edge", ["ziti-edge"], true)).toThrow(/without ALPN/);
    expect(await told({ ALPNProtocols: ["h2"] })).toBe("web h2");
  });

  test("survives a user that throws", async () => {
    port = await TlsPort.listen({ host: "127.0.0.1", port: 0, identity });
    port.register({
      name: "broken",
      protocols: ["x"],
      acceptsNoAlpn: false,
      onSocket: () => {
        throw new Error("broken");
      },
    });
    greet("web", ["h2"], true);
    await told({ ALPNProtocols: ["x"] });
    expect(await told()).toBe("web false");
  });

  test("cannot listen where another process does", async () => {
    port = await TlsPort.listen({ host: "127.0.0.1", port: 0, identity });
    await expect(TlsPort.listen({ host: "127.0.0.1", port: port.port, identity })).rejects.toMatchObject({
      code: "EADDRINUSE",
    });
  });

  test("may be shared between listeners that all say so", async () => {
    port = await TlsPort.listen({ host: "127.0.0.1", port: 0, identity, reusePort: true });
    const second = await TlsPort.listen({ host: "127.0.0.1", port: port.port, identity, reusePort: true });
    expect(second.port).toBe(port.port);
    await second.close();
  });
});

describe("TLS", () => {
  test("asks for a client certificate and verifies none, and knows its chain", async () => {
    port = await TlsPort.listen({ host: "127.0.0.1", port: 0, identity });
    const foreign = await TestAuthority.create("Foreign");
    const intermediate = await TestAuthority.create("Foreign 2", foreign);
    const leaf = await intermediate.issue({ commonName: "unknown" });
    const seen: string[][] = [];
    port.register({
      name: "any",
      protocols: [],
      acceptsNoAlpn: true,
      onSocket: (socket) => {
        seen.push(peerOf(socket).certificates.map((certificate) => certificate.subject));
        socket.end("ok");
      },
    });
    expect(await told({ cert: leaf.certPem + intermediate.certPem, key: leaf.keyPem })).toBe("ok false");
    const plain = connect({ host: "127.0.0.1", port: port.port, ca: authority.certPem });
    plain.resume();
    await once(plain, "close");
    expect(seen).toEqual([["CN=unknown", "CN=Foreign 2"], []]);
  });

  test("shows the certificate that the client asks for by name", async () => {
    const { certPem, keyPem } = await authority.issue({ commonName: "rtr", dns: ["localhost"], ip: ["127.0.0.1"] });
    const other = await authority.issue({ commonName: "alt", dns: ["alt.example", "*.wild.example"] });
    const several = identityFromPem({
      certPem,
      keyPem,
      caPem: authority.certPem,
      altServerCerts: [{ certPem: other.certPem, keyPem: other.keyPem }],
    });
    port = await TlsPort.listen({ host: "127.0.0.1", port: 0, identity: several });
    greet("any", [], true);
    const shown = async (servername?: string): Promise<string> => {
      const socket = dial({ rejectUnauthorized: false, ...(servername === undefined ? {} : { servername }) });
      socket.resume();
      await once(socket, "secureConnect");
      const name = socket.getPeerCertificate().subject.CN;
      socket.destroy();
      return String(name);
    };
    expect(
      await Promise.all(["alt.example", "a.wild.example", "localhost", "a.b.wild.example", undefined].map(shown)),
    ).toEqual(["alt", "alt", "rtr", "rtr", "rtr"]);
    port.setIdentity(identityFromPem({ certPem: other.certPem, keyPem: other.keyPem, caPem: authority.certPem }));
    expect(await Promise.all([shown("localhost"), shown()])).toEqual(["alt", "alt"]);
  });

  test.each([
    ["TLSv1.2", ""],
    ["TLSv1.3", ""],
    ["TLSv1.2", "localhost"],
    ["TLSv1.3", "localhost"],
  ] as const)(
    "resumes no session, so that the client's chain is always known (%s, server name %j)",
    async (version, servername) => {
      port = await TlsPort.listen({ host: "127.0.0.1", port: 0, identity });
      const chains: number[] = [];
      port.register({
        name: "any",
        protocols: [],
        acceptsNoAlpn: true,
        onSocket: (socket) => {
          chains.push(peerOf(socket).certificates.length);
          socket.end("ok");
        },
      });
      const sessions: Buffer[] = [];
      const visit = async (session?: Buffer): Promise<boolean> => {
        const socket = dial({
          minVersion: version,
          maxVersion: version,
          servername,
          ...(session === undefined ? {} : { session }),
        });
        socket.on("session", (next: Buffer) => sessions.push(next));
        await once(socket, "secureConnect");
        const reused = socket.isSessionReused();
        socket.resume();
        await once(socket, "close");
        return reused;
      };
      expect(await visit()).toBe(false);
      for (const session of [undefined, ...sessions]) {
        expect(await visit(session)).toBe(false);
      }
      expect(new Set(chains).size).toBe(1);
    },
  );

  test("is 1.2 or newer, with the cheapest safe cipher first", async () => {
    const log = new RecordingLogger();
    port = await TlsPort.listen({ host: "127.0.0.1", port: 0, identity, log });
    greet("any", [], true);
    expect(await told({ minVersion: "TLSv1", maxVersion: "TLSv1.1", ciphers: "DEFAULT@SECLEVEL=0" })).toMatch(
      /^failed/,
    );
    const socket = dial({ ciphers: "TLS_CHACHA20_POLY1305_SHA256:TLS_AES_256_GCM_SHA384:TLS_AES_128_GCM_SHA256" });
    await once(socket, "secureConnect");
    expect(socket.getCipher().name).toBe("TLS_AES_128_GCM_SHA256");
    socket.destroy();
    expect(log.entries.map((entry) => entry.msg)).toContain("TLS handshake failed");
    for (const { fields } of log.entries) expect(fields.peer).toMatch(/^127\.0\.0\.1:\d+$/);
  });

  test("handshakes end in time", async () => {
    const log = new RecordingLogger();
    port = await TlsPort.listen({ host: "127.0.0.1", port: 0, identity, handshakeTimeoutMs: 30, log });
    const socket = connectTcp(port.port, "127.0.0.1");
    socket.resume();
    await once(socket, "close");
    expect(log.entries.map((entry) => entry.fields.peer)).toEqual([expect.stringMatching(/^127\.0\.0\.1:\d+$/)]);
  });
});

describe("a user with server certificates of its own", () => {
  let abroad: TestAuthority;
  const shown = async (options: ConnectionOptions): Promise<string> => {
    const socket = dial({ rejectUnauthorized: false, ...options });
    let text = "";
    socket.on("data", (chunk: Buffer) => {
      text += chunk.toString();
    });
    await once(socket, "secureConnect");
    const name = String(socket.getPeerCertificate().subject.CN);
    await once(socket, "close");
    return `${text} ${name}`;
  };

  beforeAll(async () => {
    abroad = await TestAuthority.create("Public");
  });

  test.each(["TLSv1.2", "TLSv1.3"] as const)("shows them to its clients only, by name (%s)", async (version) => {
    port = await TlsPort.listen({ host: "127.0.0.1", port: 0, identity });
    greet("ctrl", ["ziti-ctrl"], false);
    greet("web", ["http/1.1"], true);
    const one = await abroad.issue({ commonName: "one", dns: ["localhost", "*.one.example"] });
    const two = await abroad.issue({ commonName: "two", dns: ["two.example"] });
    port.setUserIdentity("web", withServerCertificates(identity, [one, two]));
    const at = (servername: string, ...protocols: string[]) =>
      shown({
        minVersion: version,
        maxVersion: version,
        ...(servername === "" ? {} : { servername }),
        ...(protocols.length === 0 ? {} : { ALPNProtocols: protocols }),
      });
    expect(await at("localhost", "http/1.1")).toBe("web one");
    expect(await at("localhost")).toBe("web one");
    expect(await at("a.one.example", "h2", "http/1.1")).toBe("web one");
    expect(await at("two.example", "http/1.1")).toBe("web two");
    expect(await at("other.example", "http/1.1")).toBe("web rtr");
    expect(await at("", "http/1.1")).toBe("web rtr");
    expect(await at("localhost", "ziti-ctrl")).toBe("ctrl rtr");
    expect(await at("two.example", "ziti-ctrl")).toBe("ctrl rtr");

    port.setUserIdentity("web", withServerCertificates(identity, [two], two));
    expect(await at("localhost", "http/1.1")).toBe("web rtr");
    expect(await at("", "http/1.1")).toBe("web two");
    expect(await at("", "ziti-ctrl")).toBe("ctrl rtr");
  });

  test("takes a ClientHello in pieces, refuses what is none, and waits for neither without end", async () => {
    const log = new RecordingLogger();
    port = await TlsPort.listen({ host: "127.0.0.1", port: 0, identity, handshakeTimeoutMs: 3_000, log });
    greet("web", ["http/1.1"], true);
    port.setUserIdentity("web", withServerCertificates(identity, []));
    // A relay that passes on the first bytes one by one.
    const relay = createTcpServer((from) => {
      const to = connectTcp({ port: port.port, host: "127.0.0.1", noDelay: true });
      to.pipe(from);
      to.on("error", () => from.destroy());
      from.on("error", () => to.destroy());
      let sent = 0;
      from.on("data", (chunk: Buffer) => {
        for (; sent < 12 && chunk.length > 0; sent++) {
          to.write(chunk.subarray(0, 1));
          chunk = chunk.subarray(1);
        }
        to.write(chunk);
      });
    }).listen(0, "127.0.0.1");
    await once(relay, "listening");
    expect(await told({ port: (relay.address() as { port: number }).port })).toBe("web false");
    relay.close();

    const plain = connectTcp(port.port, "127.0.0.1").resume();
    plain.end("GET / HTTP/1.1\r\n\r\n");
    await once(plain, "close");
    expect(log.entries.at(-1)).toMatchObject({ msg: "TLS handshake failed", fields: { reason: "http request" } });
    const gone = connectTcp(port.port, "127.0.0.1");
    gone.end(Buffer.from([22, 3, 1]));
    gone.resume();
    await once(gone, "close");
    const silent = connectTcp(port.port, "127.0.0.1").resume();
    await once(silent, "close");
    expect(log.entries.at(-1)).toMatchObject({ fields: { reason: "no ClientHello in time" } });
    expect(await told()).toBe("web false");
  });

  test("goes with the port, also before its clients have said anything", async () => {
    port = await TlsPort.listen({ host: "127.0.0.1", port: 0, identity });
    greet("web", ["http/1.1"], true);
    port.setUserIdentity("web", withServerCertificates(identity, []));
    const silent = connectTcp(port.port, "127.0.0.1").resume();
    await once(silent, "connect");
    const closed = once(silent, "close");
    await told();
    await port.close();
    await closed;
  });
});

test("closing a port ends its connections and frees it", async () => {
  port = await TlsPort.listen({ host: "127.0.0.1", port: 0, identity });
  port.register({ name: "any", protocols: [], acceptsNoAlpn: true, onSocket: (socket) => void socket.write("hi") });
  const socket = dial();
  await once(socket, "data");
  const gone = once(socket, "close");
  await port.close();
  await gone;
  port = await TlsPort.listen({ host: "127.0.0.1", port: port.port, identity });
});
