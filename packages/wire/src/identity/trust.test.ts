import { X509Certificate } from "node:crypto";
import { describe, expect, it } from "vitest";
import { TestAuthority } from "../testing/authority.ts";
import { verifyLeaf } from "./trust.ts";

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
