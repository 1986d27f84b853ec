import { beforeAll, describe, expect, it } from "vitest";
import { TestAuthority } from "../testing/authority.ts";
import { ServerCertificates } from "./server-certificates.ts";

interface Issued {
  certPem: string;
  keyPem: string;
}

let root: TestAuthority;
let main: Issued;
let other: Issued;
let wild: Issued;
let nameless: Issued;

beforeAll(async () => {
  root = await TestAuthority.create();
  [main, other, wild, nameless] = await Promise.all([
    root.issue({
      commonName: "other.example",
      dns: ["main.example", "both.example"],
      ip: ["192.0.2.1", "2001:db8::1"],
    }),
    root.issue({ commonName: "other", dns: ["other.example", "both.example"] }),
    root.issue({ commonName: "wild", dns: ["*.wild.example"] }),
    root.issue({ commonName: "nameless.example" }),
  ]);
});

const made = (...entries: Issued[]) => new ServerCertificates(entries, {});

describe("the server certificate for a name", () => {
  it("is the first that has it, exactly or by a wildcard for one label; common names do not count", () => {
    const certificates = made(main, other, wild);
    const [ofMain, ofOther, ofWild] = [main, other, wild].map((one) => made(one).first.certPem);
    const chosen = (name: string) =>
      [ofMain, ofOther, ofWild].find((_pem, i) => {
        const context = certificates.contextFor(name);
        return context === certificates.contextFor(["main.example", "other.example", "x.wild.example"][i]);
      });
    expect(chosen("main.example")).toBe(ofMain);
    expect(chosen("MAIN.example")).toBe(ofMain);
    expect(chosen("other.example")).toBe(ofOther);
    expect(chosen("both.example")).toBe(ofMain);
    expect(chosen("anything.wild.example")).toBe(ofWild);
    // None fits: the first of all.
    for (const name of ["elsewhere.test", "a.b.wild.example", "wild.example", "", undefined]) {
      expect(certificates.contextFor(name), String(name)).toBe(certificates.contextFor("main.example"));
    }
    expect(certificates.contextCovering("a.b.wild.example")).toBeUndefined();
    expect(certificates.first.certPem).toBe(ofMain);
  });

  it("is found by address, too, however that is written", () => {
    const certificates = made(other, main);
    for (const ip of ["192.0.2.1", "2001:db8::1", "2001:DB8:0:0::1"]) {
      expect(certificates.contextCovering(ip), ip).toBe(certificates.contextFor("main.example"));
    }
    expect(certificates.contextCovering("2001:db8::2")).toBeUndefined();
  });

  it("is the only one there is, whatever is asked for", () => {
    const certificates = made(nameless);
    expect(certificates.contextFor("main.example")).toBe(certificates.contextFor());
    expect(certificates.first.certPem.trim()).toBe(nameless.certPem.trim());
  });

  it("may stand behind others in one text, with its authorities anywhere in it", async () => {
    const intermediate = await TestAuthority.create("Intermediate", root);
    const leaf = await intermediate.issue({ commonName: "leaf", dns: ["leaf.example"] });
    const certificates = made({
      certPem: root.certPem + main.certPem + leaf.certPem + intermediate.certPem,
      keyPem: leaf.keyPem,
    });
    expect(certificates.first.certPem).toBe(
      `${[leaf, intermediate, root].map(({ certPem }) => certPem.trim()).join("\n")}\n`,
    );
  });

  it("needs its key", () => {
    expect(() => made({ ...main, keyPem: other.keyPem })).toThrow(/does not belong to any server certificate/);
  });
});
