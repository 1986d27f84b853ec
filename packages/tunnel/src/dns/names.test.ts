import { describe, expect, test } from "vitest";
import { AddressPool } from "./address-pool.ts";
import { Names } from "./names.ts";

const make = (range = "100.64.0.1/10"): Names => new Names(new AddressPool(range));
const addressOf = (names: Names, name: string): string => {
  const found = names.lookUp(name);
  return found.kind === "address" ? found.address : found.kind;
};
const nobody = async (): Promise<void> => {};

describe("addresses of names", () => {
  test("begin after the address that is written before the slash, and end with the last one of the range", () => {
    const pool = new AddressPool("10.0.0.5/29");
    expect([pool.take(), pool.take(), pool.take()]).toEqual(["10.0.0.6", "10.0.0.7", undefined]);
    expect(new AddressPool("100.64.0.1/10").take()).toBe("100.64.0.2");
  });

  test("freed ones are given again first, in the order in which they were freed", () => {
    const names = make();
    for (const name of ["a", "b", "c"]) names.add(name, name);
    names.removeOwner("b");
    names.removeOwner("a");
    expect([names.add("d", "s"), names.add("e", "s"), names.add("f", "s")]).toEqual([
      "100.64.0.3",
      "100.64.0.2",
      "100.64.0.5",
    ]);
  });

  test("a name has one address, whatever its case and final dot, until its last service leaves", () => {
    const names = make();
    expect([names.add("Web.Ziti", "s1"), names.add("web.ziti.", "s2"), names.add("web.ziti", "s1")]).toEqual(
      Array(3).fill("100.64.0.2"),
    );
    names.removeOwner("s1");
    expect([addressOf(names, "WEB.ziti"), names.nameOf("100.64.0.2")]).toEqual(["100.64.0.2", "web.ziti"]);
    names.removeOwner("s2");
    expect([addressOf(names, "web.ziti"), names.nameOf("100.64.0.2")]).toEqual(["unknown", undefined]);
  });

  test("of wildcards the most specific one counts, at any depth, and not for its own domain", () => {
    const names = make();
    const found: string[] = [];
    names.addWildcard("*.org", "s1", async (name) => void found.push(`s1 ${name}`));
    names.addWildcard("*.Example.org", "s2", async (name) => void found.push(`s2 ${name}`));
    expect(["a.org", "x.y.example.org", "example.org", "org", "other"].map((name) => addressOf(names, name))).toEqual([
      "100.64.0.2",
      "100.64.0.3",
      "100.64.0.4",
      "unknown",
      "unknown",
    ]);
    expect(found).toEqual(["s1 a.org", "s2 x.y.example.org", "s1 example.org"]);
  });

  test("names found by a wildcard stay until its service leaves", () => {
    const names = make();
    names.addWildcard("*.w", "s1", nobody);
    names.addWildcard("*.v", "s2", nobody);
    expect([addressOf(names, "a.w"), addressOf(names, "a.v")]).toEqual(["100.64.0.2", "100.64.0.3"]);
    names.removeOwner("s1");
    expect([addressOf(names, "a.w"), names.knows("b.w"), addressOf(names, "a.v")]).toEqual([
      "unknown",
      false,
      "100.64.0.3",
    ]);
  });

  test("a wildcard of two services goes to the newest, and back when that leaves", () => {
    const names = make();
    const found: string[] = [];
    expect(names.addWildcard("*.w", "s1", async (name) => void found.push(`s1 ${name}`))).toBe(false);
    expect(names.addWildcard("*.w", "s2", async (name) => void found.push(`s2 ${name}`))).toBe(true);
    addressOf(names, "a.w");
    names.removeOwner("s2");
    addressOf(names, "b.w");
    expect(found).toEqual(["s2 a.w", "s1 b.w"]);
  });

  test.each(["*", "*.", "*.*.x", "a.*.x"])("%s is no wildcard", (pattern) => {
    expect(() => make().addWildcard(pattern, "s", nobody)).toThrow(/expected one like/);
  });

  test.each(["100.64.0.1", "100.64.0.1/33", "x/8", "100.64.0.1/10/3", "", "1.2.3/8"])("%s is no range", (range) => {
    expect(() => new AddressPool(range)).toThrow(/no range of addresses; expected one like/);
  });
});
