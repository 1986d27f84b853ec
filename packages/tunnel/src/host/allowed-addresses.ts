import { contains, type IpPrefix, parseIp, parsePrefix } from "./ip.ts";

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
    return (
      this.#allNames ||
      this.#names.has(wanted) ||
      this.#domains.some((domain) => wanted.endsWith(domain) || wanted === domain.slice(1))
    );
  }

  /** Whether an IP address is meant; names and `*` mean none. */
  hasIp(text: string): boolean {
    const ip = parseIp(text);
    return ip !== undefined && this.#prefixes.some((prefix) => contains(prefix, ip));
  }
}
