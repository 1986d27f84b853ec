import { describe, expect, it } from "vitest";
import type { AppData } from "../config/app-data.ts";
import { hostConfigs } from "../config/host-config.ts";
import { contains, formatIp, parsePrefix, parseUnscopedIp } from "../ip-range.ts";
import { AllowedAddresses, Translations } from "./addresses.ts";
import { targetOf } from "./target.ts";

describe("IP addresses", () => {
  it.each([
    ["1.2.3.4", "1.2.3.4"],
    ["::ffff:1.2.3.4", "1.2.3.4"],
    ["::", "::"],
    ["fd00::1:2", "fd00::1:2"],
    ["1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8"],
    ["64:ff9b::192.0.2.1", "64:ff9b::c000:201"],
  ])("%s", (text, form) => {
    const ip = parseUnscopedIp(text);
    expect(ip && formatIp(ip.family, ip.value)).toBe(form);
  });

  it.each(["", "x", "1.2.3", "1.2.3.256", "fe80::1%eth0", "1:2"])("%j is none", (text) => {
    expect(parseUnscopedIp(text)).toBeUndefined();
  });

  it.each(["10.0.0.0/33", "10.0.0.0/", "10.0.0.0/8/8", "fd00::/129", "ten"])("%j is no range", (text) => {
    expect(() => parsePrefix(text)).toThrow("expected an IP address or a range");
  });

  it("are in a range by its leading bits, of their own version", () => {
    expect(contains(parsePrefix("10.1.2.3/8"), parseUnscopedIp("10.9.9.9")!)).toBe(true);
    expect(contains(parsePrefix("0.0.0.0/0"), parseUnscopedIp("10.9.9.9")!)).toBe(true);
    expect(contains(parsePrefix("::/0"), parseUnscopedIp("10.9.9.9")!)).toBe(false);
    expect(contains(parsePrefix("10.0.0.1"), parseUnscopedIp("10.0.0.2")!)).toBe(false);
  });
});

describe("allowed addresses", () => {
  const allowed = new AllowedAddresses(["*.Example.com", "host.ziti", "10.0.0.0/8", "192.0.2.1", "fd00::/8"]);
  it.each([
    ["x.example.com", true],
    ["a.b.example.com", true],
    ["EXAMPLE.com.", true],
    ["notexample.com", false],
    ["host.ziti", true],
    ["other.ziti", false],
    ["10.0.0.1", false],
  ])("name %s", (name, isAllowed) => {
    expect(allowed.hasName(name)).toBe(isAllowed);
  });

  it.each([
    ["10.255.0.1", true],
    ["192.0.2.1", true],
    ["192.0.2.2", false],
    ["fd12::1", true],
    ["fe80::1", false],
    ["host.ziti", false],
  ])("address %s", (ip, isAllowed) => {
    expect(allowed.hasIp(ip)).toBe(isAllowed);
  });

  it("* alone means every name and no address", () => {
    const all = new AllowedAddresses(["*"]);
    expect([all.hasName("any.where"), all.hasIp("10.0.0.1")]).toEqual([true, false]);
    for (const name of [
      "127.0.0.1",
      "127.1",
      "2130706433",
      "0x7f000001",
      "0177.0.0.01",
      "10.0.0.1.",
      "::1",
      "[::1]",
      "",
    ]) {
      expect(all.hasName(name), name).toBe(false);
    }
    expect(() => new AllowedAddresses(["a.*.b"])).toThrow("expected * only alone");
  });
});

describe("names of dialers", () => {
  it.each([
    "a\r\nHost: b.example.com",
    "evil:443 HTTP/1.1\r\n\r\n.example.com",
    "a b.example.com",
    "a/.example.com",
    "a\0.example.com",
    `${"a".repeat(64)}.example.com`,
    `${"a.".repeat(130)}example.com`,
  ])("%j are none, although a wildcard ends them", (name) => {
    expect(new AllowedAddresses(["*.example.com"]).hasName(name)).toBe(false);
    expect(new AllowedAddresses(["*"]).hasName(name)).toBe(false);
  });

  it("are quoted in part only when they are refused", () => {
    const allowed = new AllowedAddresses(["x.ziti"]);
    const config = { protocol: { fixed: "tcp" }, address: { allowed }, port: { fixed: 1 }, sourcePrefixes: [] };
    const dial = () => targetOf(config as never, { dst_hostname: `a${"\u001b[2J".repeat(10_000)}` });
    expect(dial).toThrow(expect.objectContaining({ message: expect.stringMatching(/^[ -~]{1,200}$/) }));
  });
});

describe("translations", () => {
  const translations = new Translations([
    { from: "192.168.0.0", to: "10.1.0.0", prefixLength: 16 },
    { from: "192.168.1.4", to: "203.0.113.9", prefixLength: 32 },
    { from: "fd00::", to: "fd99::", prefixLength: 64 },
    { from: "172.16.0.0", to: "fd77::", prefixLength: 12 },
  ]);
  it.each([
    ["192.168.10.3", "10.1.10.3"],
    ["192.168.1.4", "203.0.113.9"],
    ["192.168.1.5", "10.1.1.5"],
    ["fd00::5:6", "fd99::5:6"],
    ["172.16.1.1", "172.16.1.1"],
    ["8.8.8.8", "8.8.8.8"],
    ["web.ziti", "web.ziti"],
  ])("%s becomes %s", (from, to) => {
    expect(translations.apply(from)).toBe(to);
  });

  it("of all addresses replaces nothing or everything", () => {
    expect(new Translations([{ from: "0.0.0.0", to: "9.9.9.9", prefixLength: 0 }]).apply("1.2.3.4")).toBe("1.2.3.4");
  });
});

describe("where a circuit goes", () => {
  const configOf = (config: object) =>
    hostConfigs({
      id: "i",
      name: "s",
      canDial: false,
      canBind: true,
      isEncrypted: false,
      configs: new Map([["host.v1", config]]),
    })![0]!;
  const fixed = { protocol: "tcp", address: "db.internal", port: 5432 };
  const forwarded = {
    forwardProtocol: true,
    allowedProtocols: ["tcp"],
    forwardAddress: true,
    allowedAddresses: ["*.ziti", "192.168.0.0/16"],
    forwardAddressTranslations: [{ from: "192.168.0.0", to: "10.1.0.0", prefixLength: 16 }],
    forwardPort: true,
    allowedPortRanges: [
      { low: 80, high: 90 },
      { low: 443, high: 443 },
    ],
    allowedSourceAddresses: ["192.0.2.0/24", "fd00::/8"],
  };
  const asked: AppData = { dst_protocol: "tcp", dst_ip: "192.168.10.3", dst_port: "443" };

  it("to a fixed target whatever the dialer says", () => {
    expect(targetOf(configOf(fixed), {})).toEqual({ protocol: "tcp", host: "db.internal", port: 5432 });
    expect(targetOf(configOf(fixed), asked)).toMatchObject({ host: "db.internal", port: 5432 });
  });

  it.each<[string, AppData, object]>([
    ["its address, translated", asked, { protocol: "tcp", host: "10.1.10.3", port: 443 }],
    ["its name", { ...asked, dst_hostname: "Web.ZITI" }, { host: "web.ziti" }],
    ["its address, without a name", { ...asked, dst_hostname: "" }, { host: "10.1.10.3" }],
    ["from an address", { ...asked, source_addr: "192.0.2.7" }, { source: { ip: "192.0.2.7", port: 0 } }],
    ["from a port", { ...asked, source_addr: "192.0.2.7:99" }, { source: { ip: "192.0.2.7", port: 99 } }],
    ["from bare IPv6", { ...asked, source_addr: "fd00::7" }, { source: { ip: "fd00::7", port: 0 } }],
    ["from IPv6 and port", { ...asked, source_addr: "[fd00::7]:99" }, { source: { ip: "fd00::7", port: 99 } }],
  ])("to what the dialer asked for: %s", (_, appData, target) => {
    expect(targetOf(configOf(forwarded), appData)).toMatchObject(target);
  });

  it.each<[string, AppData]>([
    ["dst_protocol required but not provided", { ...asked, dst_protocol: "" }],
    ["protocol 'udp' is not in allowed protocols", { ...asked, dst_protocol: "udp" }],
    ["dst_ip required but not provided", { dst_protocol: "tcp", dst_port: "443" }],
    ["address '10.0.0.1' is not in allowed addresses", { ...asked, dst_ip: "10.0.0.1" }],
    ["address 'web.com' is not in allowed addresses", { ...asked, dst_hostname: "web.com" }],
    ["dst_port required but not provided", { dst_protocol: "tcp", dst_ip: "192.168.1.1" }],
    ["port 91 is not in allowed port ranges", { ...asked, dst_port: "91" }],
    ["port 80x is not in allowed port ranges", { ...asked, dst_port: "80x" }],
    ["source address '10.0.0.1' is not in allowed source addresses", { ...asked, source_addr: "10.0.0.1:5" }],
    ["source address 'here' is not an IP address", { ...asked, source_addr: "here" }],
    ["source address '192.0.2.7:70000' has no valid port", { ...asked, source_addr: "192.0.2.7:70000" }],
  ])("nowhere: %s", (text, appData) => {
    expect(() => targetOf(configOf(forwarded), appData)).toThrow(text);
  });

  it("never from an address of the host that no config allows", () => {
    expect(() => targetOf(configOf(fixed), { source_addr: "127.0.0.1" })).toThrow("not in allowed source addresses");
  });
});
