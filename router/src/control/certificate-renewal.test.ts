import { splitPem } from "@sallyport/wire";
import { TestAuthority } from "@sallyport/wire/testing";
import { describe, expect, it } from "vitest";
import { newAnchors } from "./certificate-renewal.ts";

describe("what a renewal adds to the bundle of authorities", () => {
  it("is those that the bundle lacks, and nothing that is none", async () => {
    const [mine, former, present] = await Promise.all(
      ["mine", "former", "present"].map((cn) => TestAuthority.create(cn)),
    );
    const leaf = await present!.issue({ commonName: "leaf" });
    const own = mine!.certPem + former!.certPem;
    const offered = present!.certPem + former!.certPem + leaf.certPem;
    expect(splitPem(own + newAnchors(own, offered))).toEqual(splitPem(own + present!.certPem));
    expect(splitPem(own.trimEnd() + newAnchors(own.trimEnd(), offered))).toHaveLength(3);
    expect(newAnchors(own + present!.certPem, offered)).toBe("");
    expect(newAnchors(own, "")).toBe("");
    expect(newAnchors("", present!.certPem)).toBe(present!.certPem);
  });
});
