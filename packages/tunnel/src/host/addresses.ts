import { contains, formatIp, type IpRange, parsePrefix, parseUnscopedIp, rangeAround, widthOf } from "../ip-range.ts";

/**
 * What a dialer may call a name, before it is known to be one: labels of letters, digits, `-` and `_`. One whose last label
 * is a number is an address to resolvers, however it is written (`127.1`, `0x7f000001`), and needs a range that allows it.
 */
const nameForm = /^(?=.{1,253}$)(?:[a-z0-9_-]{1,63}\.)*(?!(?:\d+|0x[0-9a-f]*)$)[a-z0-9_-]{1,63}$/;

/** The addresses that dialers may ask for: names, `*.domain`, `*`, IP addresses and ranges. */
export class AllowedAddresses {
  readonly #names = new Set<string>();
  /** With their dot: `.example.com`. */
  readonly #domains: string[] = [];
  readonly #prefixes: IpRange[] = [];
  #allNames = false;

  /** @throws Error about an entry that is neither */
  constructor(entries: readonly string[]) {
    for (const each of entries) {
      const entry = each.toLowerCase();
      if (entry === "*") this.#allNames = true;
      else if (entry.startsWith("*.")) this.#domains.push(entry.slice(1));
      else if (entry.includes("/") || parseUnscopedIp(entry) !== undefined) this.#prefixes.push(parsePrefix(entry));
      else if (entry.includes("*")) {
        throw new Error(`expected * only alone or as the first label, got ${JSON.stringify(each)}`);
      } else this.#names.add(entry);
    }
  }

  /** Whether a name is meant; `*.d` means `d`, too. Ranges of addresses mean no names. */
  hasName(name: string): boolean {
    const wanted = name.toLowerCase().replace(/\.$/, "");
    if (this.#names.has(wanted)) return true;
    if (!nameForm.test(wanted)) return false;
    return this.#allNames || this.#domains.some((domain) => wanted.endsWith(domain) || wanted === domain.slice(1));
  }

  /** Whether an IP address is meant; names and `*` mean none. */
  hasIp(text: string): boolean {
    const ip = parseUnscopedIp(text);
    return ip !== undefined && this.#prefixes.some((prefix) => contains(prefix, ip));
  }
}

interface Translation {
  readonly from: IpRange;
  readonly to: NonNullable<ReturnType<typeof parseUnscopedIp>>;
}

/** Maps ranges of addresses onto others: the network's bits are replaced, those of the host stay. */
export class Translations {
  /** Longest prefix first. */
  readonly #rows: readonly Translation[];

  /** @throws Error about a row that is none */
  constructor(rows: readonly { readonly from: string; readonly to: string; readonly prefixLength: number }[]) {
    this.#rows = rows
      .map(({ from, to, prefixLength }) => {
        const [first, second] = [parseUnscopedIp(from), parseUnscopedIp(to)];
        if (first === undefined || second === undefined || prefixLength > widthOf(first.family)) {
          const got = JSON.stringify({ from, to, prefixLength });
          throw new Error(`expected two IP addresses and a prefix length that they can have, got ${got}`);
        }
        return { from: rangeAround(first, prefixLength), to: second };
      })
      .toSorted((a, b) => b.from.length - a.from.length);
  }

  /** What an IP address becomes by the first row that is about it; other text stays as it is. */
  apply(address: string): string {
    const ip = parseUnscopedIp(address);
    if (ip === undefined) return address;
    const row = this.#rows.find(({ from, to }) => to.family === ip.family && contains(from, ip));
    if (row === undefined) return address;
    const hostBits = (1n << BigInt(widthOf(ip.family) - row.from.length)) - 1n;
    return formatIp(ip.family, (row.to.value & ~hostBits) | (ip.value & hostBits));
  }
}
