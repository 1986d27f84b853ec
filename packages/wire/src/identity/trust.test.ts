import { X509Certificate } from "node:crypto";
import { describe, expect, it, vi } from "vitest";
import { TestAuthority } from "../testing/authority.ts";
import { ecKey, forgedCertificate, forgedRsaKey } from "../testing/forged-certificate.ts";
import { hostileChains } from "../testing/hostile-chains.ts";
import { createKeyPair, signingKeys } from "./certificate-request.ts";
import { CertificateError } from "./certificates.ts";
import { verifyLeaf } from "./trust.ts";
import { x509 } from "./x509.ts";

const parse = (pem: string) => new X509Certificate(pem);

describe("verifyLeaf", () => {
  it("accepts a leaf under the root, under an intermediate that was presented, and under one in the bundle", async () => {
    const root = await TestAuthority.create("root");
    const middle = await TestAuthority.create("middle", root);
    const direct = parse((await root.issue({ commonName: "a" })).certPem);
    const below = parse((await middle.issue({ commonName: "b" })).certPem);
    const anchors = [parse(root.certPem)];
    verifyLeaf({ leaf: direct, intermediates: [], anchors });
    verifyLeaf({ leaf: below, intermediates: [parse(middle.certPem)], anchors });
    verifyLeaf({ leaf: below, intermediates: [], anchors: [parse(middle.certPem)] });
    expect(() => verifyLeaf({ leaf: below, intermediates: [], anchors })).toThrow(/not issued by a trusted/);
  });

  it("GHSA-mrpr-756c-xm47: does not trust an unknown issuer's leaf because of a trusted certificate presented behind it", async () => {
    const root = await TestAuthority.create("root");
    const victim = parse((await root.issue({ commonName: "victim" })).certPem);
    const foreignRoot = await TestAuthority.create("root");
    const foreign = parse((await foreignRoot.issue({ commonName: "victim" })).certPem);
    expect(() =>
      verifyLeaf({ leaf: foreign, intermediates: [victim, parse(root.certPem)], anchors: [parse(root.certPem)] }),
    ).toThrow(/not issued by a trusted/);
  });

  it("does not let an ordinary certificate issue others", async () => {
    const root = await TestAuthority.create("root");
    const notCa = await TestAuthority.create("not an authority", root, false);
    const leaf = parse((await notCa.issue({ commonName: "x" })).certPem);
    const anchors = [parse(root.certPem)];
    expect(() => verifyLeaf({ leaf, intermediates: [parse(notCa.certPem)], anchors })).toThrow(/not issued/);
    expect(() => verifyLeaf({ leaf, intermediates: [], anchors: [parse(notCa.certPem)] })).toThrow(/not issued/);
  });

  it("honours the length that an authority allows below it", async () => {
    const root = await TestAuthority.create("root", undefined, 0);
    const middle = await TestAuthority.create("middle", root);
    const leaf = parse((await middle.issue({ commonName: "x" })).certPem);
    expect(() => verifyLeaf({ leaf, intermediates: [parse(middle.certPem)], anchors: [parse(root.certPem)] })).toThrow(
      /not issued/,
    );
  });

  it("checks dates unless told otherwise", async () => {
    const root = await TestAuthority.create("root");
    const hour = 3_600_000;
    const old = { notBefore: new Date(Date.now() - 2 * hour), notAfter: new Date(Date.now() - hour) };
    const leaf = parse((await root.issue({ commonName: "old", ...old })).certPem);
    const anchors = [parse(root.certPem)];
    expect(() => verifyLeaf({ leaf, intermediates: [], anchors })).toThrow(
      expect.objectContaining({ code: "CERTIFICATE_EXPIRED" }),
    );
    verifyLeaf({ leaf, intermediates: [], anchors, ignoreDates: "leaf" });
    verifyLeaf({ leaf, intermediates: [], anchors, ignoreDates: true });
    const tomorrow = new Date(Date.now() + 48 * hour);
    expect(() => verifyLeaf({ leaf, intermediates: [], anchors, ignoreDates: "leaf", at: tomorrow })).toThrow(
      /not issued/,
    );
    verifyLeaf({ leaf, intermediates: [], anchors, ignoreDates: true, at: tomorrow });
  });

  it("takes an authority with extensions that cannot be read for none, and nothing else happens", async () => {
    const [middle, leaf] = [
      await signingKeys((await createKeyPair()).keyPem),
      await signingKeys((await createKeyPair()).keyPem),
    ];
    const made = (subject: string, keys: typeof leaf, extensions: x509.Extension[]) =>
      x509.X509CertificateGenerator.create({
        ...{ serialNumber: "01", subject, issuer: "CN=middle", publicKey: keys.pair.publicKey },
        ...{ notBefore: new Date(Date.now() - 60_000), notAfter: new Date(Date.now() + 60_000) },
        ...{ signingKey: middle.pair.privateKey, signingAlgorithm: middle.algorithm, extensions },
      });
    const unreadable = await made("CN=middle", middle, [
      new x509.BasicConstraintsExtension(true, undefined, true),
      new x509.Extension("2.5.29.32", false, Buffer.of(1, 2, 3)),
    ]);
    const below = await made("CN=leaf", leaf, []);
    const request = { leaf: parse(below.toString("pem")), intermediates: [parse(unreadable.toString("pem"))] };
    expect(request.intermediates[0]?.ca).toBe(true);
    expect(() => verifyLeaf({ ...request, anchors: [] })).toThrow(CertificateError);
    expect(() => verifyLeaf({ ...request, anchors: request.intermediates })).toThrow(CertificateError);
  });

  it("uses no key without an issuer that vouches for it, and checks few signatures, whatever chain an attacker builds", async () => {
    const root = await TestAuthority.create("root");
    const anchor = parse(root.certPem);
    const verify = vi.spyOn(X509Certificate.prototype, "verify");
    for (const { name, certificates } of hostileChains(root)) {
      const [leaf, ...intermediates] = certificates.map((der) => new X509Certificate(der));
      verify.mockClear();
      expect(() => verifyLeaf({ leaf: leaf!, intermediates, anchors: [anchor] }), name).toThrow(/not issued/);
      expect(verify.mock.calls.length, name).toBeLessThanOrEqual(16);
      expect(verify.mock.calls.filter(([key]) => !key.equals(anchor.publicKey)).length, name).toBe(0);
    }
    verify.mockRestore();
  });

  it("finds the chain among certificates that look like parts of it", async () => {
    const root = await TestAuthority.create("root");
    const upper = await TestAuthority.create("upper", root);
    const lower = await TestAuthority.create("lower", upper);
    const leaf = parse((await lower.issue({ commonName: "x" })).certPem);
    const foreign = ["lower", "upper", "root"].flatMap((subject) =>
      ["lower", "upper", "root"].map((issuer) =>
        forgedCertificate({ subject, issuer, publicKey: ecKey(), isCa: true }),
      ),
    );
    const intermediates = [
      ...foreign.map((der) => new X509Certificate(der)),
      parse(lower.certPem),
      parse(upper.certPem),
    ];
    verifyLeaf({ leaf, intermediates, anchors: [parse(root.certPem)] });
  });

  it("takes the way on which enough authorities are allowed, when an authority has two certificates", async () => {
    const root = await TestAuthority.create("root");
    const upper = await TestAuthority.create("upper", root);
    const lower = await TestAuthority.create("lower", upper);
    const leaf = parse((await lower.issue({ commonName: "x" })).certPem);
    const narrow = await root.certify("upper", upper.keyPem, 0);
    const wide = upper.certPem;
    for (const upperPems of [
      [narrow, wide],
      [wide, narrow],
    ]) {
      const intermediates = [...upperPems, lower.certPem].map(parse);
      verifyLeaf({ leaf, intermediates, anchors: [parse(root.certPem)] });
    }
    const tooNarrow = [narrow, lower.certPem].map(parse);
    expect(() => verifyLeaf({ leaf, intermediates: tooNarrow, anchors: [parse(root.certPem)] })).toThrow(/not issued/);
  });

  it("takes no anchor whose key is made to keep the checker busy", () => {
    const publicKey = forgedRsaKey(3_072, 3_000);
    const certificate = (subject: string, isCa: boolean) =>
      new X509Certificate(forgedCertificate({ subject, issuer: "slow", publicKey, isCa, signature: "rsa" }));
    const [anchor, leaf] = [certificate("slow", true), certificate("leaf", false)];
    const verify = vi.spyOn(X509Certificate.prototype, "verify");
    expect(() => verifyLeaf({ leaf, intermediates: [], anchors: [anchor] })).toThrow(/not issued/);
    expect(verify).not.toHaveBeenCalled();
    verify.mockRestore();
  });

  it("finds names that are written otherwise but count as equal", async () => {
    const root = await TestAuthority.create("My  Root");
    const { keyPem } = await createKeyPair();
    const keys = await signingKeys(keyPem);
    const signer = await signingKeys(root.keyPem);
    const made = await x509.X509CertificateGenerator.create({
      ...{ serialNumber: "01", subject: "CN=leaf", issuer: "CN=MY rOOT", publicKey: keys.pair.publicKey },
      ...{ notBefore: new Date(Date.now() - 60_000), notAfter: new Date(Date.now() + 60_000) },
      ...{ signingKey: signer.pair.privateKey, signingAlgorithm: signer.algorithm },
    });
    verifyLeaf({ leaf: parse(made.toString("pem")), intermediates: [], anchors: [parse(root.certPem)] });
  });
});
