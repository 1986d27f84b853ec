import { isIPv4, isIPv6 } from "node:net";

/** An IP address as a number; IPv4-mapped addresses count as IPv4. */
export interface Ip {
  readonly bits: 32 | 128;
  readonly value: bigint;
}

/** An IP address with the number of its leading bits that count. */
export interface IpPrefix extends Ip {
  readonly length: number;
}

const MAPPED_PREFIX = 0xffffn;

/** The address that `text` is; undefined when it is none. Zones (`%eth0`) are not taken. */
export function parseIp(text: string): Ip | undefined {
  if (isIPv4(text)) return { bits: 32, value: ipv4Value(text) };
  if (!isIPv6(text) || text.includes("%")) return undefined;
  const value = ipv6Value(text);
  return value >> 32n === MAPPED_PREFIX ? { bits: 32, value: value & 0xffff_ffffn } : { bits: 128, value };
}

/** `10.0.0.0/8`, or a single address. @throws Error which says what was expected */
export function parsePrefix(text: string): IpPrefix {
  const [address = "", length, ...more] = text.split("/");
  const ip = parseIp(address);
  const count = length === undefined ? ip?.bits : /^\d{1,3}$/.test(length) ? Number(length) : undefined;
  if (ip === undefined || count === undefined || count > ip.bits || more.length > 0) {
    throw new Error(`expected an IP address or a range such as 10.0.0.0/8, got ${JSON.stringify(text)}`);
  }
  return { ...ip, length: count };
}

/** The prefix holds the address. */
export function contains(prefix: IpPrefix, ip: Ip): boolean {
  const shift = BigInt(prefix.bits - prefix.length);
  return prefix.bits === ip.bits && prefix.value >> shift === ip.value >> shift;
}

/** The usual text of an address; IPv6 without its abbreviations is as good for everything that connects. */
export function formatIp(ip: Ip): string {
  if (ip.bits === 32) return [24n, 16n, 8n, 0n].map((shift) => (ip.value >> shift) & 0xffn).join(".");
  const groups = Array.from({ length: 8 }, (_, i) => ((ip.value >> BigInt(112 - 16 * i)) & 0xffffn).toString(16));
  return groups.join(":");
}

function ipv4Value(text: string): bigint {
  return text.split(".").reduce((value, octet) => (value << 8n) | BigInt(octet), 0n);
}

function ipv6Value(text: string): bigint {
  const [head = "", tail] = text.split("::");
  const groupsOf = (part: string): bigint[] =>
    part === ""
      ? []
      : part.split(":").flatMap((group) => {
          if (!group.includes(".")) return [BigInt(`0x${group}`)];
          const value = ipv4Value(group);
          return [value >> 16n, value & 0xffffn];
        });
  const first = groupsOf(head);
  const last = groupsOf(tail ?? "");
  const zeros = Array.from({ length: 8 - first.length - last.length }, () => 0n);
  return [...first, ...zeros, ...last].reduce((value, group) => (value << 16n) | group, 0n);
}
