import { InterceptError, type InterceptTarget, type PortRange, type Protocol } from "../interceptor.ts";
import { contains, formatRange, type IpRange, parseIp, parseRange, widthOf } from "../ip-range.ts";

/** What is intercepted for one service, by address. Names have been replaced by their addresses. */
export interface Intercept {
  /** Of the service. */
  readonly id: string;
  readonly name: string;
  readonly protocols: readonly Protocol[];
  /** Grows when a name under a wildcard is asked for. */
  readonly ranges: IpRange[];
  readonly ports: readonly PortRange[];
  /** Empty: every client. */
  readonly sources: readonly IpRange[];
}

/** Where a client sends from and to. */
export interface Ends {
  readonly protocol: Protocol;
  readonly sourceIp: string;
  readonly destinationIp: string;
  readonly destinationPort: number;
}

/**
 * Of the intercepts that cover these ends, the most specific one: the smallest range of addresses, then the smallest
 * range of ports, then the first by name. Undefined when none does.
 */
export function bestMatch<T extends Intercept>(intercepts: Iterable<T>, ends: Ends): T | undefined {
  const source = parseIp(ends.sourceIp);
  const destination = parseIp(ends.destinationIp);
  if (source === undefined || destination === undefined) return undefined;
  let best: { readonly intercept: T; readonly score: number } | undefined;
  for (const intercept of intercepts) {
    if (!intercept.protocols.includes(ends.protocol)) continue;
    if (intercept.sources.length > 0 && !intercept.sources.some((range) => contains(range, source))) continue;
    const hostBits = smallest(
      intercept.ranges.filter((range) => contains(range, destination)).map((r) => widthOf(r.family) - r.length),
    );
    const { destinationPort: port } = ends;
    const ports = smallest(intercept.ports.filter((r) => r.low <= port && port <= r.high).map((r) => r.high - r.low));
    if (hostBits === undefined || ports === undefined) continue;
    const score = hostBits * 0x10000 + ports;
    if (best === undefined || score < best.score || (score === best.score && intercept.name < best.intercept.name)) {
      best = { intercept, score };
    }
  }
  return best?.intercept;
}

/** The parts of a target's addresses. */
export interface Addresses {
  readonly ranges: readonly IpRange[];
  readonly names: readonly string[];
  readonly wildcards: readonly string[];
}

/** A host name as in a configuration: labels of letters, digits, `-` and `_`. */
const NAME = /^(?=.{1,253}\.?$)([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*\.?$/i;

/** Programs of this machine find each other by it (RFC 6761). */
const OWN_NAME = /^(.+\.)?localhost\.?$/i;

/** @throws InterceptError for an address that is none of the forms */
export function sortAddresses(target: Pick<InterceptTarget, "name" | "addresses">): Addresses {
  const sorted = { ranges: [] as IpRange[], names: [] as string[], wildcards: [] as string[] };
  for (const address of target.addresses) {
    const range = parseRange(address);
    if (range !== undefined) sorted.ranges.push(range);
    else if (OWN_NAME.test(address)) throw badTarget(target.name, `"${address}" is this machine`, "another name");
    else if (address.startsWith("*.") && NAME.test(address.slice(2))) sorted.wildcards.push(address);
    // A name of digits only is a mistyped address.
    else if (NAME.test(address) && !/^[\d.]+$/.test(address)) sorted.names.push(address);
    else {
      const expected = "an IP address, a CIDR range, a host name or *.domain";
      throw badTarget(target.name, `"${address}" is no address`, expected);
    }
  }
  if (target.addresses.length === 0) throw badTarget(target.name, "it has no addresses", "at least one");
  return sorted;
}

/** Sorted, without overlaps. @throws InterceptError */
export function sortPorts(target: Pick<InterceptTarget, "name" | "portRanges">): PortRange[] {
  const isPort = (port: number): boolean => Number.isInteger(port) && port >= 0 && port <= 65_535;
  for (const { low, high } of target.portRanges) {
    if (!isPort(low) || !isPort(high) || low > high) {
      throw badTarget(target.name, `${low}-${high} is no range of ports`, "0 to 65535, low not above high");
    }
  }
  if (target.portRanges.length === 0) throw badTarget(target.name, "it has no ports", "at least one range");
  return mergePorts(target.portRanges);
}

/** @throws InterceptError */
export function sortSources(target: Pick<InterceptTarget, "name" | "allowedSourceAddresses">): IpRange[] {
  return target.allowedSourceAddresses.map((text) => {
    const range = parseRange(text);
    if (range === undefined)
      throw badTarget(target.name, `source "${text}" is no address`, "an IP address or a CIDR range");
    return range;
  });
}

export function mergePorts(ranges: readonly PortRange[]): PortRange[] {
  const merged: PortRange[] = [];
  for (const range of ranges.toSorted((a, b) => a.low - b.low)) {
    const last = merged.at(-1);
    if (last !== undefined && range.low <= last.high + 1) {
      merged[merged.length - 1] = { low: last.low, high: Math.max(last.high, range.high) };
    } else merged.push({ low: range.low, high: range.high });
  }
  return merged;
}

export function describe(ranges: readonly IpRange[]): string {
  return ranges.map(formatRange).join(", ");
}

function badTarget(service: string, found: string, expected: string): InterceptError {
  return new InterceptError("BAD_TARGET", `service ${service}: ${found}; expected ${expected}`);
}

function smallest(values: readonly number[]): number | undefined {
  return values.length === 0 ? undefined : Math.min(...values);
}
