import { isIP, isIPv6 } from "node:net";

export type IpFamily = 4 | 6;

/** Addresses that have the first `length` bits in common with `base`. */
export interface IpRange {
  readonly family: IpFamily;
  /** Lowest address: the bits after `length` are zero. */
  readonly base: bigint;
  readonly length: number;
}

/** Bits of an address. */
export function widthOf(family: IpFamily): number {
  return family === 4 ? 32 : 128;
}

/** An IPv4 or IPv6 address as a number; undefined for other text. A mapped IPv4 address (`::ffff:192.0.2.1`) is that IPv4 address. */
export function parseIp(text: string): { family: IpFamily; value: bigint } | undefined {
  switch (isIP(text)) {
    case 4:
      return { family: 4, value: parseIpv4(text) };
    case 6: {
      const value = parseIpv6(text.split("%")[0] ?? text);
      return value >> 32n === 0xffffn ? { family: 4, value: value & 0xffffffffn } : { family: 6, value };
    }
    default:
      return undefined;
  }
}

/** `192.0.2.1`, `192.0.2.0/24`, `2001:db8::/32`; bits after the prefix are cleared. Undefined for other text. */
export function parseRange(text: string): IpRange | undefined {
  const [address = "", length, ...more] = text.split("/");
  const ip = parseIp(address);
  if (ip === undefined || more.length > 0) return undefined;
  const width = widthOf(ip.family);
  if (length === undefined) return rangeAround(ip, width);
  const bits = Number(length);
  if (!/^\d{1,3}$/.test(length) || bits > width) return undefined;
  // The prefix of a mapped address counts the bits of an IPv6 address, which no author means.
  if (ip.family === 4 && isIPv6(address)) return undefined;
  return rangeAround(ip, bits);
}

/** As {@link parseIp} for what dialers and configs name: an address with a zone (`fe80::1%eth0`) is none. */
export function parseUnscopedIp(text: string): ReturnType<typeof parseIp> {
  return text.includes("%") ? undefined : parseIp(text);
}

/** `10.0.0.0/8`, or a single address; a mapped IPv4 address counts the bits of IPv4. @throws Error which says what was expected */
export function parsePrefix(text: string): IpRange {
  const [address = "", length, ...more] = text.split("/");
  const ip = parseUnscopedIp(address);
  const width = ip === undefined ? 0 : widthOf(ip.family);
  const count = length === undefined ? width : /^\d{1,3}$/.test(length) ? Number(length) : undefined;
  if (ip === undefined || count === undefined || count > width || more.length > 0) {
    throw new Error(`expected an IP address or a range such as 10.0.0.0/8, got ${JSON.stringify(text)}`);
  }
  return rangeAround(ip, count);
}

/** The range of that length that an address is in. */
export function rangeAround({ family, value }: NonNullable<ReturnType<typeof parseIp>>, length: number): IpRange {
  const hostBits = BigInt(widthOf(family) - length);
  return { family, base: (value >> hostBits) << hostBits, length };
}

export function contains(range: IpRange, ip: { readonly family: IpFamily; readonly value: bigint }): boolean {
  if (range.family !== ip.family) return false;
  const hostBits = BigInt(widthOf(range.family) - range.length);
  return ip.value >> hostBits === range.base >> hostBits;
}

/** True when one of them holds the other. */
export function overlaps(a: IpRange, b: IpRange): boolean {
  const [wide, narrow] = a.length <= b.length ? [a, b] : [b, a];
  return contains(wide, { family: narrow.family, value: narrow.base });
}

/** The ranges without those that another one holds, in the order of their addresses. */
export function withoutContained(ranges: readonly IpRange[]): IpRange[] {
  const ordered = ranges.toSorted((a, b) =>
    a.family !== b.family ? a.family - b.family : a.base < b.base ? -1 : a.base > b.base ? 1 : a.length - b.length,
  );
  const kept: IpRange[] = [];
  for (const range of ordered) {
    const last = kept.at(-1);
    if (last === undefined || !contains(last, { family: range.family, value: range.base })) kept.push(range);
  }
  return kept;
}

export function formatIp(family: IpFamily, value: bigint): string {
  if (family === 4) return [24n, 16n, 8n, 0n].map((shift) => (value >> shift) & 0xffn).join(".");
  const groups = Array.from({ length: 8 }, (_, i) => ((value >> BigInt(112 - 16 * i)) & 0xffffn).toString(16));
  // The longest run of zeros, two groups at least, is left out.
  let best = { start: -1, length: 1 };
  for (let start = 0; start < 8; start++) {
    let length = 0;
    while (groups[start + length] === "0") length++;
    if (length > best.length) best = { start, length };
  }
  if (best.start < 0) return groups.join(":");
  return `${groups.slice(0, best.start).join(":")}::${groups.slice(best.start + best.length).join(":")}`;
}

export function formatRange(range: IpRange): string {
  return `${formatIp(range.family, range.base)}/${range.length}`;
}

function parseIpv4(text: string): bigint {
  return text.split(".").reduce((value, part) => (value << 8n) | BigInt(part), 0n);
}

function parseIpv6(text: string): bigint {
  let written = text;
  const dotted = /^(.*:)(\d+\.\d+\.\d+\.\d+)$/.exec(text);
  if (dotted?.[1] !== undefined && dotted[2] !== undefined) {
    const tail = parseIpv4(dotted[2]);
    written = `${dotted[1]}${(tail >> 16n).toString(16)}:${(tail & 0xffffn).toString(16)}`;
  }
  const [head = "", tail] = written.split("::");
  const before = head === "" ? [] : head.split(":");
  const after = tail === undefined || tail === "" ? [] : tail.split(":");
  const zeros = Array.from({ length: 8 - before.length - after.length }, () => "0");
  return [...before, ...(tail === undefined ? [] : zeros), ...after].reduce(
    (value, group) => (value << 16n) | BigInt(`0x${group}`),
    0n,
  );
}
