import { expect, test } from "vitest";
import { countedAddress, plainAddress } from "./ip-address.ts";

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
