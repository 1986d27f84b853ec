import { createHash, createPrivateKey, generateKeyPairSync, X509Certificate } from "node:crypto";
import { describe, expect, it } from "vitest";
import { TestAuthority } from "../testing/authority.ts";
import { createCsr, createKeyPair } from "./certificate-request.ts";
import {
  CertificateError,
  commonName,
  fingerprint,
  parseCertificates,
  pemBlocks,
  spiffeId,
  splitPem,
} from "./certificates.ts";
import { x509 } from "./x509.ts";

describe("fingerprint", () => {
  it("is the lower-case SHA-1 of the DER, whatever form the certificate comes in", async () => {
    const root = await TestAuthority.create();
    const certificate = new X509Certificate(root.certPem);
    const expected = createHash("sha1").update(certificate.raw).digest("hex");
    expect(expected).toMatch(/^[0-9a-f]{40}$/);
    expect([fingerprint(certificate), fingerprint(certificate.raw), fingerprint(`noise\n${root.certPem}`)]).toEqual([
      expected,
      expected,
      expected,
    ]);
  });
});

describe("PEM bundles", () => {
  it("keeps the certificates and skips what cannot be read", async () => {
    const [a, b] = await Promise.all([TestAuthority.create("a"), TestAuthority.create("b")]);
    const broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    const bundle = `# comment\n${a.certPem}${a.keyPem}${broken}${b.certPem}`;
    expect(splitPem(bundle)).toHaveLength(3);
    expect(parseCertificates(bundle).map(commonName)).toEqual(["a", "b"]);
    expect(() => parseCertificates(broken)).toThrow(CertificateError);
    expect(() => parseCertificates("")).toThrow(CertificateError);
  });

  it("takes a block up to the end mark of its own label", () => {
    const all = (pem: string) => pemBlocks(pem, () => true);
    const a = "-----BEGIN A-----\nx\n-----END A-----";
    const b = "-----BEGIN B C-----\ny\n-----END B C-----";
    expect(all(`${a}${b}\n ${a}`)).toEqual([`${a}\n`, `${b}\n`, `${a}\n`]);
    expect(all(`-----BEGIN X-----${b}`)).toEqual([`${b}\n`]);
    expect(all(`-----END A-----${a}-----BEGIN A-----`)).toEqual([`${a}\n`]);
    expect(all("-----BEGIN a-----x-----END a-----")).toEqual([]);
    expect(all("-----BEGIN A----- -----END B-----")).toEqual([]);
    expect(pemBlocks(a + b, (label) => label === "B C")).toEqual([`${b}\n`]);
  });

  it.each(["-----BEGIN A-----", "-----BEGIN ", "-----BEGIN A----- -----END B-----", "-----END A-----", "-----BEGIN A"])(
    "is read in time that grows with its length alone: %j again and again",
    (part) => {
      expect(pemBlocks(part.repeat(4_000_000 / part.length), () => true)).toEqual([]);
    },
  );
});

describe("spiffeId", () => {
  it("finds the one SPIFFE name among others and refuses two", async () => {
    const root = await TestAuthority.create();
    const uri = "spiffe://net/identity/i1/apiSession/s1";
    const one = await root.issue({ commonName: "x", dns: ["a.example"], uri: ["https://x.example/a,b", uri] });
    const two = await root.issue({ commonName: "x", uri: [uri, "spiffe://net/identity/i2"] });
    const none = await root.issue({ commonName: "x", dns: ["a.example"] });
    expect(spiffeId(new X509Certificate(one.certPem))).toBe(uri);
    expect(spiffeId(new X509Certificate(none.certPem))).toBeUndefined();
    expect(() => spiffeId(new X509Certificate(two.certPem))).toThrow(/at most one/);
  });

  it("is not fooled by a name that contains another name", async () => {
    const root = await TestAuthority.create();
    const trick = await root.issue({ commonName: "x", dns: ["a.example, URI:spiffe://net/identity/victim"] });
    expect(spiffeId(new X509Certificate(trick.certPem))).toBeUndefined();
  });
});

describe("createCsr", () => {
  it.each(["P-256", "P-384"] as const)("signs a request with a %s key", async (curve) => {
    const { keyPem } = await createKeyPair(curve);
    expect(keyPem).toMatch(/^-----BEGIN EC PRIVATE KEY-----/);
    const csr = await createCsr({
      commonName: "id1",
      subject: { O: "Sallyport", C: "US" },
      sans: { dns: ["r.example"], ip: ["127.0.0.1", "::1"] },
      keyPem,
    });
    const parsed = new x509.Pkcs10CertificateRequest(csr);
    expect(await parsed.verify()).toBe(true);
    expect(parsed.subjectName.getField("CN")).toEqual(["id1"]);
    const sans = parsed.getExtension("2.5.29.17") as x509.SubjectAlternativeNameExtension | null;
    expect(sans?.names.items.map((name) => name.value)).toEqual(["r.example", "127.0.0.1", "::1"]);
  });

  it("signs with RSA keys too, and writes hostile names as plain text", async () => {
    const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
    const keyPem = privateKey.export({ type: "pkcs1", format: "pem" }) as string;
    const csr = new x509.Pkcs10CertificateRequest(await createCsr({ commonName: "a, CN=b+O=c", keyPem }));
    expect(await csr.verify()).toBe(true);
    expect(csr.subjectName.getField("CN")).toEqual(["a, CN=b+O=c"]);
    expect(csr.subjectName.getField("O")).toEqual([]);
  });

  it("refuses keys that cannot be used", async () => {
    const ed = generateKeyPairSync("ed25519").privateKey.export({ type: "pkcs8", format: "pem" }) as string;
    await expect(createCsr({ commonName: "x", keyPem: ed })).rejects.toMatchObject({ code: "KEY_UNREADABLE" });
    await expect(createCsr({ commonName: "x", keyPem: "nonsense" })).rejects.toMatchObject({ code: "KEY_UNREADABLE" });
    expect(createPrivateKey(ed).asymmetricKeyType).toBe("ed25519");
  });
});
