import { X509Certificate } from "node:crypto";
import { describe, expect, it } from "vitest";
import { TestAuthority } from "../testing/authority.ts";
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

  it("GHSA-mrpr-756c-xm47: does not trust a stranger's leaf because of a trusted certificate presented behind it", async () => {
    const root = await TestAuthority.create("root");
    const victim = parse((await root.issue({ commonName: "victim" })).certPem);
    const strangerRoot = await TestAuthority.create("root");
    const stranger = parse((await strangerRoot.issue({ commonName: "victim" })).certPem);
    expect(() =>
      verifyLeaf({ leaf: stranger, intermediates: [victim, parse(root.certPem)], anchors: [parse(root.certPem)] }),
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

  it("gives up on chains built to be followed for ever", async () => {
    const stranger = await TestAuthority.create("loop");
    const leaf = parse((await stranger.issue({ commonName: "x" })).certPem);
    const copies = await Promise.all(
      Array.from({ length: 30 }, () => stranger.issue({ commonName: "loop", ca: true })),
    );
    const root = await TestAuthority.create("root");
    const intermediates = [parse(stranger.certPem), ...copies.map((copy) => parse(copy.certPem))];
    expect(() => verifyLeaf({ leaf, intermediates, anchors: [parse(root.certPem)] })).toThrow(/not issued/);
  });
});
