import { execFileSync, spawnSync } from "node:child_process";
import { createHash, generateKeyPairSync, verify, X509Certificate } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { isIP } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect, createServer } from "node:tls";
import { createCsr, createKeyPair, signingKeys, spiffeId, splitPem, verifyLeaf, x509 } from "@sallyport/wire";
import { TestAuthority } from "@sallyport/wire/testing";
import { forgedRequest, forgedRsaKey, pemOf } from "@sallyport/wire/testing/forged-certificate";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createPkiMaterial, type PkiMaterial } from "./material.ts";
import { Pki } from "./pki.ts";
import { DEFAULT_LIFETIMES } from "./testing.ts";

const HOSTS = ["localhost", "127.0.0.1", "::1", "ctrl.example"];

describe("the network's PKI", () => {
  let material: PkiMaterial;
  let pki: Pki;
  let keyPem: string;
  let csr: string;

  beforeAll(async () => {
    material = await createPkiMaterial({ lifetimes: DEFAULT_LIFETIMES, controllerId: "controller", hosts: HOSTS });
    pki = new Pki(material, { lifetimes: DEFAULT_LIFETIMES });
    keyPem = (await createKeyPair()).keyPem;
    csr = await createCsr({ commonName: "id-1", subject: { O: "Example", C: "US" }, keyPem });
  });

  it("issues identity certificates that start a minute ago, last a year and prove nothing but the key", async () => {
    const before = Date.now();
    const issued = await pki.issueIdentityCertificate(csr);
    const [leafPem, intermediatePem, ...more] = splitPem(issued.pem);
    expect(more).toEqual([]);
    expect(leafPem).toBe(issued.leafPem);
    const leaf = new X509Certificate(issued.leafPem);
    const intermediate = new X509Certificate(intermediatePem!);
    expect(leaf.verify(intermediate.publicKey)).toBe(true);
    expect(intermediate.fingerprint).toBe(pki.trustAnchors[1]!.fingerprint);
    expect(leaf.subject).toBe("O=Example\nC=US\nCN=id-1");
    expect(leaf.subjectAltName).toBeUndefined();
    expect(leaf.keyUsage).toEqual(["1.3.6.1.5.5.7.3.2"]);
    expect(leaf.ca).toBe(false);
    expect(leaf.serialNumber).toMatch(/^[4-7][0-9A-F]{31}$/);
    expect(Math.abs(leaf.validFromDate.getTime() - (before - 60_000))).toBeLessThan(60_000);
    expect(leaf.validToDate.getTime() - leaf.validFromDate.getTime()).toBe(DEFAULT_LIFETIMES.identity);
    expect(issued.fingerprint).toBe(createHash("sha1").update(leaf.raw).digest("hex"));
    const parsed = new x509.X509Certificate(leaf.raw);
    expect(parsed.getExtension(x509.KeyUsagesExtension)!.usages).toBe(
      x509.KeyUsageFlags.digitalSignature | x509.KeyUsageFlags.keyEncipherment | x509.KeyUsageFlags.dataEncipherment,
    );
    for (const anchor of pki.trustAnchors) verifyLeaf({ leaf, intermediates: [intermediate], anchors: [anchor] });
  });

  it("gives two certificates of one request different serial numbers", async () => {
    const [a, b] = await Promise.all([pki.issueIdentityCertificate(csr), pki.issueIdentityCertificate(csr)]);
    expect(new X509Certificate(a.leafPem).serialNumber).not.toBe(new X509Certificate(b.leafPem).serialNumber);
  });

  it("accepts RSA keys and P-384 keys", async () => {
    const rsa = generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey.export({ type: "pkcs1", format: "pem" });
    const p384 = (await createKeyPair("P-384")).keyPem;
    for (const key of [String(rsa), p384]) {
      const issued = await pki.issueIdentityCertificate(await createCsr({ commonName: "x", keyPem: key }));
      expect(new X509Certificate(issued.leafPem).subject).toBe("CN=x");
    }
  });

  it("issues router certificates with the requested names, but never a SPIFFE id", async () => {
    const sans = {
      dns: ["r1.example"],
      ip: ["10.0.0.1", "fd00::1"],
      email: ["ops@example.org"],
      uri: ["https://r1.example/", "spiffe://net/controller/other", "SPIFFE://net/identity/a/apiSession/b"],
    };
    const request = await createCsr({ commonName: "router-1", keyPem, sans });
    const { client, server } = await pki.issueRouterCertificates({
      routerId: "router-1",
      certCsr: request,
      serverCertCsr: request,
    });
    for (const [issued, usage] of [
      [client, "1.3.6.1.5.5.7.3.2"],
      [server, "1.3.6.1.5.5.7.3.1"],
    ] as const) {
      const leaf = new X509Certificate(issued.leafPem);
      expect(leaf.keyUsage).toEqual([usage]);
      expect(leaf.subjectAltName).toBe(
        "DNS:r1.example, IP Address:10.0.0.1, IP Address:FD00:0:0:0:0:0:0:1, URI:https://r1.example/, email:ops@example.org",
      );
      expect(spiffeId(leaf)).toBeUndefined();
    }
  });

  it("lets a certificate keep the names of the one it follows, but no SPIFFE id: an imported root may have signed any", async () => {
    const { certPem } = await (await TestAuthority.create()).issue({
      commonName: "old",
      dns: ["kept.example"],
      uri: ["https://kept.example/", "spiffe://net/identity/other/apiSession/s/apiSessionCertificate/c"],
    });
    const issued = await pki.issueIdentityCertificate(csr, new X509Certificate(certPem));
    const leaf = new X509Certificate(issued.leafPem);
    expect(leaf.subjectAltName).toBe("DNS:kept.example, URI:https://kept.example/");
  });

  it("gives an API session its SPIFFE id and half a day", async () => {
    const issued = await pki.issueSessionCertificate(
      await createCsr({ commonName: "any", keyPem, sans: { dns: ["dropped.example"] } }),
      { identityId: "id-1", apiSessionId: "cs1", certificateId: "cc1" },
    );
    const leaf = new X509Certificate(issued.leafPem);
    expect(leaf.subjectAltName).toMatch(
      /^URI:spiffe:\/\/sallyport-[0-9a-f]{16}\/identity\/id-1\/apiSession\/cs1\/apiSessionCertificate\/cc1$/,
    );
    expect(leaf.validToDate.getTime() - leaf.validFromDate.getTime()).toBe(DEFAULT_LIFETIMES.session);
  });

  it.each([
    ["nothing", () => "", "MISSING_OR_INVALID_CSR"],
    ["text that is no PEM", () => "hello", "COULD_NOT_PROCESS_CSR"],
    ["a certificate", () => material.root.certPem, "COULD_NOT_PROCESS_CSR"],
    ["something after the block", (pem: string) => `${pem}trailing`, "COULD_NOT_PROCESS_CSR"],
    ["two requests", (pem: string) => pem + pem, "COULD_NOT_PROCESS_CSR"],
    [
      "a block of rubbish",
      () => "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----",
      "COULD_NOT_PROCESS_CSR",
    ],
    ["a changed subject", (pem: string) => tamper(pem, "id-1", "id-2"), "COULD_NOT_PROCESS_CSR"],
    ["more than 16 KiB", (pem: string) => pem.replace("\n", `\n${"A".repeat(17_000)}`), "COULD_NOT_PROCESS_CSR"],
  ])("refuses %s", async (_what, make, code) => {
    await expect(pki.issueIdentityCertificate(make(csr))).rejects.toMatchObject({ name: "CsrError", code });
  });

  it("refuses RSA keys whose exponent makes the proof of possession slow", async () => {
    const publicKey = forgedRsaKey(3_072, 3_000);
    const csr = pemOf(forgedRequest({ subject: "i1", publicKey }), "CERTIFICATE REQUEST");
    await expect(pki.issueIdentityCertificate(csr)).rejects.toMatchObject({
      code: "COULD_NOT_PROCESS_CSR",
      message: "the CSR could not be processed: expected an RSA key with an exponent of at most 4 bytes, found 376",
    });
  });

  it("refuses short RSA keys", async () => {
    const key = generateKeyPairSync("rsa", { modulusLength: 1024 }).privateKey.export({ type: "pkcs1", format: "pem" });
    const request = await createCsr({ commonName: "x", keyPem: String(key) });
    await expect(pki.issueIdentityCertificate(request)).rejects.toMatchObject({
      code: "COULD_NOT_PROCESS_CSR",
      message: "the CSR could not be processed: expected an RSA key of 2048 to 8192 bits, found 1024",
    });
  });

  it("refuses a router whose client request names another, and one that sends one request only", async () => {
    const routers = { routerId: "router-1", certCsr: csr, serverCertCsr: csr };
    await expect(pki.issueRouterCertificates(routers)).rejects.toMatchObject({
      code: "EDGE_ROUTER_ENROLL_COMMON_NAME_INVALID",
    });
    await expect(pki.issueRouterCertificates({ ...routers, serverCertCsr: "" })).rejects.toMatchObject({
      code: "MISSING_OR_INVALID_CSR",
    });
    await expect(pki.issueRouterCertificates({ ...routers, serverCertCsr: "x" })).rejects.toMatchObject({
      message: expect.stringContaining("the server CSR"),
    });
  });

  it("refuses a router whose server request, or whose second common name, is another router's", async () => {
    const own = await createCsr({ commonName: "router-1", keyPem });
    const other = await createCsr({ commonName: "router-2", keyPem });
    const { pair, algorithm } = await signingKeys(keyPem);
    const two = await x509.Pkcs10CertificateRequestGenerator.create({
      name: new x509.Name([{ CN: ["router-1"] }, { CN: ["router-2"] }]),
      keys: pair,
      signingAlgorithm: algorithm,
    });
    for (const [certCsr, serverCertCsr] of [
      [own, other],
      [two.toString("pem"), own],
      [own, two.toString("pem")],
    ] as const) {
      await expect(pki.issueRouterCertificates({ routerId: "router-1", certCsr, serverCertCsr })).rejects.toMatchObject(
        { code: "EDGE_ROUTER_ENROLL_COMMON_NAME_INVALID" },
      );
    }
  });

  it("serves TLS for every host with a certificate that its bundle trusts", async () => {
    const identity = pki.serverIdentity;
    expect(identity.id).toBe("controller");
    const server = createServer({
      SNICallback: (name, answer) => answer(null, identity.serverContext(name)),
      cert: identity.serverCertPem,
      key: identity.serverKeyPem,
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as { port: number };
    for (const host of HOSTS) {
      const socket = connect({
        port,
        host: "127.0.0.1",
        ca: pki.caBundlePem,
        ...(host.includes(":") || /^\d/.test(host) ? {} : { servername: host }),
        checkServerIdentity: (_name, cert) => {
          const leaf = new X509Certificate(cert.raw);
          return (isIP(host) ? leaf.checkIP(host) : leaf.checkHost(host))
            ? undefined
            : new Error(`${host} is not covered`);
        },
      });
      await once(socket, "secureConnect");
      expect(socket.authorized).toBe(true);
      socket.destroy();
    }
    server.close();
  });

  it("names the controller in a SPIFFE id of its trust domain", () => {
    expect(spiffeId(pki.serverIdentity.leaf)).toMatch(/^spiffe:\/\/sallyport-[0-9a-f]{16}\/controller\/controller$/);
  });

  describe.skipIf(spawnSync("openssl", ["version"]).status !== 0)("as seen by openssl", () => {
    const dir = mkdtempSync(join(tmpdir(), "sallyport-pki-"));
    const openssl = (...args: string[]) => execFileSync("openssl", args, { encoding: "utf8" });
    afterAll(() => rmSync(dir, { recursive: true }));

    it("the PKCS#7 bundle holds root and intermediate, in lines of 64 characters", () => {
      const base64 = pki.caBundlePkcs7Base64();
      expect(base64.endsWith("\n")).toBe(false);
      const lines = base64.split("\n");
      expect(lines.slice(0, -1).every((line) => line.length === 64)).toBe(true);
      writeFileSync(join(dir, "bundle.p7"), Buffer.from(base64, "base64"));
      const text = openssl("pkcs7", "-inform", "DER", "-in", join(dir, "bundle.p7"), "-print_certs");
      expect(splitPem(text)).toHaveLength(2);
      expect(new Set(splitPem(text).map((pem) => new X509Certificate(pem).fingerprint256))).toEqual(
        new Set(pki.trustAnchors.map((anchor) => anchor.fingerprint256)),
      );
    });

    it("chains verify", async () => {
      writeFileSync(join(dir, "root.pem"), material.root.certPem);
      writeFileSync(join(dir, "intermediate.pem"), material.intermediate.certPem);
      writeFileSync(join(dir, "leaf.pem"), (await pki.issueIdentityCertificate(csr)).leafPem);
      writeFileSync(join(dir, "server.pem"), material.server.certPem);
      const chain = [
        "verify",
        "-x509_strict",
        "-CAfile",
        join(dir, "root.pem"),
        "-untrusted",
        join(dir, "intermediate.pem"),
      ];
      expect(openssl(...chain, "-purpose", "sslclient", join(dir, "leaf.pem"))).toContain("OK");
      expect(
        openssl(...chain, "-purpose", "sslserver", "-verify_hostname", "ctrl.example", join(dir, "server.pem")),
      ).toContain("OK");
    });
  });

  describe("tokens", () => {
    it("are signed with the server certificate's key, named by its fingerprint", () => {
      const token = pki.signJwt({ sub: "id-1", aud: [""] });
      const [header, payload, signature] = token.split(".");
      const leaf = new X509Certificate(splitPem(material.server.certPem)[0]!);
      expect(JSON.parse(Buffer.from(header!, "base64url").toString())).toEqual({
        alg: "ES256",
        typ: "JWT",
        kid: createHash("sha1").update(leaf.raw).digest("hex"),
      });
      expect(isSignedBy(leaf, token)).toBe(true);
      expect(isSignedBy(leaf, `${header}.${payload}x.${signature}`)).toBe(false);
      expect(JSON.parse(Buffer.from(payload!, "base64url").toString())).toEqual({ sub: "id-1", aud: [""] });
    });
  });

  describe("renewal", () => {
    it("does nothing while everything is good", async () => {
      expect(await pki.renew(HOSTS)).toBeUndefined();
    });

    it("makes a new server certificate with the same key for a new host, and keeps the old hosts", async () => {
      const changing = new Pki(material, { lifetimes: DEFAULT_LIFETIMES });
      const token = changing.signJwt({ sub: "early" });
      const renewed = await changing.renew([...HOSTS, "new.example", "10.1.1.1"]);
      expect(renewed!.server.keyPem).toBe(material.server.keyPem);
      expect(renewed!.controller).toBe(material.controller);
      const leaf = new X509Certificate(splitPem(renewed!.server.certPem)[0]!);
      for (const host of ["new.example", "ctrl.example", "localhost"]) expect(leaf.checkHost(host)).toBeDefined();
      expect(leaf.checkIP("10.1.1.1")).toBeDefined();
      expect(isSignedBy(leaf, token)).toBe(true);
    });

    it("renews seven days before the end, and a short-lived one in its last third", async () => {
      const at = (days: number) => () => new Date(Date.now() + days * 86_400_000);
      expect(await new Pki(material, { lifetimes: DEFAULT_LIFETIMES, now: at(357) }).renew(HOSTS)).toBeUndefined();
      const renewed = await new Pki(material, { lifetimes: DEFAULT_LIFETIMES, now: at(359) }).renew(HOSTS);
      expect(renewed!.controller.keyPem).toBe(material.controller.keyPem);
      const short = await createPkiMaterial({
        controllerId: "c",
        hosts: HOSTS,
        lifetimes: { ...DEFAULT_LIFETIMES, controller: 3 * 86_400_000 },
      });
      expect(await new Pki(short, { lifetimes: DEFAULT_LIFETIMES, now: at(1.9) }).renew(HOSTS)).toBeUndefined();
      expect(await new Pki(short, { lifetimes: DEFAULT_LIFETIMES, now: at(2.1) }).renew(HOSTS)).toBeDefined();
    });

    it("renews the intermediate with its key, so that what it issued stays good", async () => {
      const now = () => new Date(Date.now() + 3_650 * 86_400_000);
      const old = await pki.issueIdentityCertificate(csr);
      const later = new Pki(material, { lifetimes: DEFAULT_LIFETIMES, now });
      const renewed = await later.renew(HOSTS);
      expect(renewed!.intermediate.certPem).not.toBe(material.intermediate.certPem);
      verifyLeaf({
        leaf: new X509Certificate(old.leafPem),
        intermediates: [],
        anchors: later.trustAnchors,
        at: now(),
        ignoreDates: "leaf",
      });
      const fresh = await later.issueIdentityCertificate(csr);
      expect(fresh.notAfter.getTime()).toBeGreaterThan(now().getTime() + 300 * 86_400_000);
    });
  });
});

/** As clients check it: with the key of the certificate that the controller serves. */
function isSignedBy(leaf: X509Certificate, token: string): boolean {
  const [header, payload, signature] = token.split(".");
  const key = { key: leaf.publicKey, dsaEncoding: "ieee-p1363" as const };
  return verify("sha256", Buffer.from(`${header}.${payload}`), key, Buffer.from(signature!, "base64url"));
}

function tamper(pem: string, from: string, to: string): string {
  const der = Buffer.from(pem.replace(/-----[^-]+-----/g, ""), "base64");
  const at = der.indexOf(from);
  der.write(to, at);
  return `-----BEGIN CERTIFICATE REQUEST-----\n${der.toString("base64")}\n-----END CERTIFICATE REQUEST-----\n`;
}
