import { describe, expect, test } from "vitest";
import { AddressPool, Names, type NamesOptions } from "./names.ts";

let now = 0;
const make = (range = "100.64.0.1/10", o: NamesOptions = {}): Names =>
  new Names(new AddressPool(range), { now: () => now, ...o });
const addressOf = (names: Names, name: string): string => {
  const found = names.lookUp(name);
  return found.kind === "address" ? found.address : found.kind;
};
const ready = async (): Promise<void> => {};

describe("addresses of names", () => {
  test("begin after the address that is written before the slash, and end with the last one of the range", () => {
    const pool = new AddressPool("10.0.0.5/29");
    expect([pool.take(), pool.take(), pool.take()]).toEqual(["10.0.0.6", "10.0.0.7", undefined]);
    expect(new AddressPool("100.64.0.1/10").take()).toBe("100.64.0.2");
  });

  test("freed ones rest for two minutes, then they are given again first, in the order in which they were freed", () => {
    const names = make();
    for (const name of ["a", "b", "c"]) names.add(name, name);
    names.removeOwner("b");
    names.removeOwner("a");
    expect(names.add("too early", "s")).toBe("100.64.0.5");
    now += 120_000;
    expect([names.add("d", "s"), names.add("e", "s"), names.add("f", "s")]).toEqual([
      "100.64.0.3",
      "100.64.0.2",
      "100.64.0.6",
    ]);
  });

  test("a name that comes back while its address rests has the same one again", () => {
    const names = make("192.0.2.1/30");
    for (const name of ["a", "b"]) names.add(name, name);
    for (const name of ["a", "b"]) names.removeOwner(name);
    expect(() => names.add("c", "s")).toThrow(/no address is left/);
    expect([names.add("b", "s"), names.nameOf("192.0.2.3"), names.nameOf("192.0.2.2")]).toEqual([
      "192.0.2.3",
      "b",
      undefined,
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
    names.addWildcard("*.w", "s1", ready);
    names.addWildcard("*.v", "s2", ready);
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

  test("when they are used up, the name under a wildcard makes room that was not used for the longest time", () => {
    const taken: string[] = [];
    const names = make("192.0.2.1/29");
    names.addWildcard("*.w", "s1", ready, (address) => void taken.push(address));
    const given = ["a.w", "b.w", "c.w", "d.w", "e.w"].map((name) => addressOf(names, name));
    expect(given).toEqual([2, 3, 4, 5, 6].map((last) => `192.0.2.${last}`));
    expect(names.add("own", "s2")).toBe("192.0.2.7");
    // All of them were asked for within the last two minutes: a client may be about to connect.
    now += 119_999;
    expect(addressOf(names, "f.w")).toBe("exhausted");
    addressOf(names, "a.w");
    names.nameOf("192.0.2.3");
    now += 1;
    expect([addressOf(names, "f.w"), addressOf(names, "g.w"), addressOf(names, "h.w")]).toEqual(given.slice(2));
    expect([addressOf(names, "i.w"), taken]).toEqual(["exhausted", given.slice(2)]);
    expect([names.nameOf("192.0.2.4"), addressOf(names, "a.w"), addressOf(names, "own")]).toEqual([
      ...["f.w", "192.0.2.2", "192.0.2.7"],
    ]);
    // Names that services have themselves keep theirs, and make room of the others', too.
    now += 120_000;
    expect(["j", "k", "l", "m", "n"].map((name) => names.add(name, "s2"))).toHaveLength(5);
    now += 120_000;
    expect([addressOf(names, "o.w"), taken.length]).toEqual(["exhausted", 8]);
  });

  test("no address is taken while a client has a connection to it, or when it was given up just now", () => {
    const used = new Set(["192.0.2.2"]);
    const names = make("192.0.2.1/30", { isInUse: (address) => used.has(address) });
    names.addWildcard("*.w", "s1", ready);
    expect([addressOf(names, "a.w"), addressOf(names, "b.w")]).toEqual(["192.0.2.2", "192.0.2.3"]);
    now += 120_000;
    expect([addressOf(names, "c.w"), addressOf(names, "d.w")]).toEqual(["192.0.2.3", "exhausted"]);
    used.clear();
    // It was seen in use a moment ago.
    expect(addressOf(names, "d.w")).toBe("exhausted");
    now += 120_000;
    expect(addressOf(names, "d.w")).toBe("192.0.2.2");

    names.removeOwner("s1");
    used.add("192.0.2.3");
    now += 120_000;
    expect(names.add("e", "s2")).toBe("192.0.2.2");
    expect(() => names.add("f", "s2")).toThrow(/no address is left/);
  });

  test("there are never more of them than may be, however many are asked for", () => {
    const names = make("100.64.0.1/10", { maxNames: 100 });
    names.addWildcard("*.w", "s1", ready);
    const ask = (prefix: string): string[] =>
      Array.from({ length: 150 }, (_, i) => addressOf(names, `${prefix}${i}.w`));
    expect(ask("a").filter((address) => address !== "exhausted")).toHaveLength(100);
    now += 60_000;
    expect(new Set(ask("b"))).toEqual(new Set(["exhausted"]));
    now += 60_000;
    const given = ask("c").filter((address) => address !== "exhausted");
    expect(new Set(given).size).toBe(100);
    expect(new Set(given.map((address) => names.nameOf(address)))).toEqual(
      new Set(Array.from({ length: 100 }, (_, i) => `c${i}.w`)),
    );
  });

  test("those of a service that is gone make room when they have rested, though there are as many as may be", () => {
    const names = make("100.64.0.1/10", { maxNames: 100 });
    names.addWildcard("*.w", "s1", ready);
    for (let i = 0; i < 100; i++) addressOf(names, `a${i}.w`);
    names.removeOwner("s1");
    names.addWildcard("*.w", "s2", ready);
    expect(addressOf(names, "b.w")).toBe("exhausted");
    now += 120_000;
    expect(addressOf(names, "b.w")).not.toBe("exhausted");
  });

  test("a name that a service has, too, keeps its address; without the service it is one under the wildcard again", () => {
    const names = make("192.0.2.1/30");
    names.addWildcard("*.w", "s1", ready);
    addressOf(names, "a.w");
    names.add("a.w", "s2");
    addressOf(names, "b.w");
    now += 120_000;
    expect([addressOf(names, "c.w"), addressOf(names, "d.w")]).toEqual(["192.0.2.3", "exhausted"]);
    names.removeOwner("s2");
    expect(addressOf(names, "a.w")).toBe("192.0.2.2");
    now += 120_000;
    expect([addressOf(names, "d.w"), addressOf(names, "e.w")]).toEqual(["192.0.2.3", "192.0.2.2"]);
  });

  test.each(["*", "*.", "*.*.x", "a.*.x"])("%s is no wildcard", (pattern) => {
    expect(() => make().addWildcard(pattern, "s", ready)).toThrow(/expected one like/);
  });

  test.each(["100.64.0.1", "100.64.0.1/33", "x/8", "100.64.0.1/10/3", "", "1.2.3/8"])("%s is no range", (range) => {
    expect(() => new AddressPool(range)).toThrow(/no range of addresses; expected one like/);
  });
});
