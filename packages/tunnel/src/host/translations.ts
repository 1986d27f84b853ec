import { contains, formatIp, type Ip, type IpPrefix, parseIp } from "./ip.ts";

interface Row {
  readonly from: IpPrefix;
  readonly to: Ip;
}

/** Maps ranges of addresses onto others: the network's bits are replaced, those of the host stay. */
export class Translations {
  /** Longest prefix first. */
  readonly #rows: readonly Row[];

  /** @throws Error about a row that is none */
  constructor(rows: readonly { readonly from: string; readonly to: string; readonly prefixLength: number }[]) {
    this.#rows = rows
      .map(({ from, to, prefixLength }) => {
        const [first, second] = [parseIp(from), parseIp(to)];
        if (first === undefined || second === undefined || prefixLength > first.bits) {
          const got = JSON.stringify({ from, to, prefixLength });
          throw new Error(`expected two IP addresses and a prefix length that they can have, got ${got}`);
        }
        return { from: { ...first, length: prefixLength }, to: second };
      })
      .toSorted((a, b) => b.from.length - a.from.length);
  }

  /** What an IP address becomes by the first row that is about it; other text stays as it is. */
  apply(address: string): string {
    const ip = parseIp(address);
    if (ip === undefined) return address;
    const row = this.#rows.find(({ from, to }) => to.bits === ip.bits && contains(from, ip));
    if (row === undefined) return address;
    const hostBits = (1n << BigInt(ip.bits - row.from.length)) - 1n;
    return formatIp({ bits: ip.bits, value: (row.to.value & ~hostBits) | (ip.value & hostBits) });
  }
}
