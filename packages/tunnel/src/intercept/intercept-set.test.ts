import { describe, expect, test } from "vitest";
import { formatRange, parseRange } from "../ip-range.ts";
import { bestMatch, type Intercept, mergePorts, sortAddresses, sortPorts, sortSources } from "./intercept-set.ts";

const intercept = (
  name: string,
  ranges: string[],
  ports: [number, number][],
  more: Partial<Intercept> = {},
): Intercept => ({
  id: name,
  name,
  protocols: ["tcp"],
  ranges: ranges.map((text) => parseRange(text)!),
  ports: ports.map(([low, high]) => ({ low, high })),
  sources: [],
  ...more,
});

describe("the intercept that a connection belongs to", () => {
  const set = [
    intercept("wide", ["10.0.0.0/8"], [[1, 65_535]]),
    intercept("wide on one port", ["10.0.0.0/8"], [[443, 443]]),
    intercept("narrow", ["10.1.0.0/16", "192.0.2.1"], [[1, 1000]]),
    intercept("for few", ["10.1.1.1"], [[80, 80]], { sources: [parseRange("192.0.2.0/24")!] }),
    intercept("twin b", ["10.2.0.0/16"], [[80, 80]]),
    intercept("twin a", ["10.2.0.0/16"], [[80, 80]]),
    intercept("datagrams", ["10.3.0.1"], [[53, 53]], { protocols: ["udp"] }),
    intercept("sixth", ["2001:db8::/32"], [[80, 80]]),
  ];

  test.each([
    ["10.9.9.9", 80, "wide"],
    ["10.9.9.9", 443, "wide on one port"],
    ["10.1.9.9", 443, "narrow"],
    ["10.1.9.9", 1001, "wide"],
    ["10.1.1.1", 80, "for few"],
    ["10.2.0.1", 80, "twin a"],
    ["10.3.0.1", 53, "wide"],
    ["192.0.2.1", 1, "narrow"],
    ["192.0.2.2", 1, undefined],
    ["2001:db8::9", 80, "sixth"],
    ["::ffff:10.9.9.9", 80, "wide"],
    ["nonsense", 80, undefined],
  ])("to %s port %i: %s", (destinationIp, destinationPort, name) => {
    const ends = { protocol: "tcp", sourceIp: "192.0.2.7", destinationIp, destinationPort } as const;
    expect(bestMatch(set, ends)?.name).toBe(name);
  });

  test("depends on protocol and source", () => {
    const ends = { protocol: "udp", sourceIp: "192.0.2.7", destinationIp: "10.3.0.1", destinationPort: 53 } as const;
    expect(bestMatch(set, ends)?.name).toBe("datagrams");
    const foreign = {
      protocol: "tcp",
      sourceIp: "198.51.100.1",
      destinationIp: "10.1.1.1",
      destinationPort: 80,
    } as const;
    expect(bestMatch(set, foreign)?.name).toBe("narrow");
  });
});

describe("a target", () => {
  test("its addresses are sorted by form", () => {
    const sorted = sortAddresses({
      name: "s",
      addresses: ["10.0.0.1/8", "web.ziti", "*.Example.org", "::1", "my_host-1", "x.y."],
    });
    expect([sorted.ranges.map(formatRange), sorted.names, sorted.wildcards]).toEqual([
      ["10.0.0.0/8", "::1/128"],
      ["web.ziti", "my_host-1", "x.y."],
      ["*.Example.org"],
    ]);
  });

  test.each([
    "",
    "10.0.0.256",
    "10.0.0.0/33",
    "*",
    "*.",
    "a b",
    "-x",
    "a..b",
    "1.2.3",
    `${"a".repeat(64)}.b`,
    'x" drop',
  ])("%j is no address, and that is said with the service's name", (address) => {
    expect(() => sortAddresses({ name: "web", addresses: [address] })).toThrow(
      /service web: .* is no address; expected an IP/,
    );
  });

  test.each(["localhost", "LocalHost.", "web.localhost", "*.localhost"])("%s stays this machine", (address) => {
    expect(() => sortAddresses({ name: "web", addresses: [address] })).toThrow(/service web: .* is this machine/);
  });

  test("ports are merged, and wrong ones said", () => {
    const ranges = [
      [5, 9],
      [1, 2],
      [3, 3],
      [8, 20],
      [22, 22],
    ].map(([low = 0, high = 0]) => ({ low, high }));
    expect(mergePorts(ranges)).toEqual([
      { low: 1, high: 3 },
      { low: 5, high: 20 },
      { low: 22, high: 22 },
    ]);
    for (const [low = 0, high = 0] of [
      [2, 1],
      [0, 65_536],
      [-1, 2],
      [1.5, 2],
    ]) {
      expect(() => sortPorts({ name: "web", portRanges: [{ low, high }] })).toThrow(
        /service web: .*is no range of ports/,
      );
    }
    expect(() => sortPorts({ name: "web", portRanges: [] })).toThrow(/no ports/);
    expect(() => sortAddresses({ name: "web", addresses: [] })).toThrow(/no addresses/);
    expect(() => sortSources({ name: "web", allowedSourceAddresses: ["x"] })).toThrow(/source "x" is no address/);
  });
});
