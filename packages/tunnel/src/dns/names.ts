import { InterceptError } from "../interceptor.ts";
import { formatIp, type IpFamily, parseIp, parseRange, widthOf } from "../ip-range.ts";

/** What a question for an address comes to. */
export type Lookup =
  /** The address may be told when `ready` has come true: then it is intercepted. */
  | { readonly kind: "address"; readonly address: string; readonly ready: Promise<void> }
  | { readonly kind: "unknown" }
  | { readonly kind: "exhausted" };

/** Called when a query has given a name under a wildcard its address; the query is answered when the promise has come true. */
export type WildcardListener = (name: string, address: string) => Promise<void>;

export interface NamesOptions {
  /** Names (normal form) that no wildcard covers. */
  readonly isExcluded?: ((name: string) => boolean) | undefined;
  /** Whether a client has a connection to the address, or a flow of datagrams. */
  readonly isInUse?: ((address: string) => boolean) | undefined;
  /** 65,536 when not given: questions for random names under a wildcard must not fill the memory. */
  readonly maxNames?: number;
  /**
   * An address without a question, a new connection or an open one for so many milliseconds may be given to another name;
   * 2 minutes, twice the TTL, when not given.
   */
  readonly restMs?: number | undefined;
  /** Milliseconds of a clock that never jumps; for tests. */
  readonly now?: () => number;
}

/** How long a client may go on using the answer to a question. */
export const ADDRESS_TTL_SECONDS = 60;
const REST_MS = 2 * ADDRESS_TTL_SECONDS * 1000;

interface NameEntry {
  readonly address: string;
  /** Services that have the name itself. */
  readonly owners: Set<string>;
  /** That the name was found by. */
  wildcard: Wildcard | undefined;
  ready: Promise<void>;
  lastUse: number;
}

interface Wildcard {
  readonly owner: string;
  readonly onAddress: WildcardListener;
  readonly onTaken: (address: string) => void;
}

const READY = Promise.resolve();

/**
 * Names and wildcards of services, each name with one address as long as a service has it. An address rests before another
 * name gets it, because clients may still use it. When names or addresses run out, the longest unused ones under wildcards go.
 */
export class Names {
  readonly #pool: AddressPool;
  readonly #isExcluded: (name: string) => boolean;
  readonly #isInUse: (address: string) => boolean;
  readonly #maxNames: number;
  readonly #restMs: number;
  readonly #now: () => number;
  readonly #byName = new Map<string, NameEntry>();
  readonly #byAddress = new Map<string, string>();
  /** Of `#byName`, those that are there by a wildcard only; the one that was not used for the longest time first. */
  readonly #found = new Map<string, NameEntry>();
  /** Names that no service has any more, the oldest first: their addresses rest. */
  readonly #resting = new Map<string, NameEntry>();
  /** By the suffix with its leading dot; of several services' the last one counts. */
  readonly #wildcards = new Map<string, Wildcard[]>();

  constructor(pool: AddressPool, o: NamesOptions = {}) {
    this.#pool = pool;
    this.#isExcluded = o.isExcluded ?? (() => false);
    this.#isInUse = o.isInUse ?? (() => false);
    this.#maxNames = o.maxNames ?? 65_536;
    this.#restMs = o.restMs ?? REST_MS;
    this.#now = o.now ?? (() => performance.now());
  }

  /** Of the addresses. */
  get family(): IpFamily {
    return this.#pool.family;
  }

  /** The address of the name, which `owner` has from now on, too. @throws InterceptError when no address is left */
  add(name: string, owner: string): string {
    const key = normalName(name);
    const entry = this.#byName.get(key) ?? this.#allocate(key);
    if (entry === undefined) {
      const message = `no address is left for the name ${key}: widen dnsSvcIpRange, or intercept fewer names`;
      throw new InterceptError("RANGE_EXHAUSTED", message);
    }
    entry.owners.add(owner);
    this.#found.delete(key);
    return entry.address;
  }

  /**
   * Names that end in `.domain` get addresses when they are asked for.
   * @param onTaken told when such a name has lost its address to another one
   * @returns true when the domain had another service, which it takes precedence over
   */
  addWildcard(
    pattern: string,
    owner: string,
    onAddress: WildcardListener,
    onTaken: (address: string) => void = () => {},
  ): boolean {
    const suffix = suffixOf(pattern);
    const others = this.#wildcards.get(suffix) ?? [];
    this.#wildcards.set(suffix, [...others.filter((other) => other.owner !== owner), { owner, onAddress, onTaken }]);
    return others.some((other) => other.owner !== owner);
  }

  /** Takes everything from a service; addresses of names that no other one has rest, and are free then. */
  removeOwner(owner: string): void {
    for (const [suffix, wildcards] of this.#wildcards) {
      const left = wildcards.filter((wildcard) => wildcard.owner !== owner);
      if (left.length > 0) this.#wildcards.set(suffix, left);
      else this.#wildcards.delete(suffix);
    }
    for (const [name, entry] of this.#byName) {
      const hadName = entry.owners.delete(owner);
      const hadWildcard = entry.wildcard?.owner === owner;
      if (hadWildcard) entry.wildcard = undefined;
      if ((!hadName && !hadWildcard) || entry.owners.size > 0) continue;
      if (entry.wildcard === undefined) this.#rest(name, entry);
      else this.#touch(name, entry);
    }
  }

  /** Name and wildcard are tried; a name found by a wildcard, the most specific one, gets its address now. */
  lookUp(name: string): Lookup {
    const key = normalName(name);
    const known = this.#byName.get(key);
    if (known !== undefined) {
      this.#touch(key, known);
      return { kind: "address", address: known.address, ready: known.ready };
    }
    const wildcard = this.#wildcardOf(key);
    if (wildcard === undefined) return { kind: "unknown" };
    const entry = this.#hasRoom(key) ? this.#allocate(key) : undefined;
    if (entry === undefined) return { kind: "exhausted" };
    entry.wildcard = wildcard;
    entry.ready = wildcard.onAddress(key, entry.address);
    this.#touch(key, entry);
    return { kind: "address", address: entry.address, ready: entry.ready };
  }

  /** True for names that a service has, by themselves or by a wildcard. */
  knows(name: string): boolean {
    const key = normalName(name);
    return this.#byName.has(key) || this.#wildcardOf(key) !== undefined;
  }

  /** Of an address that a client has connected to. */
  nameOf(address: string): string | undefined {
    const name = this.#byAddress.get(address);
    const entry = name === undefined ? undefined : this.#byName.get(name);
    if (name !== undefined && entry !== undefined) this.#touch(name, entry);
    return name;
  }

  #wildcardOf(name: string): Wildcard | undefined {
    for (let dot = name.indexOf("."); dot >= 0; dot = name.indexOf(".", dot + 1)) {
      const wildcard = this.#wildcards.get(name.slice(dot))?.at(-1);
      if (wildcard !== undefined) return this.#isExcluded(name) ? undefined : wildcard;
    }
    return undefined;
  }

  #allocate(name: string): NameEntry | undefined {
    const before = this.#resting.get(name);
    this.#resting.delete(name);
    const address = before?.address ?? this.#freeAddress();
    if (address === undefined) return undefined;
    const entry: NameEntry = { address, owners: new Set(), wildcard: undefined, ready: READY, lastUse: this.#now() };
    this.#byName.set(name, entry);
    this.#byAddress.set(address, name);
    return entry;
  }

  #freeAddress(): string | undefined {
    this.#freeRested();
    return this.#pool.take() ?? (this.#evict() ? this.#pool.take() : undefined);
  }

  #freeRested(): void {
    for (;;) {
      const rested = this.#oldestUnused(this.#resting);
      if (rested === undefined) return;
      this.#resting.delete(rested.name);
      this.#pool.free(rested.entry.address);
    }
  }

  /** Whether one name more may be kept, or one that comes back. */
  #hasRoom(name: string): boolean {
    // One that comes back gets its address again, however long it has rested.
    if (!this.#resting.has(name)) this.#freeRested();
    return this.#byName.size + this.#resting.size < this.#maxNames || this.#resting.has(name) || this.#evict();
  }

  /** Takes its address from a name under a wildcard that is not used any more. */
  #evict(): boolean {
    const oldest = this.#oldestUnused(this.#found);
    if (oldest === undefined) return false;
    const { name, entry } = oldest;
    this.#found.delete(name);
    this.#byName.delete(name);
    this.#byAddress.delete(entry.address);
    this.#pool.free(entry.address);
    entry.wildcard?.onTaken(entry.address);
    return true;
  }

  /** The first of them if no client can be using its address. Those that have a connection go to the end of the line. */
  #oldestUnused(entries: Map<string, NameEntry>): { name: string; entry: NameEntry } | undefined {
    for (const [name, entry] of entries) {
      if (this.#now() - entry.lastUse < this.#restMs) return undefined;
      if (!this.#isInUse(entry.address)) return { name, entry };
      entries.delete(name);
      entries.set(name, entry);
      entry.lastUse = this.#now();
    }
    return undefined;
  }

  #touch(name: string, entry: NameEntry): void {
    entry.lastUse = this.#now();
    if (entry.wildcard === undefined || entry.owners.size > 0) return;
    this.#found.delete(name);
    this.#found.set(name, entry);
  }

  #rest(name: string, entry: NameEntry): void {
    entry.lastUse = this.#now();
    this.#found.delete(name);
    this.#byName.delete(name);
    this.#byAddress.delete(entry.address);
    this.#resting.set(name, entry);
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

/** Hands out the addresses of a range: the freed ones first, in the order in which they were freed, then the next new one. */
export class AddressPool {
  readonly #family: IpFamily;
  readonly #last: bigint;
  readonly #freed: bigint[] = [];
  readonly #taken = new Set<bigint>();
  #next: bigint;

  /**
   * @param range `address/length`: the first address given out is the one after `address` (100.64.0.2 of `100.64.0.1/10`),
   *   the last one is the highest of the range
   * @throws InterceptError when it is no range
   */
  constructor(range: string) {
    const parsed = parseRange(range);
    const start = parseIp(range.split("/")[0] ?? "");
    if (parsed === undefined || start === undefined || !range.includes("/")) {
      throw new InterceptError("BAD_RANGE", `"${range}" is no range of addresses; expected one like 100.64.0.1/10`);
    }
    this.#family = parsed.family;
    this.#last = parsed.base + (1n << BigInt(widthOf(parsed.family) - parsed.length)) - 1n;
    this.#next = start.value + 1n;
  }

  get family(): IpFamily {
    return this.#family;
  }

  /** Undefined when all are taken. */
  take(): string | undefined {
    let value = this.#freed.shift();
    if (value === undefined) {
      if (this.#next > this.#last) return undefined;
      value = this.#next++;
    }
    this.#taken.add(value);
    return formatIp(this.#family, value);
  }

  free(address: string): void {
    const ip = parseIp(address);
    if (ip !== undefined && this.#taken.delete(ip.value)) this.#freed.push(ip.value);
  }
}
