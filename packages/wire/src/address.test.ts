import { describe, expect, it } from "vitest";
import { AddressError, addressFromUrl, formatAddress, parseAddress } from "./address.ts";

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
