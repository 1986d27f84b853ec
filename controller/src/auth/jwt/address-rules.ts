import { BlockList, isIP } from "node:net";

type IpVersion = "ipv4" | "ipv6";

/** Never fetched from, whatever is allowed: this link, metadata services of clouds, multicast, broadcast, no address at all. */
const NEVER = [
  "0.0.0.0/8",
  "100.100.100.200",
  "168.63.129.16",
  "169.254.0.0/16",
  "192.0.0.192",
  "224.0.0.0/4",
  "240.0.0.0/4",
  "::",
  "fd00:ec2::254",
  "fd20:ce::254",
  "fe80::/10",
  "ff00::/8",
];

/** Allowed only where the operator names them: addresses that mean something else in every network. */
const PRIVATE = [
  "10.0.0.0/8",
  "100.64.0.0/10",
  "127.0.0.0/8",
  "172.16.0.0/12",
  "192.0.0.0/24",
  "192.0.2.0/24",
  "192.168.0.0/16",
  "198.18.0.0/15",
  "198.51.100.0/24",
  "203.0.113.0/24",
  "::1",
  "64:ff9b:1::/48",
  "100::/64",
  "2001::/32",
  "2001:db8::/32",
  "fc00::/7",
  "fec0::/10",
];

/** Which resolved addresses a JWKS may be fetched from (docs/protocol/authentication.md, "External tokens"). */
export class AddressRules {
  readonly #never = listOf(NEVER);
  readonly #private = listOf(PRIVATE);
  readonly #allowed: BlockList;

  /** @param allowed private networks and addresses that may be used, as `10.0.0.0/8` or `127.0.0.1` @throws RangeError for anything else */
  constructor(allowed: readonly string[]) {
    this.#allowed = listOf(allowed);
  }

  /** Why the address may not be used; undefined when it may. */
  refusal(address: string): string | undefined {
    const plain = address.split("%", 1)[0] ?? address;
    const version = isIP(plain);
    if (version === 0) return `${address} is no address`;
    // Through a translator an IPv6 address reaches the IPv4 address in it.
    const forms: [string, IpVersion][] = [[plain, version === 6 ? "ipv6" : "ipv4"]];
    const inner = version === 6 ? embeddedIpv4(plain) : undefined;
    if (inner !== undefined) forms.push([inner, "ipv4"]);
    if (forms.some(([text, family]) => this.#never.check(text, family))) return `${address} is never fetched from`;
    const isPrivate = forms.some(([text, family]) => this.#private.check(text, family));
    if (isPrivate && !forms.some(([text, family]) => this.#allowed.check(text, family))) {
      return `${address} is a private address that auth.jwks.allowedNetworks does not name`;
    }
    return undefined;
  }
}

function listOf(networks: readonly string[]): BlockList {
  const list = new BlockList();
  for (const network of networks) {
    const [address = "", length, ...rest] = network.split("/");
    const version = isIP(address);
    const maxLength = version === 6 ? 128 : 32;
    const prefix = length === undefined ? maxLength : /^\d{1,3}$/.test(length) ? Number(length) : Number.NaN;
    if (version === 0 || rest.length > 0 || !(prefix >= 0 && prefix <= maxLength)) {
      throw new RangeError(`expected a network such as 10.0.0.0/8 or an address, found ${network}`);
    }
    list.addSubnet(address, prefix, version === 6 ? "ipv6" : "ipv4");
  }
  return list;
}

/** The IPv4 address in an IPv4-mapped, IPv4-compatible, NAT64 or 6to4 address. */
function embeddedIpv4(address: string): string | undefined {
  const groups = groupsOf(address);
  const at = (index: number) => groups[index] ?? 0;
  const isZero = (from: number, to: number) => groups.slice(from, to).every((group) => group === 0);
  const isMapped = isZero(0, 5) && at(5) === 0xffff;
  const isCompatible = isZero(0, 6) && (at(6) !== 0 || at(7) > 1);
  const isTranslated = at(0) === 0x64 && at(1) === 0xff9b && isZero(2, 6);
  const isSiit = isZero(0, 4) && at(4) === 0xffff && at(5) === 0;
  if (isMapped || isCompatible || isTranslated || isSiit) return dotted(at(6), at(7));
  return at(0) === 0x2002 ? dotted(at(1), at(2)) : undefined;
}

function dotted(high: number, low: number): string {
  return [high >> 8, high & 255, low >> 8, low & 255].join(".");
}

/** The eight groups of an IPv6 address; the URL parser brings every way of writing one into the shortest. */
function groupsOf(address: string): number[] {
  const text = new URL(`http://[${address}]`).hostname.slice(1, -1);
  const [head = "", tail] = text.split("::", 2);
  const numbers = (part: string) => (part === "" ? [] : part.split(":").map((group) => Number.parseInt(group, 16)));
  const before = numbers(head);
  const behind = numbers(tail ?? "");
  return [...before, ...Array.from({ length: 8 - before.length - behind.length }, () => 0), ...behind];
}
