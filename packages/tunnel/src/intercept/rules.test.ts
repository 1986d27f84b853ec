import { describe, expect, test } from "vitest";
import { parseRange } from "../ip-range.ts";
import type { Intercept } from "./intercept-set.ts";
import { renderRules } from "./rules.ts";

const ranges = (...texts: string[]) => texts.map((text) => parseRange(text)!);
const intercept = (more: Partial<Intercept>): Intercept => ({
  ...{ id: "s", name: "s", protocols: ["tcp"], ranges: ranges("10.0.0.1"), sources: [] },
  ports: [{ low: 80, high: 80 }],
  ...more,
});
const listeners = { tcp: { 4: 1001, 6: 1002 }, udp: { 4: 1003 } };
/** The rules of the chains, without what surrounds them. */
const rulesOf = (intercepts: Intercept[], lanIf?: string): string[] =>
  renderRules(intercepts, { table: "t", listeners, lanIf })
    .split("\n")
    .filter((line) => line.startsWith("    ") && !line.includes("hook"))
    .map((line) => line.trim());

describe("the table of rules", () => {
  test("takes the place of the former one in one transaction", () => {
    expect(renderRules([], { table: "t", listeners })).toBe(
      [
        "table inet t",
        "delete table inet t",
        "table inet t {",
        "  chain intercept {",
        "    type filter hook prerouting priority mangle; policy accept;",
        "  }",
        "}",
        "",
      ].join("\n"),
    );
  });

  test("has one rule for all services with the same ports and sources", () => {
    const many = Array.from({ length: 300 }, (_, i) =>
      intercept({ name: `s${i}`, ranges: ranges(`10.0.${i >> 8}.${i & 255}`) }),
    );
    expect(rulesOf(many)).toHaveLength(1);
    expect(rulesOf([intercept({}), intercept({ ranges: ranges("10.0.0.0/24", "10.9.0.0/16") })])).toEqual([
      "ip daddr { 10.0.0.0/24, 10.9.0.0/16 } tcp dport { 80 } tproxy ip to 127.0.0.1:1001 accept",
    ]);
  });

  test("has rules by protocol, family, ports and sources, where there is a listener", () => {
    const ports = [
      { low: 90, high: 99 },
      { low: 80, high: 89 },
      { low: 443, high: 443 },
    ];
    expect(
      rulesOf([
        intercept({ protocols: ["tcp", "udp"], ranges: ranges("10.0.0.1", "2001:db8::/32"), ports }),
        intercept({
          ranges: ranges("10.0.0.1", "2001:db8::1"),
          sources: ranges("192.0.2.0/24", "192.0.2.1", "198.51.100.1"),
        }),
      ]),
    ).toEqual([
      "ip daddr { 10.0.0.1 } tcp dport { 80-99, 443 } tproxy ip to 127.0.0.1:1001 accept",
      "ip6 daddr { 2001:db8::/32 } tcp dport { 80-99, 443 } tproxy ip6 to [::1]:1002 accept",
      "ip daddr { 10.0.0.1 } udp dport { 80-99, 443 } tproxy ip to 127.0.0.1:1003 accept",
      // No client with an IPv6 address is allowed, so there is no IPv6 rule.
      "ip saddr { 192.0.2.0/24, 198.51.100.1 } ip daddr { 10.0.0.1 } tcp dport { 80 } tproxy ip to 127.0.0.1:1001 accept",
    ]);
  });

  test("lets clients of an interface in", () => {
    expect(rulesOf([intercept({})], "lan0")).toContain('iifname "lan0" ip daddr { 10.0.0.1 } tcp dport { 80 } accept');
  });
});
