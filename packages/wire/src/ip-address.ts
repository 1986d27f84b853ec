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
 * The unit by which addresses are counted: an IPv6 /64 such as `2001:db8:1:2::/64`, or an IPv4 address, also when mapped into IPv6. Other text counts as
 * it is.
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
