import { X509Certificate } from "node:crypto";
import { TestAuthority } from "@sallyport/wire/testing";
import { describe, expect, it } from "vitest";
import {
  type CertificateNames,
  claimedValue,
  completeClaim,
  type ExternalIdClaim,
  externalIdOf,
  type RequestedClaim,
} from "./external-id-claim.ts";

const NAMES: CertificateNames = {
  COMMON_NAME: ["dev-alice-prod"],
  SAN_URI: ["https://acme.example/x", "spiffe://acme.example/tenant/42", "SPIFFE://acme.example/second"],
  SAN_EMAIL: ["root@other.example", "bob@acme.example", "eve@acme.example"],
};
const claim = (parts: Partial<ExternalIdClaim>): ExternalIdClaim => ({
  location: "COMMON_NAME",
  matcher: "ALL",
  matcherCriteria: "",
  parser: "NONE",
  parserCriteria: "",
  index: 0,
  ...parts,
});
const scheme = { location: "SAN_URI", matcher: "SCHEME", matcherCriteria: "spiffe" } as const;
const mail = { location: "SAN_EMAIL", matcher: "SUFFIX", matcherCriteria: "@acme.example" } as const;
const split = (parserCriteria: string) => ({ parser: "SPLIT", parserCriteria }) as const;

describe("a claim selects", () => {
  it.each<[string, Partial<ExternalIdClaim>, string | undefined]>([
    ["the whole common name", {}, "dev-alice-prod"],
    ["what follows a prefix", { matcher: "PREFIX", matcherCriteria: "dev-" }, "alice-prod"],
    ["what comes before a suffix", { matcher: "SUFFIX", matcherCriteria: "-prod" }, "dev-alice"],
    ["nothing for another prefix", { matcher: "PREFIX", matcherCriteria: "ops-" }, undefined],
    ["nothing when the prefix is all there is", { matcher: "PREFIX", matcherCriteria: "dev-alice-prod" }, undefined],
    ["a part of a common name", { ...split("-"), index: 1 }, "alice"],
    ["a path segment of a URI of a scheme", { ...scheme, ...split("/"), index: 4 }, "42"],
    ["the host of that URI", { ...scheme, ...split("/"), index: 2 }, "acme.example"],
    ["nothing from an empty part", { ...scheme, ...split("/"), index: 1 }, undefined],
    ["from the parts of all values together", { ...scheme, ...split("/"), index: 8 }, "second"],
    ["the first URI of any scheme", { location: "SAN_URI" }, "https://acme.example/x"],
    ["nothing beyond the last part", { ...scheme, ...split("/"), index: 99 }, undefined],
    ["nothing by half a scheme", { ...scheme, matcherCriteria: "spiff" }, undefined],
    ["the local part of an address of one domain", mail, "bob"],
    ["the second such address", { ...mail, index: 1 }, "eve"],
  ])("%s", (_what, parts, expected) => expect(claimedValue(claim(parts), NAMES)).toBe(expected));

  it("nothing that is not printable", () => {
    expect(claimedValue(claim({}), { ...NAMES, COMMON_NAME: ["a\u0000b"] })).toBeUndefined();
    expect(claimedValue(claim({}), { ...NAMES, COMMON_NAME: ["a\nb"] })).toBeUndefined();
  });

  it("from a real certificate", async () => {
    const { certPem } = await (await TestAuthority.create()).issue({
      commonName: "dev-alice",
      uri: ["spiffe://acme.example/tenant/42"],
    });
    const certificate = new X509Certificate(certPem);
    expect(externalIdOf(certificate, claim({ ...scheme, ...split("/"), index: 4 }))).toBe("42");
    expect(externalIdOf(certificate, claim({}))).toBe("dev-alice");
    expect(externalIdOf(certificate, claim({ location: "SAN_EMAIL" }))).toBeUndefined();
  });
});

describe("#3952: an inconsistent externalIdClaim is refused", () => {
  it.each<[string, RequestedClaim, string]>([
    ["no location, but a matcher", { matcher: "ALL" }, "location"],
    ["an unknown location", { location: "SAN_DNS" as "SAN_URI", matcher: "ALL", parser: "NONE" }, "location"],
    ["no matcher", { location: "COMMON_NAME", parser: "NONE" }, "matcher"],
    ["a scheme of a name", { location: "COMMON_NAME", matcher: "SCHEME", matcherCriteria: "a" }, "matcher"],
    ["a prefix of a URI", { location: "SAN_URI", matcher: "PREFIX", matcherCriteria: "a" }, "matcher"],
    ["a prefix that is missing", { location: "COMMON_NAME", matcher: "PREFIX" }, "matcherCriteria"],
    ["a scheme that is missing", { location: "SAN_URI", matcher: "SCHEME", matcherCriteria: "" }, "matcherCriteria"],
    ["no parser", { location: "COMMON_NAME", matcher: "ALL" }, "parser"],
    ["nothing to split at", { location: "COMMON_NAME", matcher: "ALL", parser: "SPLIT" }, "parserCriteria"],
    ["an index below 0", { location: "COMMON_NAME", matcher: "ALL", parser: "NONE", index: -1 }, "index"],
  ])("%s", (_what, requested, field) => expect(completeClaim(requested)).toMatchObject({ problem: { field } }));

  it("while one without anything is none", () => {
    expect(completeClaim({ location: null, matcher: null, parserCriteria: "", index: 0 })).toBeUndefined();
  });

  it("and what does not count is kept: who compares finds what was written", () => {
    const requested = { location: "COMMON_NAME", matcher: "ALL", matcherCriteria: "x", parser: "NONE" } as const;
    expect(completeClaim(requested)).toEqual({ claim: claim({ matcherCriteria: "x" }) });
  });
});
