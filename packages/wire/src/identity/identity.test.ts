import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect, createServer, type Server, type TLSSocket } from "node:tls";
import { afterEach, describe, expect, it } from "vitest";
import { TestAuthority } from "../testing/authority.ts";
import { commonName } from "./certificates.ts";
import { type Identity, IdentityError, identityFromPem, loadIdentity, pemSource } from "./identity.ts";

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

async function serve(identity: Identity): Promise<{ port: number; clientNames: (string | undefined)[] }> {
  const clientNames: (string | undefined)[] = [];
  const server: Server = createServer({
    cert: identity.serverCertPem ?? identity.certPem,
    key: identity.serverKeyPem ?? identity.keyPem,
    SNICallback: (name, done) => done(null, identity.serverContext(name)),
    requestCert: true,
    rejectUnauthorized: false,
  });
  server.on("secureConnection", (socket) => {
    const certificate = socket.getPeerX509Certificate();
    clientNames.push(certificate === undefined ? undefined : commonName(certificate));
    socket.on("error", () => {});
    socket.end("x");
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  cleanups.push(() => server.close());
  const address = server.address();
  return { port: typeof address === "object" && address !== null ? address.port : 0, clientNames };
}

async function dial(port: number, identity: Identity, servername: string): Promise<string | undefined> {
  const socket: TLSSocket = connect({ port, host: "127.0.0.1", servername, secureContext: identity.clientContext() });
  return new Promise((done, fail) => {
    socket.once("error", fail);
    socket.once("data", () => {
      const certificate = socket.getPeerX509Certificate();
      socket.destroy();
      done(certificate === undefined ? undefined : commonName(certificate));
    });
  });
}

describe("identityFromPem", () => {
  it("knows its id, fingerprint and anchors", async () => {
    const root = await TestAuthority.create();
    const identity = await root.identity("r1");
    expect(identity.id).toBe("r1");
    expect(identity.leafFingerprint).toMatch(/^[0-9a-f]{40}$/);
    expect(identity.anchors).toHaveLength(1);
  });

  it("names the part that is wrong", async () => {
    const root = await TestAuthority.create();
    const [one, two] = await Promise.all([root.issue({ commonName: "a" }), root.issue({ commonName: "b" })]);
    expect(() => identityFromPem({ certPem: one.certPem, keyPem: two.keyPem })).toThrow(/^key: .*does not belong/);
    expect(() => identityFromPem({ certPem: "", keyPem: two.keyPem })).toThrow(/^cert: /);
    expect(() => identityFromPem({ certPem: one.certPem, keyPem: "" })).toThrow(/^key: /);
    expect(() => identityFromPem({ ...one, caPem: "x" })).toThrow(/^ca: /);
    expect(() => identityFromPem({ ...one, serverCertPem: two.certPem })).toThrow(/^server_cert: /);
    expect(() => identityFromPem({ ...one, serverCertPem: "x" })).toThrow(IdentityError);
  });

  it("serves TLS to a client that trusts an intermediate only, and sees the client's certificate", async () => {
    const root = await TestAuthority.create("root");
    const middle = await TestAuthority.create("middle", root);
    const server = await middle.identity("server");
    const client = await middle.identity("client");
    const { port, clientNames } = await serve(server);
    expect(await dial(port, client, "localhost")).toBe("server");
    expect(clientNames).toEqual(["client"]);
    const foreign = await (await TestAuthority.create("other")).identity("foreign");
    await expect(dial(port, foreign, "localhost")).rejects.toThrow();
    await expect(dial(port, client, "elsewhere.example")).rejects.toThrow(/does not match/);
  });

  it("chooses the server certificate by the name asked for", async () => {
    const root = await TestAuthority.create();
    const [client, main, alternative, wild] = await Promise.all([
      root.issue({ commonName: "c" }),
      root.issue({ commonName: "main", dns: ["localhost"], ip: ["127.0.0.1"] }),
      root.issue({ commonName: "alt", dns: ["alt.example"] }),
      root.issue({ commonName: "wild", dns: ["*.wild.example"] }),
    ]);
    const identity = identityFromPem({
      ...client,
      caPem: root.certPem,
      serverCertPem: main.certPem,
      serverKeyPem: main.keyPem,
      altServerCerts: [alternative, wild],
    });
    const { port } = await serve(identity);
    expect(await dial(port, identity, "alt.example")).toBe("alt");
    expect(await dial(port, identity, "x.wild.example")).toBe("wild");
    expect(await dial(port, identity, "localhost")).toBe("main");
    await expect(dial(port, identity, "a.b.wild.example")).rejects.toThrow(/does not match/);
  });
});

describe("loadIdentity", () => {
  it("reads inline values, paths and file: in every spelling", async () => {
    const root = await TestAuthority.create();
    const { certPem, keyPem } = await root.issue({ commonName: "r1" });
    const dir = await mkdtemp(join(tmpdir(), "identity-"));
    cleanups.push(() => rm(dir, { recursive: true }));
    await writeFile(join(dir, "key.pem"), keyPem);
    await writeFile(join(dir, "ca.pem"), root.certPem);
    for (const key of [
      "key.pem",
      "./key.pem",
      "file:key.pem",
      "file://key.pem",
      `file://${dir}/key.pem`,
      `${dir}/key.pem`,
    ]) {
      const identity = await loadIdentity({ cert: `pem:${certPem}`, key, ca: "ca.pem", server_cert: certPem }, dir);
      expect(identity.id).toBe("r1");
    }
    await expect(loadIdentity({ cert: certPem, key: "none.pem" }, dir)).rejects.toThrow(
      /^key: cannot read .*none\.pem/,
    );
    await expect(loadIdentity({ cert: certPem, key: "pkcs11://token" }, dir)).rejects.toThrow(/scheme pkcs11:/);
  });

  it.each([
    [{ cert: "none", key: "none", ca: "none" }, /^cert: cannot read/],
    [{ cert: "pem:x", key: "none", server_cert: "none" }, /^key: cannot read/],
    [
      { cert: "pem:x", key: "pem:x", alt_server_certs: [{ server_cert: "no", server_key: "no" }] },
      /^alt_.*_cert: cannot/,
    ],
    [{ cert: "none", key: "none", server_key: "pkcs11:x" }, /^server_key: .*scheme pkcs11:/],
    [{ cert: "none", key: "none", alt_server_certs: [{ server_cert: "tpm:x" }] }, /^alt_.*server_cert: .*scheme tpm:/],
  ])("names the same part of several wrong ones each time: %j", async (config, expected) => {
    await expect(loadIdentity(config, tmpdir())).rejects.toThrow(expected);
  });

  it("tells files from inline text, for writing renewed certificates back", () => {
    expect(pemSource("pem:x", "/base")).toEqual({ kind: "inline", pem: "x" });
    expect(pemSource("file:./a.pem", "/base")).toEqual({ kind: "file", path: "/base/a.pem" });
  });
});
