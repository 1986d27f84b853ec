import type { Family } from "../intercept/ip-range.ts";
import { InterceptError } from "../interceptor.ts";
import type { AddressPool } from "./address-pool.ts";

/** What a question for an address comes to. */
export type Lookup =
  /** The address may be told when `ready` has come true: then it is intercepted. */
  | { readonly kind: "address"; readonly address: string; readonly ready: Promise<void> }
  | { readonly kind: "unknown" }
  | { readonly kind: "exhausted" };

/** Told when a query has given a name under a wildcard its address; the query is answered when the promise has come true. */
export type WildcardListener = (name: string, address: string) => Promise<void>;

interface Entry {
  readonly address: string;
  /** Services that have the name; a wildcard's service counts once, too. */
  readonly owners: Set<string>;
  ready: Promise<void>;
}

interface Wildcard {
  readonly owner: string;
  readonly onAddress: WildcardListener;
}

/** Names that can be asked for, at most; a query for a random name under a wildcard must not fill the memory. */
const MOST_NAMES = 65_536;

const READY = Promise.resolve();

/** Names and wildcards of services, and the one address that each name has for as long as some service has it. */
export class Names {
  readonly #pool: AddressPool;
  readonly #isExcluded: (name: string) => boolean;
  readonly #byName = new Map<string, Entry>();
  readonly #byAddress = new Map<string, string>();
  /** By the suffix with its leading dot; of several services' the last one counts. */
  readonly #wildcards = new Map<string, Wildcard[]>();

  /** @param isExcluded names (normal form) that no wildcard covers */
  constructor(pool: AddressPool, isExcluded: (name: string) => boolean = () => false) {
    this.#pool = pool;
    this.#isExcluded = isExcluded;
  }

  /** Of the addresses. */
  get family(): Family {
    return this.#pool.family;
  }

  /**
   * The address of the name, which `owner` has from now on, too.
   * @throws InterceptError when no address is left
   */
  add(name: string, owner: string): string {
    const key = normalName(name);
    const entry = this.#byName.get(key) ?? this.#allocate(key);
    if (entry === undefined) {
      throw new InterceptError(
        "RANGE_EXHAUSTED",
        `no address is left for the name ${key}: widen dnsSvcIpRange, or intercept fewer names`,
      );
    }
    entry.owners.add(owner);
    return entry.address;
  }

  /** Names that end in `.domain` get addresses when they are asked for; true when the domain had another service, which it takes precedence over. */
  addWildcard(pattern: string, owner: string, onAddress: WildcardListener): boolean {
    const suffix = suffixOf(pattern);
    const others = this.#wildcards.get(suffix) ?? [];
    this.#wildcards.set(suffix, [...others.filter((other) => other.owner !== owner), { owner, onAddress }]);
    return others.some((other) => other.owner !== owner);
  }

  /** Takes everything from a service; addresses of names that no other one has are free again. Returns the freed names. */
  removeOwner(owner: string): string[] {
    const freed: string[] = [];
    for (const [suffix, wildcards] of this.#wildcards) {
      const left = wildcards.filter((wildcard) => wildcard.owner !== owner);
      if (left.length > 0) this.#wildcards.set(suffix, left);
      else this.#wildcards.delete(suffix);
    }
    for (const [name, entry] of this.#byName) {
      if (!entry.owners.delete(owner) || entry.owners.size > 0) continue;
      this.#byName.delete(name);
      this.#byAddress.delete(entry.address);
      this.#pool.free(entry.address);
      freed.push(name);
    }
    return freed;
  }

  /** Name and wildcard are tried; a name found by a wildcard, the most specific one, gets its address now. */
  lookUp(name: string): Lookup {
    const key = normalName(name);
    const known = this.#byName.get(key);
    if (known !== undefined) return { kind: "address", address: known.address, ready: known.ready };
    const wildcard = this.#wildcardOf(key);
    if (wildcard === undefined) return { kind: "unknown" };
    const entry = this.#byName.size < MOST_NAMES ? this.#allocate(key) : undefined;
    if (entry === undefined) return { kind: "exhausted" };
    entry.owners.add(wildcard.owner);
    entry.ready = wildcard.onAddress(key, entry.address);
    return { kind: "address", address: entry.address, ready: entry.ready };
  }

  /** True for names that a service has, by themselves or by a wildcard. */
  knows(name: string): boolean {
    const key = normalName(name);
    return this.#byName.has(key) || this.#wildcardOf(key) !== undefined;
  }

  nameOf(address: string): string | undefined {
    return this.#byAddress.get(address);
  }

  #wildcardOf(name: string): Wildcard | undefined {
    for (let dot = name.indexOf("."); dot >= 0; dot = name.indexOf(".", dot + 1)) {
      const wildcard = this.#wildcards.get(name.slice(dot))?.at(-1);
      if (wildcard !== undefined) return this.#isExcluded(name) ? undefined : wildcard;
    }
    return undefined;
  }

  #allocate(name: string): Entry | undefined {
    const address = this.#pool.take();
    if (address === undefined) return undefined;
    const entry: Entry = { address, owners: new Set(), ready: READY };
    this.#byName.set(name, entry);
    this.#byAddress.set(address, name);
    return entry;
  }
}

/** Lower-case, without the final dot. */
export function normalName(name: string): string {
  return name.toLowerCase().replace(/\.$/, "");
}

export function isWildcard(address: string): boolean {
  return address.startsWith("*.");
}

/** `*.Example.org` is `.example.org`. */
function suffixOf(pattern: string): string {
  const domain = normalName(pattern.slice(2));
  if (!isWildcard(pattern) || domain === "" || domain.includes("*")) {
    throw new InterceptError("BAD_ADDRESS", `"${pattern}" is no wildcard; expected one like *.example.org`);
  }
  return `.${domain}`;
}
