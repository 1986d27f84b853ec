import { describe, expect, test } from "vitest";
import { AddressRules } from "./address-rules.ts";

const nothing = new AddressRules([]);
const everything = new AddressRules(["0.0.0.0/0", "::/0"]);

describe("GHSA-whjr-3j94-gw3c: addresses of key sets", () => {
  test.each([
    "169.254.169.254",
    "169.254.0.1",
    "0.0.0.0",
    "0.1.2.3",
    "224.0.0.1",
    "239.255.255.250",
    "255.255.255.255",
    "168.63.129.16",
    "100.100.100.200",
    "::",
    "fe80::1",
    "fe80::1%eth0",
    "ff02::1",
    "ff05::2",
    "fd00:ec2::254",
    "::ffff:169.254.169.254",
    "::ffff:a9fe:a9fe",
    "::169.254.169.254",
    "64:ff9b::169.254.169.254",
    "2002:a9fe:a9fe::1",
    "::ffff:0:169.254.169.254",
  ])("%s is refused whatever is allowed", (address) => {
    expect(nothing.refusal(address)).toContain("never");
    expect(everything.refusal(address)).toContain("never");
  });

  test.each([
    ["127.0.0.1", "127.0.0.0/8"],
    ["10.1.2.3", "10.1.0.0/16"],
    ["172.31.255.255", "172.16.0.0/12"],
    ["192.168.1.1", "192.168.1.1"],
    ["100.64.0.1", "100.64.0.0/10"],
    ["::1", "::1"],
    ["fd12:3456::1", "fd12::/16"],
    ["::ffff:10.1.2.3", "10.0.0.0/8"],
    ["64:ff9b::10.1.2.3", "10.0.0.0/8"],
  ])("%s is refused unless %s is allowed", (address, network) => {
    expect(nothing.refusal(address)).toContain("allowedNetworks");
    expect(new AddressRules([network]).refusal(address)).toBeUndefined();
    expect(new AddressRules(["203.0.113.7/32"]).refusal(address)).toContain("allowedNetworks");
  });

  test.each(["1.1.1.1", "8.8.8.8", "172.32.0.1", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8"])(
    "%s is public",
    (address) => expect(nothing.refusal(address)).toBeUndefined(),
  );

  test("what is no address is refused", () => {
    expect(nothing.refusal("localhost")).toContain("no address");
  });
});

test.each(["10.0.0.0/33", "localhost", "10.0.0.0/8/8", "::1/129", "10.0.0.0/x", "", "10.0.0.0/"])(
  "an allow list with %j is refused",
  (network) => expect(() => new AddressRules([network])).toThrow(RangeError),
);
