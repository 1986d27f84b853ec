import { isIPv6 } from "node:net";

const MAPPED = /^::ffff:(?=\d+\.\d+\.\d+\.\d+$)/i;
const GROUPS = 8;
/** Groups of a /64. */
const NETWORK_GROUPS = 4;

/** An IP as people write it: an IPv4 client of a socket that listens on IPv6 and IPv4 is shown by its IPv4 address. */
export function plainAddress(ip: string): string {
  return ip.replace(MAPPED, "");
}

/**
 * An IP as it is counted wherever something is counted by address. Whoever has IPv6 has a whole /64 of addresses: they count as one, such as
 * `2001:db8:1:2::/64`. An IPv4-mapped address counts as its IPv4 address; other text counts as it is.
 */
export function countedAddress(ip: string): string {
  const plain = plainAddress(ip);
  if (!isIPv6(plain)) return plain;
  const [address = ""] = plain.split("%", 1);
  const [head = "", tail] = address.split("::", 2);
  const groups = head === "" ? [] : head.split(":");
  const behind = tail === undefined || tail === "" ? [] : tail.split(":");
  const missing = tail === undefined ? 0 : Math.max(0, GROUPS - groups.length - behind.length);
  const zeros = Array.from({ length: missing }, () => "0");
  return `${[...groups, ...zeros, ...behind]
    .slice(0, NETWORK_GROUPS)
    .map((group) => Number.parseInt(group, 16).toString(16))
    .join(":")}::/64`;
}
