import { describe, expect, it, test } from "vitest";
import { AddressError, addressFromUrl, countedAddress, formatAddress, parseAddress, plainAddress } from "./address.ts";

describe("parseAddress", () => {
  it.each([
    ["tls:localhost:1280", "tls", "localhost", 1280],
    ["tls:127.0.0.1:0", "tls", "127.0.0.1", 0],
    ["tls:[::1]:443", "tls", "::1", 443],
    ["tls::3022", "tls", "", 3022],
    ["tcp:a-b.example:65535", "tcp", "a-b.example", 65535],
  ])("reads %s and writes it back", (text, protocol, host, port) => {
    const address = parseAddress(text);
    expect(address).toEqual({ protocol, host, port });
    expect(formatAddress(address)).toBe(text);
  });

  it.each([
    "localhost:3022",
    "TLS:a:1",
    "tls:::1:443",
    "tls:a:http",
    "tls:a:+1",
    "tls:a:70000",
    "tls://a:1",
    "tls:a",
    "tls:a b:1",
    "tls:[fe80::1%a\r\nX: y]:1",
    "",
  ])("refuses %j", (text) => {
    expect(() => parseAddress(text)).toThrow(AddressError);
  });
});

describe("addressFromUrl", () => {
  it("reads the form the API publishes", () => {
    expect(addressFromUrl("tls://r1.example:3022")).toEqual({ protocol: "tls", host: "r1.example", port: 3022 });
    expect(addressFromUrl("tls://[::1]:3022/")).toEqual({ protocol: "tls", host: "::1", port: 3022 });
    expect(() => addressFromUrl("tls://r1.example/x")).toThrow(AddressError);
  });
});

test.each([
  ["192.0.2.1", "192.0.2.1"],
  ["::ffff:192.0.2.1", "192.0.2.1"],
  ["::FFFF:192.0.2.1", "192.0.2.1"],
  ["2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"],
  ["2001:0db8:1:2::6", "2001:db8:1:2::/64"],
  ["2001:db8::1", "2001:db8:0:0::/64"],
  ["fe80::1%eth0", "fe80:0:0:0::/64"],
  ["::1", "0:0:0:0::/64"],
  ["", ""],
])("%s counts as %s", (ip, counted) => expect(countedAddress(ip)).toBe(counted));

test("an address is shown without the prefix of IPv4 in IPv6", () => {
  expect(["::ffff:192.0.2.1", "::ffff:c000:201", "2001:db8::1"].map(plainAddress)).toEqual([
    "192.0.2.1",
    "::ffff:c000:201",
    "2001:db8::1",
  ]);
});
