import { contains, type IpPrefix, parseIp, parsePrefix } from "./ip.ts";

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
  readonly #prefixes: IpPrefix[] = [];
  #allNames = false;

  /** @throws Error about an entry that is neither */
  constructor(entries: readonly string[]) {
    for (const each of entries) {
      const entry = each.toLowerCase();
      if (entry === "*") this.#allNames = true;
      else if (entry.startsWith("*.")) this.#domains.push(entry.slice(1));
      else if (entry.includes("/") || parseIp(entry) !== undefined) this.#prefixes.push(parsePrefix(entry));
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
    const ip = parseIp(text);
    return ip !== undefined && this.#prefixes.some((prefix) => contains(prefix, ip));
  }
}
